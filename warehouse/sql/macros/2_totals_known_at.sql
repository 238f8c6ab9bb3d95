-- totals_known_at(day, moment): The total of each asset on a day, as it was known at a moment in
-- the past.
--
-- The exact totals come from ops.control_totals. The totals are also available for nights that were
-- replaced or rejected later, until these nights are pruned.
--
-- day: Any date. The macro uses the newest book on or before this date that was known at the
--     moment. If there was no such book, or if its totals are pruned, the macro fails.
-- moment: A time, as in the macro known_at.
-- returns: A table: snapshot_date, snapshot_id, asset_id, is_custom_asset, total (NULL if
--     DECIMAL(38,18) cannot hold it exactly) and total_text (exact).
-- example: select * from totals_known_at(current_date, now()) order by all limit 10

create or replace macro totals_known_at(day, moment) as table
with known_book as (
    select
        max(known.snapshot_date) as snapshot_date,
        max_by(known.snapshot_id, known.snapshot_date) as snapshot_id
    from known_at(moment) as known
    where known.snapshot_date <= day::date
),

readable_book as (
    select
        known_book.snapshot_date,
        known_book.snapshot_id,
        case
            when known_book.snapshot_id is null
                then error('no book was known then: see ops.decisions')
            when (
                select count(*)
                from ops.control_totals as totals
                where totals.snapshot_id = known_book.snapshot_id
            ) = 0
                then error(known_book.snapshot_id || ' was the book then and is pruned')
        end as failure
    from known_book
),

sums as (
    select
        readable_book.snapshot_date,
        readable_book.snapshot_id,
        totals.asset_id,
        totals.is_custom_asset,
        exact_sum(totals.in_lake) as total_text,
        max(readable_book.failure) as failure
    from readable_book
    left join ops.control_totals as totals
        on totals.snapshot_id = readable_book.snapshot_id
        and totals.measure = 'sum'
    group by
        readable_book.snapshot_date,
        readable_book.snapshot_id,
        totals.asset_id,
        totals.is_custom_asset
)

select
    snapshot_date,
    snapshot_id,
    asset_id,
    is_custom_asset,
    internal.as_amount(total_text) as total,
    total_text
from sums
where asset_id is not null
    and failure is null;
