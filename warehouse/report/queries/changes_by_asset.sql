with moved as (
    select asset_id, is_custom_asset, count(*) as amounts, exact_sum(delta_text) as delta
    from changes
    group by all
)

select
    asset_id,
    is_custom_asset,
    coalesce(earlier.total_text, '0') as before,
    coalesce(later.total_text, '0') as now,
    moved.delta,
    moved.amounts
from moved
left join holdings_by_asset_as_of($before) as earlier using (asset_id, is_custom_asset)
left join holdings_by_asset as later using (asset_id, is_custom_asset)
order by
    $pinned_first,
    coalesce(later.portfolios, earlier.portfolios) desc,
    coalesce(later.venues, earlier.venues) desc,
    coalesce(later.accounts, earlier.accounts) desc,
    asset_id,
    is_custom_asset
