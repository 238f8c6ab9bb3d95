select *
from firm_holdings_by_asset
order by sources desc, accounts desc, asset_id, is_custom_asset, custom_of
