-- Each row has a parent row. A balance belongs to an account, an account to a position, and a
-- position to a portfolio.
--
-- Totals are added up by parent, so an orphan's money would be missing from all totals.
--
-- severity: error
-- table_name: The table of the orphan.
-- row_count: Number of rows without a parent row.
-- example: select * from balances anti join accounts using (portfolio_id, asset_id, venue_id)

with orphans as (
    select 'balances' as table_name
    from balances
    anti join accounts using (
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no
    )
    union all
    select 'accounts'
    from accounts
    anti join positions using (portfolio_id, asset_id, is_custom_asset)
    union all
    select 'positions'
    from positions
    anti join portfolios using (portfolio_id)
    union all
    select 'integrations'
    from integrations
    anti join portfolios using (portfolio_id)
    union all
    select 'venue_types'
    from venue_types
    anti join venues using (venue_id)
    union all
    select 'instruments'
    from instruments
    anti join venues using (venue_id)
)

select
    table_name,
    count(*) as row_count
from orphans
group by table_name
