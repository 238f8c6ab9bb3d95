-- What each portfolio holds of each asset, over all venues and accounts.
--
-- snapshot_date: Business date of the book.
-- portfolio_id: Portfolio that holds the asset.
-- asset_id: Asset held; assets are never added to each other.
-- is_custom_asset: Whether the asset is one the organization defined itself.
-- form: holdings by snapshot_date, portfolio_id, asset_id, is_custom_asset
-- accounts: Accounts of the asset, also empty ones.
-- venues: Venues that keep one of those accounts.
-- portfolio_name: The portfolio's name for people; NULL where the API states none.
-- example: select portfolio_id, asset_id, total_text from holdings order by all

with counted as (
    select
        snapshot_date,
        portfolio_id,
        asset_id,
        is_custom_asset,
        count(*) as accounts,
        count(distinct venue_id) as venues
    from accounts
    group by all
)

select
    snapshot_date,
    portfolio_id,
    asset_id,
    is_custom_asset,
    coalesce(counted.accounts, 0) as accounts,
    coalesce(counted.venues, 0) as venues,
    portfolios.name as portfolio_name
from positions
left join counted using (snapshot_date, portfolio_id, asset_id, is_custom_asset)
left join portfolios using (snapshot_date, portfolio_id)
