-- What lies at each venue of each asset, over all portfolios.
--
-- snapshot_date: Business date of the book.
-- venue_id: Venue that keeps the asset.
-- asset_id: Asset held; assets are never added to each other.
-- is_custom_asset: Whether the asset is one the organization defined itself.
-- form: holdings by snapshot_date, venue_id, asset_id, is_custom_asset
-- portfolios: Portfolios that list the asset.
-- accounts: Accounts of the asset, also empty ones.
-- venue_name: The venue's name for people; NULL where the list of venues does not have it.
-- example: select venue_id, asset_id, total_text from holdings_by_venue order by all

with counted as (
    select
        snapshot_date,
        venue_id,
        asset_id,
        is_custom_asset,
        count(distinct portfolio_id) as portfolios,
        count(*) as accounts
    from accounts
    group by all
)

select
    snapshot_date,
    venue_id,
    asset_id,
    is_custom_asset,
    portfolios,
    accounts,
    venues.display_name as venue_name
from counted
left join venues using (snapshot_date, venue_id)
