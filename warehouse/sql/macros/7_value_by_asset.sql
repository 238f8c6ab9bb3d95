-- value_by_asset(quote, day): The value of each asset in the book of a day.
--
-- quote: The unit of the values, such as 'USD'.
-- day: Any date. The macro uses the newest book on or before this date. If there is no such book,
--     the macro fails with an error.
-- returns: A table: snapshot_date, asset_id, is_custom_asset, total_text, quote, price_text,
--     price_state, price_time, value and value_text (see holdings_value_as_of).
-- example: select asset_id, total_text, price_text, price_state, value_text from value_by_asset('USD', '9999-12-31') order by all limit 10

create or replace macro value_by_asset(quote, day) as table
select *
from internal.asset_values(quote, ($book_date), ($book_date));
