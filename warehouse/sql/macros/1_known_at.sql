-- known_at(moment): The snapshot that was the book of each date at that moment, by the decisions until then.
--
-- This shows the state before a night was retaken, accepted late or rejected. `totals_known_at` has
-- its totals, and `restated_since` has the differences from today.
--
-- moment: A time, like timestamptz '2026-11-20 08:00:00+00'. A date means its midnight in the time
--     zone of the client.
-- returns: A table: snapshot_date, snapshot_id, decided_by, decided_at, reason, and is_book, which
--     is true if it is the date's book today. A date without a book at that moment has no row.
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
