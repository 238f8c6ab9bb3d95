-- asset_values(quote_asset, first_day, last_day): The value of each asset in each book of a period.
--
-- quote_asset: The unit of the prices.
-- first_day: The date of the first book.
-- last_day: The date of the last book.
-- returns: A table as from value_by_asset.
-- example: select * from internal.asset_values('USD', date '2026-11-01', date '2026-11-30') limit 10

create or replace macro internal.asset_values(quote_asset, first_day, last_day) as table
with valued as materialized (
    select
        prices.*,
        assets.total_text,
        case
            when prices.price_state = 'priced'
                then internal.exact_product(assets.total_text, prices.price_text)
        end as value_text
    from internal.valid_prices(quote_asset, first_day, last_day, null) as prices
    inner join history.holdings_by_asset as assets
        on assets.snapshot_date = prices.snapshot_date
        and assets.asset_id = prices.asset_id
        and assets.is_custom_asset = prices.is_custom_asset
    where assets.snapshot_date between first_day and last_day
)

select
    snapshot_date,
    asset_id,
    is_custom_asset,
    total_text,
    quote,
    price_text,
    price_state,
    price_time,
    internal.as_amount(value_text) as value,
    value_text
from valued;
