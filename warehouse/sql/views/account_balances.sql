-- One row for each account of a position, including accounts with an empty balance.
--
-- Each part of the balance has its own column. The column is NULL, not zero, if the API does not
-- send the part. The total of an empty balance is 0. If DECIMAL(38,18) cannot hold an amount
-- exactly, the number is NULL, but the column ..._text always has the exact amount.
--
-- snapshot_date: Business date of the book.
-- portfolio_id: ID of the portfolio that the account belongs to.
-- asset_id: ID of the account's asset.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- venue_id: ID of the venue that holds the account.
-- account_name: Name of the account at the venue.
-- duplicate_no: Usually 0. If the API lists an account more than once, the repetitions have the
--     numbers 1, 2 and so on.
-- balance_count: Number of amounts in the balance. 0 if the balance is empty.
-- trading_free: Amount that is free to trade. NULL if the API does not send it.
-- trading_free_text: The amount in the column trading_free, as exact text.
-- trading_locked: Amount that is locked by trading. NULL if the API does not send it.
-- trading_locked_text: The amount in the column trading_locked, as exact text.
-- margin_locked: Amount that is locked as margin. NULL if the API does not send it.
-- margin_locked_text: The amount in the column margin_locked, as exact text.
-- staking_locked: Amount that is locked by staking. NULL if the API does not send it.
-- staking_locked_text: The amount in the column staking_locked, as exact text.
-- custody_free: Amount that is free in custody. NULL if the API does not send it.
-- custody_free_text: The amount in the column custody_free, as exact text.
-- custody_locked: Amount that is locked in custody. NULL if the API does not send it.
-- custody_locked_text: The amount in the column custody_locked, as exact text.
-- other: Sum of all amounts that have no column of their own, for example amounts of a new balance
--     kind. NULL if there are no such amounts.
-- other_text: The amount in the column other, as exact text.
-- total: Sum of all amounts in the balance, including undocumented balance kinds. 0 if the balance is
--     empty.
-- total_text: The amount in the column total, as exact text.
-- portfolio_name: Display name of the portfolio. NULL if the API does not send a name.
-- venue_name: Display name of the venue. NULL if the venue is not in the list of venues.
-- example: select portfolio_id, asset_id, venue_id, account_name, total_text
--     from account_balances order by all

-- Accounts and amounts in one list, so that one GROUP BY also finds accounts without amounts.
with entries as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        snapshot_date,
        balance_count,
        null as part,
        null::decimal(38, 18) as small,
        null as odd
    from accounts
    union all
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        null as snapshot_date,
        null as balance_count,
        case
            when bucket = 'trading' and state = 'free' then 'trading_free'
            when bucket = 'trading' and state = 'locked' then 'trading_locked'
            when bucket = 'margin' and state = 'locked' then 'margin_locked'
            when bucket = 'staking' and state = 'locked' then 'staking_locked'
            when bucket = 'custody' and state = 'free' then 'custody_free'
            when bucket = 'custody' and state = 'locked' then 'custody_locked'
            else 'other'
        end as part,
        split.small,
        split.odd
    from (select *, internal.exact_split(amount, amount_text) as split from balances)
),

parts as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        any_value(snapshot_date) as snapshot_date,
        any_value(balance_count) as balance_count,
        sum(small) filter (where part = 'trading_free') as trading_free,
        sum(small) filter (where part = 'trading_locked') as trading_locked,
        sum(small) filter (where part = 'margin_locked') as margin_locked,
        sum(small) filter (where part = 'staking_locked') as staking_locked,
        sum(small) filter (where part = 'custody_free') as custody_free,
        sum(small) filter (where part = 'custody_locked') as custody_locked,
        sum(small) filter (where part = 'other') as other,
        sum(small) as total,
        list({'part': part, 'text': odd}) filter (where odd is not null) as texts
    from entries
    group by
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no
),

sums as (
    select
        *,
        -- The slow calculation, for the few that are not sums of small decimals.
        case
            when texts is not null
                then internal.exact_sums_by_part(
                    [
                        {'part': 'trading_free', 'small': trading_free},
                        {'part': 'trading_locked', 'small': trading_locked},
                        {'part': 'margin_locked', 'small': margin_locked},
                        {'part': 'staking_locked', 'small': staking_locked},
                        {'part': 'custody_free', 'small': custody_free},
                        {'part': 'custody_locked', 'small': custody_locked},
                        {'part': 'other', 'small': other},
                        {'part': null, 'small': total}
                    ],
                    texts
                )
        end as odd
    from parts
    where snapshot_date is not null
)

select
    sums.snapshot_date,
    sums.portfolio_id,
    sums.asset_id,
    sums.is_custom_asset,
    sums.venue_id,
    sums.account_name,
    sums.duplicate_no,
    sums.balance_count,
    case when odd[1].text is null then sums.trading_free else odd[1].amount end as trading_free,
    coalesce(odd[1].text, internal.decimal_text(sums.trading_free)) as trading_free_text,
    case when odd[2].text is null then sums.trading_locked else odd[2].amount end as trading_locked,
    coalesce(odd[2].text, internal.decimal_text(sums.trading_locked)) as trading_locked_text,
    case when odd[3].text is null then sums.margin_locked else odd[3].amount end as margin_locked,
    coalesce(odd[3].text, internal.decimal_text(sums.margin_locked)) as margin_locked_text,
    case when odd[4].text is null then sums.staking_locked else odd[4].amount end as staking_locked,
    coalesce(odd[4].text, internal.decimal_text(sums.staking_locked)) as staking_locked_text,
    case when odd[5].text is null then sums.custody_free else odd[5].amount end as custody_free,
    coalesce(odd[5].text, internal.decimal_text(sums.custody_free)) as custody_free_text,
    case when odd[6].text is null then sums.custody_locked else odd[6].amount end as custody_locked,
    coalesce(odd[6].text, internal.decimal_text(sums.custody_locked)) as custody_locked_text,
    case when odd[7].text is null then sums.other else odd[7].amount end as other,
    coalesce(odd[7].text, internal.decimal_text(sums.other)) as other_text,
    case when odd[8].text is null then coalesce(sums.total, 0) else odd[8].amount end as total,
    coalesce(odd[8].text, internal.decimal_text(coalesce(sums.total, 0))) as total_text,
    portfolios.name as portfolio_name,
    venues.display_name as venue_name
from sums
left join portfolios
    on portfolios.portfolio_id = sums.portfolio_id
left join venues
    on venues.venue_id = sums.venue_id
