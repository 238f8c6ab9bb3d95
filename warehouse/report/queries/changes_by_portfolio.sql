select
    coalesce(later.name, earlier.name) as portfolio,
    changes.portfolio_id,
    changes.asset_id,
    changes.is_custom_asset,
    exact_sum(changes.delta_text) as delta,
    count(*) as amounts
from changes
left join portfolios as later using (portfolio_id)
left join portfolios_before as earlier using (portfolio_id)
group by all
order by amounts desc, portfolio_id, asset_id, is_custom_asset
