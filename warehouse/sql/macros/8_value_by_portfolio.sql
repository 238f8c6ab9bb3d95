-- value_by_portfolio(quote, day): The value of each portfolio in the book of a day.
--
-- quote: The unit of the values, such as 'USD'.
-- day: Any date. The macro uses the newest book on or before this date. If there is no such book,
--     the macro fails with an error.
-- returns: A table: snapshot_date, portfolio_id, portfolio_name, assets, unpriced_assets (assets
--     without a price), stale_assets (assets with a stale price), oldest_price (the time of the
--     oldest price in the value), value and value_text. Assets without a valid price are not in
--     the value, which is NULL if no asset has a valid price.
-- example: select portfolio_name, value_text, assets, unpriced_assets from value_by_portfolio('USD', '9999-12-31') order by all

create or replace macro value_by_portfolio(quote, day) as table
select
    snapshot_date,
    group_id as portfolio_id,
    group_name as portfolio_name,
    assets,
    unpriced_assets,
    stale_assets,
    oldest_price,
    value,
    value_text
from internal.value_groups('portfolio', quote, ($book_date), ($book_date));
