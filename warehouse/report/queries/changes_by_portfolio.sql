select
    portfolio_name as portfolio,
    portfolio_id,
    asset_id,
    is_custom_asset,
    exact_sum(delta_text) as delta,
    count(*) as amounts
from changes
group by all
order by amounts desc, portfolio_id, asset_id, is_custom_asset
