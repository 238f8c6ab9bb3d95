with followed as (
    select
        asset_id,
        is_custom_asset,
        row_number() over (
            order by $pinned_first, portfolios desc, venues desc, accounts desc, asset_id, is_custom_asset
        ) as place
    from holdings_by_asset
    order by place
    limit 6
)

select
    followed.place,
    asset_id,
    is_custom_asset,
    totals.snapshot_date,
    exact_sum(totals.in_lake) as total
from followed
inner join ops.control_totals as totals using (asset_id, is_custom_asset)
inner join ops.snapshots as snapshots using (snapshot_id)
where snapshots.is_book and totals.table_name = 'balances' and totals.measure = 'sum'
group by all
order by followed.place, totals.snapshot_date
