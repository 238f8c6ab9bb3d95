select holdings.asset_id, holdings.is_custom_asset, holdings.accounts, holdings.venues, holdings.total_text$value_columns
from history.holdings as holdings
$prices
where holdings.snapshot_date = $day and holdings.portfolio_id = $portfolio
order by holdings.asset_id, holdings.is_custom_asset
