-- Large changes in asset totals since the previous book.
--
-- One row for each asset whose total is new or gone, changed its sign, or changed by more than
-- a fifth. Typically, the asset was bought, sold out, swept or misreported. The
-- exact totals come from ops.control_totals. If there is no previous book, the view is empty. A
-- change in a single asset never causes a night to be held.
--
-- snapshot_date: Business date of the book.
-- asset_id: The asset whose total moved.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- move: new, gone, turned (the sign changed), fell or rose.
-- severity: high if the sign changed, or if the total is more than eight times or less than an
--     eighth of the previous total. medium if the asset is gone, or if the total is more than twice
--     or less than half of the previous total. Otherwise low. Sort by severity_rank, because this
--     column is text.
-- before: Total in the previous book. NULL if DECIMAL(38,18) cannot hold the total exactly.
-- before_text: Total in the previous book as exact text. 0 if the asset was not in that book.
-- after: Total in this book. NULL if DECIMAL(38,18) cannot hold the total exactly.
-- after_text: Total in this book as exact text. 0 if the asset is not in this book.
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

-- Added up once, because planning an exact sum takes longer than adding the few totals.
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
        -- These are floats, in which 3.96 is a little more than 1.2 times 3.3.
        or round(times, 9) < 0.8
        or round(times, 9) > 1.2
    )
