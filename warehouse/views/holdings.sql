-- What each portfolio holds of each asset, over all venues and accounts.
--
-- Sums are exact. Where DECIMAL(38,18) cannot hold one it is NULL, and its twin ..._text has it.
--
-- snapshot_date: Business date of the book.
-- portfolio_id: Portfolio that holds the asset.
-- asset_id: Asset held; assets are never added to each other.
-- is_custom_asset: Whether the asset is one the organization defined itself.
-- free: Trading and custody, free; 0 when none is stated.
-- free_text: The same, exact.
-- locked: Trading, margin, staking and custody, locked; 0 when none is stated.
-- locked_text: The same, exact.
-- other: All that the document does not know, like lending; 0 when there is none.
-- other_text: The same, exact.
-- total: Free, locked and other together.
-- total_text: The same, exact.
-- accounts: Accounts of the asset, also empty ones.
-- venues: Venues that keep one of those accounts.
-- example: select portfolio_id, asset_id, total_text from holdings order by all

with sums as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        exact_sums(
            [
                exact_part(
                    case when is_known_balance(bucket, state) and state = 'free' then amount end,
                    case
                        when is_known_balance(bucket, state) and state = 'free' then amount_text
                    end
                ),
                exact_part(
                    case when is_known_balance(bucket, state) and state = 'locked' then amount end,
                    case
                        when is_known_balance(bucket, state) and state = 'locked' then amount_text
                    end
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
        portfolio_id,
        asset_id,
        is_custom_asset
),

counted as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        count(*) as accounts,
        count(distinct venue_id) as venues
    from accounts
    group by
        portfolio_id,
        asset_id,
        is_custom_asset
),

listed as (
    select
        snapshot_date,
        portfolio_id,
        asset_id,
        is_custom_asset
    from positions
)

select
    listed.snapshot_date,
    listed.portfolio_id,
    listed.asset_id,
    listed.is_custom_asset,
    case when parts[1].text is null then 0 else parts[1].amount end as free,
    coalesce(parts[1].text, '0') as free_text,
    case when parts[2].text is null then 0 else parts[2].amount end as locked,
    coalesce(parts[2].text, '0') as locked_text,
    case when parts[3].text is null then 0 else parts[3].amount end as other,
    coalesce(parts[3].text, '0') as other_text,
    case when parts[4].text is null then 0 else parts[4].amount end as total,
    coalesce(parts[4].text, '0') as total_text,
    coalesce(counted.accounts, 0) as accounts,
    coalesce(counted.venues, 0) as venues
from listed
left join sums
    on sums.portfolio_id = listed.portfolio_id
    and sums.asset_id = listed.asset_id
    and sums.is_custom_asset = listed.is_custom_asset
left join counted
    on counted.portfolio_id = listed.portfolio_id
    and counted.asset_id = listed.asset_id
    and counted.is_custom_asset = listed.is_custom_asset
