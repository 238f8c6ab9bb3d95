-- For each asset, the holdings by portfolio, by venue and by asset have the same sum as the control
-- totals.
--
-- severity: error
-- asset_id: The asset whose sums differ.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- stated: Sum of the control totals of the asset. NULL if the asset has no control totals.
-- holdings: The sum over all portfolios.
-- by_venue: The sum over all venues.
-- by_asset: Total of the asset in holdings_by_asset.
-- example: select asset_id, is_custom_asset, exact_sum(total_text) as total from holdings group by all

with amounts as (
    select
        'stated' as source,
        asset_id,
        is_custom_asset,
        null::decimal(38, 18) as total,
        in_lake as total_text
    from ops.control_totals
    inner join ops.snapshots using (snapshot_id)
    where measure = 'sum'
        and is_book
        and snapshots.snapshot_date = (select max(balances.snapshot_date) from balances)
    union all
    select 'holdings', asset_id, is_custom_asset, total, total_text
    from holdings
    union all
    select 'by_venue', asset_id, is_custom_asset, total, total_text
    from holdings_by_venue
    union all
    select 'by_asset', asset_id, is_custom_asset, total, total_text
    from holdings_by_asset
),

sums as (
    select
        source,
        asset_id,
        is_custom_asset,
        internal.exact_sums([internal.exact_part(total, total_text)])[1].text as total_text
    from amounts
    group by all
),

compared as (
    select
        asset_id,
        is_custom_asset,
        max(total_text) filter (where source = 'stated') as stated,
        max(total_text) filter (where source = 'holdings') as holdings,
        max(total_text) filter (where source = 'by_venue') as by_venue,
        max(total_text) filter (where source = 'by_asset') as by_asset
    from sums
    group by all
)

select
    asset_id,
    is_custom_asset,
    stated,
    holdings,
    by_venue,
    by_asset
from compared
where coalesce(stated, '0') <> coalesce(holdings, '0')
    or coalesce(stated, '0') <> coalesce(by_venue, '0')
    or coalesce(stated, '0') <> coalesce(by_asset, '0')
