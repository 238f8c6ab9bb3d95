-- holdings_value_as_of(quote, day): The value of each holding in the book of a day.
--
-- A holding without a valid price has no value. Its value is NULL, never 0.
--
-- quote: The unit of the values, such as 'USD'.
-- day: Any date. The macro uses the newest book on or before this date. If there is no such book,
--     the macro fails with an error.
-- returns: A table: the columns of holdings, then price_text, price_state (see prices_as_of), value and
--     value_text. value_text is always exact. value is the same as DECIMAL(38,18), or NULL if that type
--     cannot hold it exactly.
-- example: select portfolio_id, asset_id, price_state, value_text from holdings_value_as_of('USD', '9999-12-31') order by all limit 10

create or replace macro holdings_value_as_of(quote, day) as table
with valued as materialized (
    select
        holdings.*,
        prices.price_text,
        prices.price_state,
        case
            when prices.price_state = 'priced'
                then internal.exact_product(holdings.total_text, prices.price_text)
        end as value_text
    from history.holdings as holdings
    inner join internal.valid_prices(quote, ($book_date), ($book_date), null) as prices
        on prices.snapshot_date = holdings.snapshot_date
        and prices.asset_id = holdings.asset_id
        and prices.is_custom_asset = holdings.is_custom_asset
    where holdings.snapshot_date = ($book_date)
)

select
    * exclude (value_text),
    internal.as_amount(value_text) as value,
    value_text
from valued;
