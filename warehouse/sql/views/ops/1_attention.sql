-- Problems that a person should look at, with the command to type. One row for each problem.
--
-- The view contains the problems that this database knows. `nightbook status` and the alerts also
-- report problems outside the database, for example a night that is late. The command-line program
-- adds the home to the command.
--
-- snapshot_date: Business date of the night or book with the problem.
-- code: Kind of the problem. held: a night is waiting for a decision. taken back: the book of a date
--     was rejected, at the earliest seven days before the newest night. unfinished: a night landed,
--     but is not judged. stale: the instruments of a venue are from an earlier night. drift: the API
--     sent data that is not as documented, for the first time. check: a check or a control total
--     failed. rejects: values from the API are not in the newest book. round: a list has a round number of records, so it may be only one page of several.
--     clock: this machine's clock is wrong. breaks: breaks are open. breaks-old: breaks have been
--     open for at least seven days. nothing-compared: the ledger was not compared with any position.
--     reference: a file in reference/, or rows of it, were not used. own: a check in checks/ or a
--     threshold that asks for alerts has findings.
-- severity: error, warning or info.
-- title: The problem in a few words.
-- message: The facts about the problem. It may have several lines.
-- command: The command to type, without the option --home.
-- cause: Identifies the problem. It consists of codes, and never of texts that may change. nightbook
--     sends one alert for each cause.
-- snapshot_id: The snapshot that is held, was rejected or is not judged. NULL for other problems.
-- file: The file or folder to look at, relative to the home. NULL if it is this database.
-- example: select severity, title, message, command from ops.attention order by severity, title

with book as (
    select
        max(snapshot_date) as snapshot_date,
        max_by(snapshot_id, snapshot_date) as snapshot_id,
        max_by(reject_count, snapshot_date) as reject_count
    from ops.snapshots
    where is_book
),

waiting as (
    select
        nights.snapshot_date,
        nights.snapshot_id,
        nights.reason,
        max(books.snapshot_date) as book_date,
        max(books.snapshot_id) filter (books.snapshot_date = nights.snapshot_date) as book_id
    from ops.snapshots as nights
    left join ops.snapshots as books
        on books.is_book
        and books.snapshot_date <= nights.snapshot_date
    where nights.state = 'held'
    group by
        nights.snapshot_date,
        nights.snapshot_id,
        nights.reason
),

held as (
    select
        snapshot_date,
        'held' as code,
        'warning' as severity,
        'the night of ' || snapshot_date || ' is held' as title,
        'Snapshot ' || snapshot_id || ' is waiting for your decision. '
        || case
            when book_date is null then 'There is no book yet.'
            when book_id is null then 'The book of ' || book_date || ' was not changed.'
            else 'The book of that date is still ' || book_id || '.'
        end
        || chr(10) || reason || chr(10)
        || 'The command only shows the changes that accepting the snapshot would make. Then accept '
        || 'or reject it. If access to data may have been lost, add --why ''your reason''.'
            as message,
        'nightbook accept ' || snapshot_id || ' --dry-run' as command,
        'held:' || snapshot_id as cause,
        snapshot_id,
        'landing/' || snapshot_date || '/' || snapshot_id as file
    from waiting
    where book_id is null or book_id < snapshot_id
    union all
    -- If the date has a newer book, one row for all of its held snapshots.
    select
        snapshot_date,
        'held',
        'warning',
        count(*) || case when count(*) = 1 then ' snapshot' else ' snapshots' end || ' of '
        || snapshot_date
        || ' held, but the date has a newer book',
        'The book of ' || snapshot_date || ' is still ' || max(book_id)
        || '. You may reject these snapshots: '
        || array_to_string(list(snapshot_id order by snapshot_id desc)[:5], ', ')
        || case when count(*) > 5 then ' and ' || (count(*) - 5) || ' more.' else '.' end,
        'nightbook snapshots',
        'held:' || max(snapshot_id),
        max(snapshot_id),
        'landing/' || snapshot_date || '/' || max(snapshot_id)
    from waiting
    where book_id > snapshot_id
    group by snapshot_date
),

