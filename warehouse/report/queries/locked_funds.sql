select
    asset_id,
    is_custom_asset,
    bucket,
    exact_sum(locked_text) as locked,
    count(distinct portfolio_id) as portfolios,
    count(distinct venue_id) as venues,
    sum(accounts)::bigint as accounts
from locked_funds
group by all
order by accounts desc, asset_id, is_custom_asset, bucket
