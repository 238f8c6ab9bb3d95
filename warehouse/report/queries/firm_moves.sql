select
    source,
    asset_id,
    is_custom_asset,
    move,
    severity,
    before_text,
    after_text
from asset_moves
order by severity_rank, source, asset_id, is_custom_asset
