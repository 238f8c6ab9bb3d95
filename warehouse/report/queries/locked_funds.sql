select
    asset_id,
    is_custom_asset,
    bucket,
    -- The same as exact_sum(amount_text), but a third faster, because it does not read all texts.
    internal.exact_sums([internal.exact_part(amount, amount_text)])[1].text as locked,
    count(distinct portfolio_id) as portfolios,
    count(distinct venue_id) as venues,
    count(*) as accounts
from balances
-- The condition of the view locked_funds, which first adds up by portfolio and venue.
where (state = 'locked' or state like '%.locked') and amount is distinct from 0
group by asset_id, is_custom_asset, bucket
order by $pinned_first, portfolios desc, venues desc, accounts desc, asset_id, is_custom_asset, bucket
