-- The roll-forward of each asset, with its opening amount, the changes by cause, and its closing
-- amount.
--
-- One row for each asset. In the view, the opening book is the previous book, and the closing book
-- is the newest. The opening amount plus the changes from all four causes exactly equals the closing
-- amount. Moves between parts of the same account are not counted. If there is no previous book,
-- all amounts belong to new accounts.
--
-- asset_id: Asset ID. Amounts of different assets are never added together.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- opening_date: Business date of the opening book. NULL if there is no opening book or if it is
--     empty.
-- closing_date: Business date of the closing book. NULL if this book is empty.
-- opening: Amount in the opening book. 0 if the book does not have the asset.
-- opening_text: The amount in the column opening, as exact text.
-- new_accounts: Amount in accounts that the opening book does not list.
-- new_accounts_text: The amount in the column new_accounts, as exact text.
-- gone_accounts: Amount in accounts that the closing book does not list, as a negative number.
-- gone_accounts_text: The amount in the column gone_accounts, as exact text.
-- increased: Sum of all increases of accounts that are in both books.
-- increased_text: The amount in the column increased, as exact text.
-- decreased: Sum of all decreases of accounts that are in both books, as a negative number.
-- decreased_text: The amount in the column decreased, as exact text.
-- closing: Amount in the closing book. 0 if the book does not have the asset.
-- closing_text: The amount in the column closing, as exact text.
-- accounts_new: Number of new accounts, including empty accounts.
-- accounts_gone: Number of accounts that are gone, including empty accounts.
-- accounts_increased: Number of accounts with an increase.
-- accounts_decreased: Number of accounts with a decrease.
-- example: select asset_id, opening_text, closing_text from roll_forward order by all limit 10

with account_pairs as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        (old.account_name is null) as is_new,
        (new.account_name is null) as is_gone
    from accounts_before as old
    full join accounts as new using (
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no
    )
),

deltas as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        internal.exact_sums([internal.exact_part(delta, delta_text)])[1] as delta
    from changes
    group by
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no
),

movements as (
    select
        asset_id,
        is_custom_asset,
        deltas.delta.amount as amount,
        deltas.delta.text as amount_text,
        case
            when is_new then 'new'
            when is_gone then 'gone'
            when deltas.delta.text is null or deltas.delta.text = '0' then 'same'
            when starts_with(deltas.delta.text, '-') then 'decreased'
            else 'increased'
        end as cause
    from account_pairs
    left join deltas using (
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no
    )
),

by_cause as (
    select
        asset_id,
        is_custom_asset,
        internal.exact_sums(
            [
                internal.exact_part(
                    case when cause = 'new' then amount end,
                    case when cause = 'new' then amount_text end
                ),
                internal.exact_part(
                    case when cause = 'gone' then amount end,
                    case when cause = 'gone' then amount_text end
                ),
                internal.exact_part(
                    case when cause = 'increased' then amount end,
                    case when cause = 'increased' then amount_text end
                ),
                internal.exact_part(
                    case when cause = 'decreased' then amount end,
                    case when cause = 'decreased' then amount_text end
                )
            ]
        ) as parts,
        count(*) filter (where cause = 'new') as accounts_new,
        count(*) filter (where cause = 'gone') as accounts_gone,
        count(*) filter (where cause = 'increased') as accounts_increased,
        count(*) filter (where cause = 'decreased') as accounts_decreased
    from movements
    group by
        asset_id,
        is_custom_asset
),

opening_totals as (
    select
        asset_id,
        is_custom_asset,
        internal.exact_sums([internal.exact_part(amount, amount_text)])[1] as total
    from balances_before
    group by
        asset_id,
        is_custom_asset
),

closing_totals as (
    select
        asset_id,
        is_custom_asset,
        internal.exact_sums([internal.exact_part(amount, amount_text)])[1] as total
    from balances
    group by
        asset_id,
        is_custom_asset
)

select
    asset_id,
    is_custom_asset,
    (select max(snapshot_date) from portfolios_before) as opening_date,
    (select max(snapshot_date) from portfolios) as closing_date,
    case when opening_totals.total.text is null then 0 else opening_totals.total.amount end as opening,
    coalesce(opening_totals.total.text, '0') as opening_text,
    case when parts[1].text is null then 0 else parts[1].amount end as new_accounts,
    coalesce(parts[1].text, '0') as new_accounts_text,
    case when parts[2].text is null then 0 else parts[2].amount end as gone_accounts,
    coalesce(parts[2].text, '0') as gone_accounts_text,
    case when parts[3].text is null then 0 else parts[3].amount end as increased,
    coalesce(parts[3].text, '0') as increased_text,
    case when parts[4].text is null then 0 else parts[4].amount end as decreased,
    coalesce(parts[4].text, '0') as decreased_text,
    case when closing_totals.total.text is null then 0 else closing_totals.total.amount end as closing,
    coalesce(closing_totals.total.text, '0') as closing_text,
    accounts_new,
    accounts_gone,
    accounts_increased,
    accounts_decreased
from by_cause
left join opening_totals using (asset_id, is_custom_asset)
left join closing_totals using (asset_id, is_custom_asset)
