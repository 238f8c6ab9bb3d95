select
    asset_id, is_custom_asset, free_text, locked_text, other_text, total_text, portfolios, accounts
from holdings_by_asset
order by $pinned_first, portfolios desc, venues desc, accounts desc, asset_id, is_custom_asset
