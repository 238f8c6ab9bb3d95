-- Slices that nearly vanished or multiplied between two files of balances, `before` and `now`.
with amounts as (
    select *, false as is_now from before
    union all
    select *, true from now
),
split as (
    select
        *,
        case when abs(amount) < 1000000000000 then amount end as small,
        case
            when amount is null or abs(amount) >= 1000000000000
                then abs(try_cast(amount_text as double))
        end as large
    from amounts
    where portfolio_id not in (select unnest($without::varchar[]))
),
-- One group for each asset of a slice, and one for each asset of the whole book (without a kind).
sums as (
    select
        case
            when grouping(venue_id) = 0 then 'venue'
            when grouping(portfolio_id) = 0 then 'portfolio'
            when grouping(bucket) = 0 then 'balance kind'
        end as kind,
        coalesce(venue_id, portfolio_id, bucket) as identity,
        asset_id,
        is_custom_asset,
        is_now,
        coalesce(sum(abs(small)), 0) as small,
        coalesce(sum(large), 0) as large
    from split
    group by grouping sets (
        (venue_id, asset_id, is_custom_asset, is_now),
        (portfolio_id, asset_id, is_custom_asset, is_now),
        (bucket, asset_id, is_custom_asset, is_now),
        (asset_id, is_custom_asset, is_now)
    )
),
assets as (
    select
        kind,
        identity,
        asset_id,
        is_custom_asset,
        sum(if(is_now, 0, small))::double + sum(if(is_now, 0, large)) as before,
        sum(if(is_now, small, 0))::double + sum(if(is_now, large, 0)) as now,
        -- Small amounts are subtracted as decimals, because large ones leave no digits for them.
        -- The large sums can be infinite.
        abs(
            sum(if(is_now, small, -small))::double
            + if(
                sum(if(is_now, large, 0)) = sum(if(is_now, 0, large)),
                0,
                sum(if(is_now, large, 0)) - sum(if(is_now, 0, large))
            )
        ) as change
    from sums
    group by all
),
-- Money that moves from trading to staking makes one balance kind fall and another one rise. The
-- book still has it, so an asset counts for a balance kind only if the book lost it as well.
moved as (
    select
        assets.*,
        assets.kind <> 'balance kind' or book.change > assets.before / 2 as is_lost
    from assets
    inner join assets as book using (asset_id, is_custom_asset)
    where assets.kind is not null and book.kind is null
),
slices as (
    select
        kind,
        identity,
        count(*) filter (before > 0) as assets,
        count(*) filter (before > 0 and now < before / $scale and is_lost) as fallen,
        count(*) filter (before > 0 and now > before * $scale and is_lost) as risen,
        count(*) filter (before = 0 and now > 0) as added,
        count(*) filter (now > 0) as remaining
    from moved
    group by all
)
-- If other assets were added, then the missing ones were sold or renamed, not lost.
select
    kind,
    identity,
    case when risen > 0 then 'rose' when remaining > 0 then 'fell' else 'gone' end as change,
    assets,
    if(risen > 0, risen, fallen) as moved
from slices
where assets >= 2
    and (risen >= 0.9 * assets or (fallen >= 0.9 * assets and risen = 0 and added = 0))
order by kind, identity