-- Snapshots whose last decision rejected them, and whose decision before accepted them.
rejected as (
    select *
    from (
        select
            *,
            lag(state) over decisions as state_before,
            lag(decided_at) over decisions as accepted_at
        from ops.decisions
        window decisions as (partition by snapshot_id order by decision_no)
        qualify row_number() over (partition by snapshot_id order by decision_no desc) = 1
    )
    where state = 'rejected'
        and state_before = 'accepted'
        and accepted_at < decided_at
        and decided_at >= (select max(started_at) from ops.snapshots) - interval 7 day
),

-- The decisions about newer snapshots of the same date. Only these can end or restore the time in
-- which a snapshot is the book.
newer as (
    select
        rejected.snapshot_id,
        newer.snapshot_id as newer_id,
        newer.decision_no,
        newer.state,
        newer.decided_by,
        newer.decided_at,
        newer.decided_at >= rejected.accepted_at
        and newer.decided_at < rejected.decided_at as is_between
    from rejected
    inner join ops.decisions as newer
        on newer.snapshot_date = rejected.snapshot_date
        and newer.snapshot_id > rejected.snapshot_id
),

-- The times at which a rejected snapshot may have become the book.
moments as (
    select
        snapshot_id,
        accepted_at as moment
    from rejected
    union all
    select
        snapshot_id,
        decided_at
    from newer
    where is_between
),

newer_books as (
    select distinct
        snapshot_id,
        moment
    from (
        select
            moments.snapshot_id,
            moments.moment
        from moments
        inner join newer
            on newer.snapshot_id = moments.snapshot_id
            and (newer.decided_by = 'guards' or newer.decided_at <= moments.moment)
        group by
            moments.snapshot_id,
            moments.moment,
            newer.newer_id
        having max_by(newer.state, newer.decision_no) = 'accepted'
    )
),

nights as (
    select
        rejected.snapshot_date,
        'taken back' as code,
        'warning' as severity,
        'the book of ' || rejected.snapshot_date || ' was rejected' as title,
        'Snapshot ' || rejected.snapshot_id || ' was accepted, but was later rejected by '
        || rejected.decided_by || ': ' || rejected.reason || '. For that date, '
        || coalesce(
            'the book is ' || books.snapshot_id || ' again',
            'there is no book, only a gap'
        )
        || '. Files made from it:' || chr(10) || coalesce(
            (
                select string_agg(withdrawn.file, chr(10) order by withdrawn.file)
                from ops.withdrawn as withdrawn
                where withdrawn.snapshot_id = rejected.snapshot_id
                    and withdrawn.rejected_at = rejected.decided_at
            ),
            'none'
        ) as message,
        'nightbook snapshots' as command,
        -- The time as in decision.json, because earlier versions stored these causes.
        'taken back:' || rejected.snapshot_id || ':'
        || replace(
            strftime(make_timestamp(epoch_us(rejected.decided_at)), '%Y-%m-%dT%H:%M:%S.%f'),
            '.000000',
            ''
        )
        || '+00:00' as cause,
        rejected.snapshot_id,
        'landing/' || rejected.snapshot_date || '/' || rejected.snapshot_id as file
    from rejected
    semi join (select * from moments anti join newer_books using (snapshot_id, moment)) as was_book
        using (snapshot_id)
    left join ops.snapshots as books
        on books.is_book
        and books.snapshot_date = rejected.snapshot_date
    union all
    select
        snapshot_date,
        'unfinished',
        'warning',
        'the night of ' || snapshot_date || ' was landed but not judged',
        'Snapshot ' || snapshot_id || ' is not a book, because the run that landed it did not '
        || 'finish, or its decision was lost. Its data is complete, and the next run judges and '
        || 'publishes it.',
        'nightbook run --date ' || snapshot_date,
        'unfinished:' || snapshot_id,
        snapshot_id,
        'landing/' || snapshot_date || '/' || snapshot_id
    from ops.snapshots
    where state = 'complete'
),

new_drift as (
    select
        first_seen,
        kind || ': ' || path || ' ' || word || ', ' || seen
        || case when seen = 1 then ' time' else ' times' end
        || ', for example ' || left(example, 80) as line
    from ops.drift
    where first_seen = (select max(snapshot_date) from ops.snapshots)
),

