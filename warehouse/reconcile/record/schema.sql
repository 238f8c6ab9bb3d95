-- The state of a reconciliation: one SQLite file, record.db, in the folder `reconcile` of a home.
-- Dates are ISO 8601 text, times are ISO 8601 text with an offset, and amounts are exact text. Columns that are
-- only read as a whole are JSON: fields, names, own_settings, shown, skipped and covers.

-- One row for each run. day_no numbers the runs of a day, and only the run with the highest number is valid.
-- prior is the earlier run with which this run was compared.
create table runs (
  no integer primary key, day text not null, day_no integer not null, run_id text not null, digest text not null,
  prior integer references runs, name text not null, snapshot_id text not null, fields text not null,
  settings_sha256 text not null, own_settings text, rejected integer not null, uncovered integer,
  revision integer not null, written text not null, made_at text not null, made_by text not null, shown text not null,
  unique (day, day_no)
);
create index runs_by_run_id on runs (run_id);

-- The breaks that a run found, did not compare, or resolved. A column of the key is NULL if breaks at this level
-- do not have it.
create table breaks (
  run_no integer not null references runs on delete cascade, place integer not null,
  state text not null check (state in ('break', 'not compared', 'resolved')), break_id text not null,
  episode integer not null, portfolio text, asset text not null, venue text, account text, bucket text,
  names text not null, result text not null, ledger text, snapshot text, difference text not null,
  ledger_rows integer not null, source text not null, rule text not null, placement text not null, cause text not null,
  note text not null, first_seen text not null, ever_seen text not null, age_days integer not null, change text not null,
  status text not null, owner text not null, root_cause text not null, comment text not null, accepted text not null,
  closed_on text, closed_because text, value text default null, currency text not null default '',
  price_state text not null default '',
  primary key (run_no, state, place)
) without rowid;
create index breaks_by_id on breaks (break_id, run_no);

create table ties (
  run_no integer not null references runs on delete cascade, place integer not null, level text not null,
  name text not null, asset text not null, keys integer not null, breaks integer not null, ledger text not null,
  snapshot text not null, difference text not null, broken text not null, near text not null,
  primary key (run_no, place)
) without rowid;

create table run_inputs (
  run_no integer not null references runs on delete cascade, place integer not null, name text not null,
  sheet text not null, sha256 text not null, as_of text, row_count integer not null, used integer not null,
  rejected integer not null, skipped text not null, fingerprint text not null, fields text not null,
  covers text not null, profile text not null,
  primary key (run_no, place)
) without rowid;
create index inputs_by_sha256 on run_inputs (sha256);

-- The values that a workbook or the engine stated at one moment. Rows never change. If a revision of the engine is no
-- longer valid, it is listed in replacements.
create table revisions (
  no integer primary key, who text not null, at text not null, source text not null, sha256 text not null,
  run_id text not null, base_revision integer not null, read_for text, engine_day text
);
create table replacements (
  revision integer not null references revisions, replaced_by integer not null references revisions,
  primary key (revision, replaced_by)
) without rowid;
create table entries (
  revision integer not null references revisions, entry_no integer not null, break_id text not null,
  field text not null check (field in ('status', 'owner', 'root_cause', 'comment')), value text not null,
  episode integer, accepted text, said_on text, said_by text, note text, is_restored integer not null default 0,
  primary key (revision, entry_no)
) without rowid;
create index entries_by_break on entries (break_id, field, revision, entry_no);

create table notices (
  run_no integer references runs on delete cascade, revision integer references revisions, place integer not null,
  severity text not null, message text not null, location text not null, raw text not null,
  check ((run_no is null) <> (revision is null))
);
create index notices_by_owner on notices (run_no, revision, place);

