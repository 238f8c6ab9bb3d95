select prices.asset_id, prices.is_custom_asset, prices.price_state, prices.as_of, assets.portfolios
from prices_as_of($day, $quote) as prices
inner join holdings_by_asset as assets using (asset_id, is_custom_asset)
where prices.price_state <> 'priced'
order by assets.portfolios desc, prices.asset_id, prices.is_custom_asset