api as (
    select
        book.snapshot_date,
        'stale' as code,
        'warning' as severity,
        'venue ' || instruments.venue_id
        || case
            when any_value(failed.error) is null then ' lists no instruments'
            else ' could not be read'
        end as title,
        'Its ' || count(*) || case when count(*) = 1 then ' instrument is' else ' instruments are' end
        || ' from ' || instruments.stale_since || ', carried over since then. '
        || coalesce(
            any_value(failed.error),
            'Its lists are empty, without an error. The venue may have closed, or access may be '
            || 'lost.'
        ) as message,
        'nightbook query "select * from findings where kind = ''instruments_stale''"' as command,
        'stale:' || instruments.venue_id || ':' || instruments.stale_since as cause,
        null as snapshot_id,
        null as file
    from main.instruments
    cross join book
    left join (
        select
            requests.venue_id,
            any_value(requests.error) as error
        from ops.requests as requests
        inner join book
            on book.snapshot_id = requests.snapshot_id
        where requests.error is not null
        group by requests.venue_id
    ) as failed
        on failed.venue_id = instruments.venue_id
    where instruments.stale_since is not null
    group by
        book.snapshot_date,
        instruments.venue_id,
        instruments.stale_since
    union all
    select
        first_seen,
        'drift',
        'info',
        'the API sent ' || count(*)
        || case when count(*) = 1 then ' kind of data that is' else ' kinds of data that are' end
        || ' not as documented',
        'First seen on ' || first_seen || '. All responses are stored.' || chr(10)
        || array_to_string(list(line order by line)[:5], chr(10))
        || case when count(*) > 5 then chr(10) || 'and ' || (count(*) - 5) || ' more' else '' end,
        'nightbook query "select * from ops.drift order by first_seen desc"',
        'drift:' || first_seen || ':' || count(*),
        null,
        null
    from new_drift
    group by first_seen
),

