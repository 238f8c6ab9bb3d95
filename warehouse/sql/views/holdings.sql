-- Holdings of each portfolio by asset, summed over all venues and accounts.
--
-- snapshot_date: Business date of the book.
-- portfolio_id: ID of the portfolio that holds the asset.
-- asset_id: Asset ID. Amounts of different assets are never added together.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- form: holdings by snapshot_date, portfolio_id, asset_id, is_custom_asset
-- accounts: Number of accounts for the asset, including empty accounts.
-- venues: Number of venues with at least one account of the asset.
-- portfolio_name: Display name of the portfolio. NULL if the API does not send a name.
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
