select
    venue_name as venue,
    venue_id,
    asset_id,
    is_custom_asset,
    exact_sum(delta_text) as delta,
    count(*) as amounts
from changes
group by all
order by amounts desc, venue_id, asset_id, is_custom_asset
