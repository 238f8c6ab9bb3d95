-- Every row has its parent: balances an account, accounts a position, positions a portfolio.
--
-- A total is taken over the parent, so that an orphan's money would be in no total.
--
-- severity: error
-- table_name: Table of the orphan.
-- row_count: How many rows of it have no parent.
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
