-- What is locked, where and why: one row per portfolio, venue, asset and kind, without zeros.
--
-- Also of a kind that the document does not know, where it says `locked`, at any depth.
--
-- snapshot_date: Business date of the book.
-- portfolio_id: Portfolio that holds the asset.
-- venue_id: Venue that keeps it.
-- asset_id: Asset locked.
-- is_custom_asset: Whether the asset is one the organization defined itself.
-- bucket: What locks it: a kind of balance, as in `balances`.
-- locked: Sum over the accounts; NULL where DECIMAL(38,18) cannot hold it exactly.
-- locked_text: The same, exact.
-- accounts: Accounts with something locked.
-- portfolio_name: The portfolio's name for people; NULL where the API states none.
-- venue_name: The venue's name for people; NULL where the list of venues does not have it.
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
