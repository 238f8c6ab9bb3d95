-- known_at(moment): Which snapshot was the book of each date, by all that was decided until then.
--
-- What we believed before a night was taken again, accepted late or rejected. Its totals are in
-- `totals_known_at`; what differs now is in `restated_since`.
--
-- moment: A time, like timestamptz '2026-11-20 08:00:00+00'; a date is its first instant, UTC where
--     the client's time zone is UTC.
-- returns: A table: snapshot_date, snapshot_id, decided_by, decided_at, reason, and is_book, whether
--     it is the date's book today. A date without a book by then has no row.
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
