-- How the total of each asset moved since the book before: no asset alone holds a night.
--
-- An asset that is sold out, bought, swept or wrong shows here, with its totals before and after.
-- One row per asset whose total is new, gone, of another sign, or moved by more than a fifth. The
-- totals are those of ops.control_totals, exact. Where there is no book before, there is no row.
--
-- snapshot_date: Business date of the book.
-- asset_id: Asset whose total moved.
-- is_custom_asset: Whether the asset is one the organization defined itself.
-- move: new, gone, turned (its sign), fell or rose.
-- severity: text, so sort by severity_rank; high where it turned, or is more than eight times what it was, or less than an eighth;
--     medium where it is gone, or more than twice or less than half; low otherwise.
-- before: The total before; NULL where DECIMAL(38,18) cannot hold it exactly.
-- before_text: The same, exact; 0 where there was none.
-- after: The total now; NULL where DECIMAL(38,18) cannot hold it exactly.
-- after_text: The same, exact; 0 where there is none.
-- severity_rank: 1 for high, 2 for medium, 3 for low.
-- example: select asset_id, move, before_text, after_text from asset_moves
--     order by severity_rank, asset_id

with books as (
    select
        snapshot_id,
        snapshot_date,
        row_number() over (order by snapshot_date desc) as place
    from internal.books
),

-- Added up once: planning an exact sum costs more than the sum of a night's few totals.
sums as (
    select
        place,
        asset_id,
        is_custom_asset,
        exact_sum(in_lake) as total_text
    from ops.control_totals as control_totals
    inner join books
        on books.snapshot_id = control_totals.snapshot_id
        and books.place <= 2
    where measure = 'sum'
    group by
        place,
        asset_id,
        is_custom_asset
),

totals as (
    select
        asset_id,
        is_custom_asset,
        coalesce(max(total_text) filter (where place = 2), '0') as before_text,
        coalesce(max(total_text) filter (where place = 1), '0') as after_text
    from sums
    group by
        asset_id,
        is_custom_asset
),

compared as (
    select
        *,
        coalesce(
            try_cast(before_text as double),
            case when starts_with(before_text, '-') then '-inf' else 'inf' end::double
        ) as was,
        coalesce(
            try_cast(after_text as double),
            case when starts_with(after_text, '-') then '-inf' else 'inf' end::double
        ) as now,
        abs(now) / nullif(abs(was), 0) as times
    from totals
)

select
    books.snapshot_date,
    compared.asset_id,
    compared.is_custom_asset,
    case
        when before_text = '0' then 'new'
        when after_text = '0' then 'gone'
        when (was < 0) <> (now < 0) then 'turned'
        when times < 1 then 'fell'
        else 'rose'
    end as move,
    case
        when before_text = '0' then 'low'
        when after_text = '0' then 'medium'
        when (was < 0) <> (now < 0) or times > 8 or times < 0.125 then 'high'
        when times > 2 or times < 0.5 then 'medium'
        else 'low'
    end as severity,
    internal.as_amount(before_text) as before,
    before_text,
    internal.as_amount(after_text) as after,
    after_text,
    case severity when 'high' then 1 when 'medium' then 2 else 3 end::bigint as severity_rank
from compared
inner join books
    on books.place = 1
where before_text <> after_text
    and exists (
        select 1
        from books
        where place = 2
    )
    and (
        before_text = '0'
        or after_text = '0'
        or (was < 0) <> (now < 0)
        -- Of floats, in which 3.96 is a little more than 1.2 times 3.3.
        or round(times, 9) < 0.8
        or round(times, 9) > 1.2
    )
