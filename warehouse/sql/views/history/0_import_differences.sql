-- One row for each position in which the last imported day differs from the first night, by exact
-- amounts.
--
-- Old books stay hidden while there are differences that nobody has accepted. If the old book does
-- not state portfolios, venues or accounts for all rows, the comparison leaves this column out, and
-- it is NULL. A missing position counts as zero. An amount that a workbook stored as a number has
-- only 15 digits, so it may differ.
--
-- as_of_date: Day of the old book, which is the last imported day.
-- first_night: Date of the first night.
-- portfolio_id: ID of the portfolio, or its name as written if the first book does not have it.
-- venue_id: ID of the venue, or its name as written.
-- account_name: Name of the account.
-- asset_id: ID of the asset, or its name as written.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- imported_text: Exact amount in the old book. NULL if it does not have the position.
-- first_night_text: Exact amount in the first book. NULL if it does not have the position.
-- difference_text: Amount in the first book minus the amount in the old book.
-- example: select * from history.import_differences order by all

with first_night as (
    select min(snapshot_date) as snapshot_date
    from ops.snapshots
    where is_book
),

imported as (
    select positions.*
    from reference.positions as positions
    inner join ops.reference_files as files
        on files.table_name = 'positions/' || positions.as_of_date::varchar
        and files.sha256 = positions.sha256
    where positions.as_of_date = (
        select max(old.as_of_date)
        from reference.positions as old
        where old.as_of_date < (select snapshot_date from first_night)
    )
    qualify files.received_at = max(files.received_at) over ()
),

levels as (
    select
        any_value(as_of_date) as as_of_date,
        count(portfolio_id) = count(*) as has_portfolio,
        count(venue_id) = count(*) as has_venue,
        count(account_name) = count(*) as has_account
    from imported
),

amounts as (
    select
        true as is_imported,
        portfolio_id,
        venue_id,
        account_name,
        asset_id,
        is_custom_asset,
        internal.as_amount(amount_text) as amount,
        amount_text
    from imported
    union all
    select
        false,
        portfolio_id,
        venue_id,
        account_name,
        asset_id,
        is_custom_asset,
        amount,
        amount_text
    from history.balances
    where snapshot_date = (select snapshot_date from first_night)
),

sums as (
    select
        levels.as_of_date,
        case when levels.has_portfolio then amounts.portfolio_id end as portfolio_id,
        case when levels.has_venue then amounts.venue_id end as venue_id,
        case when levels.has_account then amounts.account_name end as account_name,
        amounts.asset_id,
        amounts.is_custom_asset,
        internal.exact_part(
            case when amounts.is_imported then amounts.amount end,
            case when amounts.is_imported then amounts.amount_text end
        ) as imported,
        internal.exact_part(
            case when not amounts.is_imported then amounts.amount end,
            case when not amounts.is_imported then amounts.amount_text end
        ) as first_night,
        internal.exact_part(
            case when amounts.is_imported then -amounts.amount else amounts.amount end,
            case
                when amounts.is_imported then internal.opposite(amounts.amount_text)
                else amounts.amount_text
            end
        ) as difference
    from amounts
    cross join levels
    where levels.as_of_date is not null
    group by all
)

select
    sums.as_of_date,
    first_night.snapshot_date as first_night,
    sums.portfolio_id,
    sums.venue_id,
    sums.account_name,
    sums.asset_id,
    sums.is_custom_asset,
    exact[1]['text'] as imported_text,
    exact[2]['text'] as first_night_text,
    exact[3]['text'] as difference_text
from (
    select *, internal.exact_sums([imported, first_night, difference]) as exact
    from sums
) as sums
cross join first_night
where exact[3]['text'] <> '0'
