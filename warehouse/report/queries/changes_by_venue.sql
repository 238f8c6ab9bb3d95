select
    venues.display_name as venue,
    changes.venue_id,
    changes.asset_id,
    changes.is_custom_asset,
    exact_sum(changes.delta_text) as delta,
    count(*) as amounts
from changes
left join venues using (venue_id)
group by all
order by amounts desc, venue_id, asset_id, is_custom_asset
