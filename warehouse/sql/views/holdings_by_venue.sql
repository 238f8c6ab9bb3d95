-- Holdings at each venue by asset, summed over all portfolios.
--
-- snapshot_date: Business date of the book.
-- venue_id: The venue where the asset is kept.
-- asset_id: Asset ID. Amounts of different assets are never added together.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- form: holdings by snapshot_date, venue_id, asset_id, is_custom_asset
-- portfolios: Number of portfolios that list the asset.
-- accounts: Number of accounts for the asset, including empty accounts.
-- venue_name: Display name of the venue. NULL if the venue is not in the list of venues.
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
