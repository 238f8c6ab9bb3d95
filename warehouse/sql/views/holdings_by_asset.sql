-- Holdings by asset, summed over all portfolios, venues and accounts.
--
-- snapshot_date: Business date of the book.
-- asset_id: Asset ID. Amounts of different assets are never added together.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- form: holdings by snapshot_date, asset_id, is_custom_asset
-- portfolios: Number of portfolios that list the asset.
-- accounts: Number of accounts for the asset, including empty accounts.
-- venues: Number of venues with at least one account of the asset.
-- example: select asset_id, is_custom_asset, total_text from holdings_by_asset order by all

with held as (
    select
        snapshot_date,
        asset_id,
        is_custom_asset,
        count(distinct portfolio_id) as portfolios
    from positions
    group by all
),

counted as (
    select
        snapshot_date,
        asset_id,
        is_custom_asset,
        count(*) as accounts,
        count(distinct venue_id) as venues
    from accounts
    group by all
)

select
    snapshot_date,
    asset_id,
    is_custom_asset,
    portfolios,
    coalesce(counted.accounts, 0) as accounts,
    coalesce(counted.venues, 0) as venues
from held
left join counted using (snapshot_date, asset_id, is_custom_asset)
