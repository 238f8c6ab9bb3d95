-- One row per account of a position, with its whole balance side by side, also an empty one.
--
-- A part that the API does not state is NULL, which is not zero; a total of nothing is 0. Each
-- amount that DECIMAL(38,18) cannot hold exactly is NULL, and its twin ..._text is always exact.
--
-- snapshot_date: Business date of the book.
-- portfolio_id: Portfolio that holds the account.
-- asset_id: Asset that the account counts.
-- is_custom_asset: Whether the asset is one the organization defined itself.
-- venue_id: Venue that keeps the account.
-- account_name: The account's name at the venue.
-- duplicate_no: 0, and counting up only where the API repeats the same account.
-- balance_count: How many amounts the API states; 0 when the balance is empty.
-- trading_free: Free to trade; NULL when not stated.
-- trading_free_text: The same, exact.
-- trading_locked: Locked by trading; NULL when not stated.
-- trading_locked_text: The same, exact.
-- margin_locked: Locked as margin; NULL when not stated.
-- margin_locked_text: The same, exact.
-- staking_locked: Locked by staking; NULL when not stated.
-- staking_locked_text: The same, exact.
-- custody_free: Free in custody; NULL when not stated.
-- custody_free_text: The same, exact.
-- custody_locked: Locked in custody; NULL when not stated.
-- custody_locked_text: The same, exact.
-- other: Sum of all that the document does not know, like lending; NULL when there is none.
-- other_text: The same, exact.
-- total: Sum of all that is stated, known and unknown; 0 when nothing is.
-- total_text: The same, exact.
-- example: select portfolio_id, asset_id, venue_id, account_name, total_text
--     from account_balances order by all

with sums as (
    select
        snapshot_date,
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        exact_sums(
            [
                exact_part(
                    case when bucket = 'trading' and state = 'free' then amount end,
                    case when bucket = 'trading' and state = 'free' then amount_text end
                ),
                exact_part(
                    case when bucket = 'trading' and state = 'locked' then amount end,
                    case when bucket = 'trading' and state = 'locked' then amount_text end
                ),
                exact_part(
                    case when bucket = 'margin' and state = 'locked' then amount end,
                    case when bucket = 'margin' and state = 'locked' then amount_text end
                ),
                exact_part(
                    case when bucket = 'staking' and state = 'locked' then amount end,
                    case when bucket = 'staking' and state = 'locked' then amount_text end
                ),
                exact_part(
                    case when bucket = 'custody' and state = 'free' then amount end,
                    case when bucket = 'custody' and state = 'free' then amount_text end
                ),
                exact_part(
                    case when bucket = 'custody' and state = 'locked' then amount end,
                    case when bucket = 'custody' and state = 'locked' then amount_text end
                ),
                exact_part(
                    case when not is_known_balance(bucket, state) then amount end,
                    case when not is_known_balance(bucket, state) then amount_text end
                ),
                exact_part(amount, amount_text)
            ]
        ) as parts
    from balances
    group by
        snapshot_date,
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no
)

select
    accounts.snapshot_date,
    accounts.portfolio_id,
    accounts.asset_id,
    accounts.is_custom_asset,
    accounts.venue_id,
    accounts.account_name,
    accounts.duplicate_no,
    accounts.balance_count,
    parts[1].amount as trading_free,
    parts[1].text as trading_free_text,
    parts[2].amount as trading_locked,
    parts[2].text as trading_locked_text,
    parts[3].amount as margin_locked,
    parts[3].text as margin_locked_text,
    parts[4].amount as staking_locked,
    parts[4].text as staking_locked_text,
    parts[5].amount as custody_free,
    parts[5].text as custody_free_text,
    parts[6].amount as custody_locked,
    parts[6].text as custody_locked_text,
    parts[7].amount as other,
    parts[7].text as other_text,
    case when parts is null then 0 else parts[8].amount end as total,
    case when parts is null then '0' else parts[8].text end as total_text
from accounts
left join sums
    on sums.portfolio_id = accounts.portfolio_id
    and sums.asset_id = accounts.asset_id
    and sums.is_custom_asset = accounts.is_custom_asset
    and sums.venue_id = accounts.venue_id
    and sums.account_name = accounts.account_name
    and sums.duplicate_no = accounts.duplicate_no
