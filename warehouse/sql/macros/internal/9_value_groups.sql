-- value_groups(wanted, quote_asset, first_day, last_day): The value of each group in each book of a period.
--
-- wanted: portfolio, venue, book (one group) or the name of a label.
-- quote_asset: The unit of the values.
-- first_day: The date of the first book.
-- last_day: The date of the last book.
-- returns: A table: snapshot_date, group_id, group_name, and the columns of value_by_portfolio after
--     the name. group_id is NULL for amounts without this label.
-- example: select * from internal.value_groups('venue', 'USD', date '2026-11-01', date '2026-11-30') limit 10

create or replace macro internal.value_groups(wanted, quote_asset, first_day, last_day) as table
with label as materialized (
    -- Empty if the label does not have the column as a key.
    select
        count(portfolio_id) > 0 as by_portfolio,
        count(venue_id) > 0 as by_venue,
        count(asset_id) > 0 as by_asset,
        count(account_name) > 0 as by_account,
        count(*) > 0 as exists
    from internal.labels
    where label = wanted
),

amounts as materialized (
    -- Each union has two halves, because DuckDB before 1.5 omits rows of a union inside a union.
    select
        snapshot_date,
        portfolio_id as group_id,
        portfolio_name as group_name,
        asset_id,
        is_custom_asset,
        total_text
    from history.holdings
    where wanted = 'portfolio'
        and snapshot_date between first_day and last_day
    union all
    select * from (
        select
            snapshot_date,
            venue_id,
            venue_name,
            asset_id,
            is_custom_asset,
            total_text
        from history.holdings_by_venue
        where wanted = 'venue'
            and snapshot_date between first_day and last_day
        union all
        select * from (
            select
                snapshot_date,
                null,
                null,
                asset_id,
                is_custom_asset,
                total_text
            from history.holdings_by_asset
            where wanted = 'book'
                and snapshot_date between first_day and last_day
            union all
            select
                balances.snapshot_date,
                labels.value,
                labels.value,
                balances.asset_id,
                balances.is_custom_asset,
                internal.exact_sums(
                    [internal.exact_part(balances.amount, balances.amount_text)]
                )[1].text
            from history.balances as balances
            inner join label
                on label.exists
            left join internal.labels as labels
                on labels.label = wanted
                and coalesce(labels.portfolio_id, '')
                    = case when label.by_portfolio then balances.portfolio_id else '' end
                and coalesce(labels.venue_id, '')
                    = case when label.by_venue then balances.venue_id else '' end
                and coalesce(labels.asset_id, '')
                    = case when label.by_asset then balances.asset_id else '' end
                and labels.is_custom_asset = (label.by_asset and balances.is_custom_asset)
                and coalesce(labels.account_name, '')
                    = case when label.by_account then balances.account_name else '' end
            where balances.snapshot_date between first_day and last_day
            group by all
        )
    )
),

valued as materialized (
    select
        amounts.snapshot_date,
        amounts.group_id,
        amounts.group_name,
        prices.price_state,
        prices.price_time,
        case
            when prices.price_state = 'priced'
                then internal.exact_product(amounts.total_text, prices.price_text)
        end as value_text
    from amounts
    inner join internal.valid_prices(quote_asset, first_day, last_day, null) as prices
        on prices.snapshot_date = amounts.snapshot_date
        and prices.asset_id = amounts.asset_id
        and prices.is_custom_asset = amounts.is_custom_asset
),

totals as materialized (
    select
        snapshot_date,
        group_id,
        group_name,
        count(*) as assets,
        sum((price_state = 'missing')::integer)::bigint as unpriced_assets,
        sum((price_state = 'stale')::integer)::bigint as stale_assets,
        min(case when price_state = 'priced' then price_time end) as oldest_price,
        internal.exact_long_sum(value_text) as value_text
    from valued
    group by all
)

select
    * exclude (value_text),
    internal.as_amount(value_text) as value,
    value_text
from totals;
