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
-- other: Sum of all that has no column here, like lending; NULL when there is none.
-- other_text: The same, exact.
-- total: Sum of all that is stated, known and unknown; 0 when nothing is.
-- total_text: The same, exact.
-- portfolio_name: The portfolio's name for people; NULL where the API states none.
-- venue_name: The venue's name for people; NULL where the list of venues does not have it.
-- example: select portfolio_id, asset_id, venue_id, account_name, total_text
--     from account_balances order by all

with split as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        case
            when
                (bucket in ('trading', 'custody') and state in ('free', 'locked'))
                or (bucket in ('margin', 'staking') and state = 'locked')
                then bucket || '_' || state
            else 'other'
        end as kind,
        internal.exact_split(amount, amount_text) as split
    from balances
),

parts as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        internal.exact_part_where(split, kind = 'trading_free') as trading_free,
        internal.exact_part_where(split, kind = 'trading_locked') as trading_locked,
        internal.exact_part_where(split, kind = 'margin_locked') as margin_locked,
        internal.exact_part_where(split, kind = 'staking_locked') as staking_locked,
        internal.exact_part_where(split, kind = 'custody_free') as custody_free,
        internal.exact_part_where(split, kind = 'custody_locked') as custody_locked,
        internal.exact_part_where(split, kind = 'other') as other,
        internal.exact_part_where(split, true) as total
    from split
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
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        trading_free.small as trading_free,
        trading_locked.small as trading_locked,
        margin_locked.small as margin_locked,
        staking_locked.small as staking_locked,
        custody_free.small as custody_free,
        custody_locked.small as custody_locked,
        other.small as other,
        total.small as total,
        -- The long way, for the few that are not sums of small decimals.
        case
            when total.texts is not null
                then internal.exact_sums(
                    [
                        trading_free,
                        trading_locked,
                        margin_locked,
                        staking_locked,
                        custody_free,
                        custody_locked,
                        other,
                        total
                    ]
                )
        end as odd
    from parts
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
from accounts
left join sums
    on sums.portfolio_id = accounts.portfolio_id
    and sums.asset_id = accounts.asset_id
    and sums.is_custom_asset = accounts.is_custom_asset
    and sums.venue_id = accounts.venue_id
    and sums.account_name = accounts.account_name
    and sums.duplicate_no = accounts.duplicate_no
left join portfolios
    on portfolios.portfolio_id = accounts.portfolio_id
left join venues
    on venues.venue_id = accounts.venue_id
