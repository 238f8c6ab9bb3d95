-- known_at(moment): For each date, the snapshot that was its book at a moment in the past.
--
-- The result uses only the decisions made up to that moment, even if a night was read again,
-- accepted or rejected afterwards. `totals_known_at` returns the totals of these books,
-- and `restated_since` returns the differences from today's totals.
--
-- moment: A time, for example timestamptz '2026-11-20 08:00:00+00'. A date means midnight at the
--     start of this date, in the client's time zone.
-- returns: A table: snapshot_date, snapshot_id, decided_by, decided_at, reason, and is_book, which
--     is true if the snapshot is still the book for its date. Dates that had no book at that moment
--     have no row.
-- example: select * from known_at(now()) order by all limit 10

create or replace macro known_at(moment) as table
with decisions_then as (
    select
        *,
        row_number() over (
            partition by snapshot_id
            order by decision_no desc
        ) as age
    from ops.decisions
    where decided_at <= moment::timestamptz
),

newest as (
    select
        *,
        row_number() over (
            partition by snapshot_date
            order by snapshot_id desc
        ) as place
    from decisions_then
    where age = 1
        and state = 'accepted'
)

select
    newest.snapshot_date,
    newest.snapshot_id,
    newest.decided_by,
    newest.decided_at,
    newest.reason,
    snapshots.is_book
from newest
inner join ops.snapshots as snapshots
    on snapshots.snapshot_id = newest.snapshot_id
where newest.place = 1;