create table signatures (
  no integer primary key, role text not null, who text not null, comment text not null, at text not null,
  day text not null, run_id text not null, digest text not null, open_breaks integer, entered_by text not null,
  source text not null, sha256 text not null
);
create table restatements (
  no integer primary key, day text not null, who text not null, why text not null, at text not null,
  run_before text not null, digest_before text not null
);
create table closings (
  no integer primary key, month text not null, version integer not null, through text not null, who text not null,
  at text not null, why text not null, basis text not null, pack text not null, sha256 text not null,
  size integer not null,
  unique (month, version)
);
create table closed_days (
  closing integer not null references closings, day text not null, run_id text not null, digest text not null,
  settings text not null,
  primary key (closing, day)
) without rowid;

create table ledgers_read (sha256 text primary key, first_day text not null) without rowid;
create table workbooks_seen (sha256 text primary key) without rowid;
-- Conventions learned from the columns of ledgers with the same header.
create table lessons (
  fingerprint text not null, name text not null, value text not null,
  primary key (fingerprint, name)
) without rowid;
-- The cells of each workbook as nightbook wrote them, compressed.
create table imprints (identity text primary key, content blob not null) without rowid;

create view newest_runs as
  select * from runs as r where day_no = (select max(day_no) from runs where day = r.day);

-- The open breaks of each day, including breaks that were not compared. The age counts from the first day of the
-- current occurrence.
create view open_breaks as
  select r.day, cast(julianday(r.day) - julianday(b.first_seen) as integer) as age, b.*
  from breaks as b join newest_runs as r on r.no = b.run_no
  where b.state <> 'resolved' and b.status not in ('Explained - accepted', 'Accepted by rule');

create view ages as
  select day, trim(owner) as owner, count(*) filter (where age <= 1) as to_1_day,
    count(*) filter (where age between 2 and 4) as to_4_days,
    count(*) filter (where age between 5 and 29) as to_29_days, count(*) filter (where age >= 30) as from_30_days,
    count(*) as in_all
  from open_breaks group by 1, 2;

-- The current value of each field of each break, with the decision about its status.
create view in_force as
  select break_id, field, value, episode, accepted, note, who, at, said_on, said_by
  from (
    select e.*, v.who, v.at,
      row_number() over (partition by e.break_id, e.field order by e.revision desc, e.entry_no desc) as nth
    from entries as e join revisions as v on v.no = e.revision
    where not e.is_restored and v.no not in (select revision from replacements)
  )
  where nth = 1;

-- Every run and every action of a person, for queries in SQL. The audit trail in workbooks and packs describes the same
-- rows in sentences.
create view trail as
  select v.at, v.who, 'entry' as kind, e.break_id as subject, e.field as detail, e.value, e.accepted,
    v.source as file, v.sha256, coalesce(v.read_for, v.engine_day) as day
  from entries as e join revisions as v on v.no = e.revision
  union all
  select v.at, v.who, 'notice', coalesce(nullif(n.raw, ''), n.location), n.severity, n.message, null,
    v.source, v.sha256, coalesce(v.read_for, v.engine_day)
  from notices as n join revisions as v on v.no = n.revision
  union all
  select at, who, 'signature', day, role, comment, run_id, source, sha256, day from signatures
  union all
  select made_at, made_by, iif(day_no = 1, 'run', 'rerun'), day, run_id,
    (select count(*) from breaks where run_no = r.no and state = 'break'),
    (select count(*) from breaks where run_no = r.no and state = 'break'
      and status not in ('Explained - accepted', 'Accepted by rule')),
    (select group_concat(name, ', ') from run_inputs where run_no = r.no),
    (select group_concat(sha256, ', ') from run_inputs where run_no = r.no), day
  from runs as r
  union all
  select made_at, made_by, 'settings', day, settings_sha256, before, null, '', '', day
  from (select *, lag(settings_sha256) over (order by day, day_no) as before from runs)
  where before <> '' and before <> settings_sha256
  union all
  select at, who, 'restatement', day, why, run_before, null, '', '', day from restatements
  union all
  select at, who, 'close', month, version, why, null, pack, sha256, through from closings;

pragma application_id = 1852336498;
pragma user_version = 1;