incomplete as (
    select
        snapshot_date,
        'rejects' as code,
        'warning' as severity,
        reject_count || case when reject_count = 1 then ' value is' else ' values are' end
        || ' not in the book of ' || snapshot_date as title,
        'They are invalid, so sums are without them: see ops.rejects.' as message,
        'nightbook query "from ops.rejects where snapshot_id = ''' || snapshot_id || '''"' as command,
        'rejects:' || snapshot_id as cause,
        null as snapshot_id,
        null as file
    from book
    where reject_count > 0
),

lists as (
    select
        null as venue_id,
        'Portfolios' as list,
        count(*) as records
    from main.portfolios
    union all
    select
        venue_id,
        list,
        records
    from (
        select
            null as venue_id,
            'Venues' as list,
            count(*) as records
        from main.venues
        union all
        select
            venue_id,
            'Instruments of type ' || coalesce(type, 'unknown'),
            count(*)
        from main.instruments
        where stale_since is null
        group by
            venue_id,
            type
    )
),

-- The nights after the last night on which the clock needed no correction.
corrected as (
    select
        max(snapshot_date) as snapshot_date,
        min(snapshot_id) as first_id,
        make_timestamp(epoch_us(min(started_at))) as since,
        max_by(clock_skew_ms, snapshot_id) as skew
    from ops.snapshots
    where snapshot_id > coalesce(
        (select max(snapshot_id) from ops.snapshots where clock_skew_ms is null),
        ''
    )
    having count(*) > 0
),

reading as (
    select
        book.snapshot_date,
        'round' as code,
        'info' as severity,
        'a list has a round number of records' as title,
        string_agg(lists.list, ', ' order by lists.list) || ': exactly ' || lists.records
        || ' records. Check that the list is complete, not just one page of several.'
        || coalesce(' Venue: ' || lists.venue_id || '.', '') as message,
        'nightbook query "select * from findings where kind = ''round_count''"' as command,
        'round:' || coalesce(lists.venue_id, '') || ':' || lists.records as cause,
        null as snapshot_id,
        null as file
    from lists
    cross join book
    where lists.records >= 100
        and regexp_matches(lists.records::varchar, '^(1|2|25|5)0+$')
    group by
        book.snapshot_date,
        lists.venue_id,
        lists.records
    union all
    select
        snapshot_date,
        'clock',
        'warning',
        'this machine''s clock is wrong',
        'It has been ' || abs(skew) || ' ms ' || case when skew > 0 then 'behind' else 'ahead of' end
        || ' the API''s clock since ' || strftime(since, '%Y-%m-%d %H:%M')
        || ' UTC. Each run uses the API''s clock, and a night is held if its date would be '
        || 'different by this machine''s clock.',
        'timedatectl set-ntp true',
        'clock:' || first_id,
        null,
        null
    from corrected
),

failed_checks as (
    select
        snapshot_date,
        check_name,
        meaning,
        wrong_rows,
        example
    from ops.checks
    where not passed
        and check_name <> 'drift'
    union all
    select
        totals.snapshot_date,
        totals.table_name || ' control totals',
        'JSON, lake and warehouse agree.',
        count(*),
        min(totals.in_json || ' / ' || totals.in_lake)
    from ops.control_totals as totals
    inner join book
        on book.snapshot_id = totals.snapshot_id
    where totals.in_json <> totals.in_lake
        or totals.in_lake <> totals.in_warehouse
    group by
        totals.snapshot_date,
        totals.table_name
),

-- The latest day of each reconciliation, and the words for it.
ledger as (
    select
        reconciliation,
        snapshot_date,
        positions_compared,
        case
            when reconciliation = 'ledger' then 'Book against ledger'
            else 'Book against movements'
        end as about,
        case when reconciliation = 'ledger' then '' else ' --movements' end as option,
        case when reconciliation = 'ledger' then '' else ':' || reconciliation end as suffix,
        case
            when reconciliation = 'ledger' then 'reconcile'
            else reconciliation
        end as folder
    from ops.reconciliations
    qualify snapshot_date = max(snapshot_date) over (partition by reconciliation)
),

results as (
    select
        snapshot_date,
        'check' as code,
        'error' as severity,
        'check ' || check_name || ' failed' as title,
        meaning || ' On ' || snapshot_date || ', this rule was violated by ' || wrong_rows
        || case when wrong_rows = 1 then ' row' else ' rows' end
        || ', for example ' || example as message,
        'nightbook query "select * from ops.checks where not passed"' as command,
        'check:' || check_name || ':' || snapshot_date as cause,
        null as snapshot_id,
        null as file
    from failed_checks
    union all
    select
        snapshot_date,
        'nothing-compared',
        'warning',
        'the ledger was not compared with any position',
        about || ', ' || snapshot_date || ': 0 positions compared. The book has no '
        || 'positions in the scope of these files. Correct [file] in recon.toml, then reconcile '
        || 'again.',
        'nightbook reconcile run' || option,
        'nothing-compared:' || snapshot_date || suffix,
        null,
        folder || '/recon.toml'
    from ledger
    where positions_compared = 0
),

open_breaks as (
    select
        ledger.*,
        breaks.first_seen,
        breaks.break_id || ': '
        || case when breaks.result = 'Not in snapshot' then 'Not in book' else breaks.result end || ', '
        || concat_ws(
            ' / ',
            breaks.portfolio_id,
            breaks.asset_id || case when breaks.is_custom_asset then ' (custom)' else '' end,
            breaks.venue_id,
            breaks.account_name,
            breaks.bucket
        )
        || ', ' || case
            when breaks.ledger_text is null and breaks.result = 'Rejected' then 'amount not read'
            else breaks.difference_text
        end as line
    from ops.breaks as breaks
    inner join ledger
        on ledger.snapshot_date = breaks.snapshot_date
        and ledger.reconciliation = breaks.reconciliation
    where breaks.status not in ('Explained - accepted', 'Accepted by rule')
),

break_groups as (
    select
        snapshot_date,
        about,
        option,
        suffix,
        folder,
        'breaks' as code,
        '' as since,
        max(first_seen) as day,
        list(line order by first_seen, line) as lines
    from open_breaks
    group by all
    union all
    select
        snapshot_date,
        about,
        option,
        suffix,
        folder,
        'breaks-old',
        ' since ' || first_seen,
        first_seen,
        list(line order by line)
    from open_breaks
    where first_seen <= snapshot_date - 7
    group by all
),

breaks as (
    select
        snapshot_date,
        code,
        'warning' as severity,
        len(lines) || case when len(lines) = 1 then ' break is' else ' breaks are' end || ' open'
        || case when option = '' then '' else ' in the movement proof' end || since as title,
        about || ', ' || snapshot_date || ':' || chr(10)
        || array_to_string(lines[:5], chr(10))
        || case when len(lines) > 5 then chr(10) || 'and ' || (len(lines) - 5) || ' more' else '' end as message,
        'nightbook reconcile status' || option as command,
        code || ':' || day || suffix as cause,
        null as snapshot_id,
        folder || '/out/' || snapshot_date as file
    from break_groups
),

reference_problems as (
    select
        book.snapshot_date,
        'reference' as code,
        'warning' as severity,
        'reference/' || rejects.table_name || '/' || rejects.file || ' was not used'
        || case when min(rejects.line) is null then '' else ' completely' end as title,
        min_by(
            case when rejects.line is null then '' else 'Line ' || rejects.line || ': ' end
            || rejects.reason
            || case when rejects.value = '' then '' else ' (' || rejects.value || ')' end,
            coalesce(rejects.line, 0)
        )
        || case
            when max(files.reject_count) > 1
                then '. ' || max(files.reject_count) || ' rows were not used'
            else ''
        end
        || '. All other files and rows were used.' as message,
        'nightbook query "from ops.reference_rejects"' as command,
        'reference:' || rejects.table_name || ':'
        || coalesce(rejects.sha256, rejects.file || ':' || min(rejects.code)) as cause,
        null as snapshot_id,
        'reference/' || rejects.table_name || '/' || rejects.file as file
    from ops.reference_rejects as rejects
    cross join book
    left join ops.reference_files as files
        on files.table_name = rejects.table_name
        and files.sha256 = rejects.sha256
    -- A person can remove a bad file, which settles its problem.
    where rejects.sha256 is null
        or files.is_present
    group by
        book.snapshot_date,
        rejects.table_name,
        rejects.file,
        rejects.sha256
),

numbered_books as (
    select
        snapshot_date,
        row_number() over (order by snapshot_date) as book_no
    from ops.snapshots
    where is_book
),

-- The findings of each rule that asks for alerts. Findings in several books in a row are one cause.
alerted as (
    select
        found.snapshot_date,
        found.kind,
        found.name,
        count(*) as finding_count,
        list(found.words order by found.finding_no)[:5] as lines,
        books.book_no
        - row_number() over (partition by found.kind, found.name order by found.snapshot_date)
            as first_no
    from ops.own_findings as found
    inner join numbered_books as books
        on books.snapshot_date = found.snapshot_date
    where found.is_alert
    group by
        found.snapshot_date,
        found.kind,
        found.name,
        books.book_no
),

alerts as (
    select
        max(alerted.snapshot_date) as snapshot_date,
        'own' as code,
        'warning' as severity,
        alerted.name || ': ' || max_by(alerted.finding_count, alerted.snapshot_date)
        || case
            when max_by(alerted.finding_count, alerted.snapshot_date) = 1 then ' finding'
            else ' findings'
        end as title,
        array_to_string(max_by(alerted.lines, alerted.snapshot_date), chr(10)) as message,
        'nightbook query "select * from findings where kind = ''' || alerted.kind || '''"' as command,
        alerted.kind || ':' || alerted.name || ':' || min(alerted.snapshot_date) as cause,
        null as snapshot_id,
        null as file
    from alerted
    group by
        alerted.kind,
        alerted.name,
        alerted.first_no
    having max(alerted.snapshot_date) = (select book.snapshot_date from book)
)

-- Each union has only two parts. DuckDB 2.0 would store longer ones in a form from which DuckDB 1.2
-- to 1.4 silently omit rows.
select * from (
    select * from (select * from held union all select * from nights)
    union all
    select * from (
        select * from api
        union all
        select * from (select * from reading union all select * from incomplete)
    )
)
union all
select * from (
    select * from results
    union all
    select * from (
        select * from breaks
        union all
        select * from (select * from reference_problems union all select * from alerts)
    )
)
