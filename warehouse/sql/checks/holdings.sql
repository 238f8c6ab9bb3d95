-- What is held adds up to the same, of each asset, by portfolio, by venue and by asset, as the amounts.
--
-- severity: error
-- asset_id: The asset that does not add up.
-- is_custom_asset: Whether the organization defined it itself.
-- balances: The exact sum of its amounts; NULL where there is none.
-- holdings: The same over all portfolios.
-- by_venue: The same over all venues.
-- by_asset: The same as one row has it.
-- example: select asset_id, is_custom_asset, exact_sum(total_text) as total from holdings group by all

with amounts as (
    select 'balances' as source, asset_id, is_custom_asset, amount as total, amount_text as total_text
    from balances
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
        max(total_text) filter (where source = 'balances') as balances,
        max(total_text) filter (where source = 'holdings') as holdings,
        max(total_text) filter (where source = 'by_venue') as by_venue,
        max(total_text) filter (where source = 'by_asset') as by_asset
    from sums
    group by all
)

select
    asset_id,
    is_custom_asset,
    balances,
    holdings,
    by_venue,
    by_asset
from compared
where coalesce(balances, '0') <> coalesce(holdings, '0')
    or coalesce(balances, '0') <> coalesce(by_venue, '0')
    or coalesce(balances, '0') <> coalesce(by_asset, '0')
