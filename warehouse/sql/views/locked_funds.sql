-- Locked amounts, with one row for each portfolio, venue, asset and balance kind.
--
-- Zero amounts are left out. Undocumented balance kinds are included if they have a `locked` field
-- at any depth.
--
-- snapshot_date: Business date of the book.
-- portfolio_id: ID of the portfolio that holds the asset.
-- venue_id: The venue where the asset is kept.
-- asset_id: The locked asset.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- bucket: The kind of balance, as in `balances`.
-- locked: Sum of the locked amounts of all accounts. NULL if DECIMAL(38,18) cannot hold the sum
--     exactly.
-- locked_text: The amount in the column locked, as exact text.
-- accounts: Number of accounts with a locked amount.
-- portfolio_name: Display name of the portfolio. NULL if the API does not send a name.
-- venue_name: Display name of the venue. NULL if the venue is not in the list of venues.
-- example: select bucket, asset_id, is_custom_asset, exact_sum(locked_text) as locked
--     from locked_funds group by all

with sums as (
    select
        snapshot_date,
        portfolio_id,
        venue_id,
        asset_id,
        is_custom_asset,
        bucket,
        internal.exact_sums([internal.exact_part(amount, amount_text)])[1] as total,
        count(*) as accounts
    from balances
    where (state = 'locked' or state like '%.locked')
        and amount is distinct from 0
    group by
        snapshot_date,
        portfolio_id,
        venue_id,
        asset_id,
        is_custom_asset,
        bucket
)

select
    sums.snapshot_date,
    sums.portfolio_id,
    sums.venue_id,
    sums.asset_id,
    sums.is_custom_asset,
    sums.bucket,
    sums.total.amount as locked,
    sums.total.text as locked_text,
    sums.accounts,
    portfolios.name as portfolio_name,
    venues.display_name as venue_name
from sums
left join portfolios
    on portfolios.portfolio_id = sums.portfolio_id
left join venues
    on venues.venue_id = sums.venue_id
