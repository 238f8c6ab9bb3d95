-- holdings_value(quote): The value of each holding in the newest book.
--
-- quote: The unit of the values, such as 'USD'.
-- returns: A table as from holdings_value_as_of.
-- example: select portfolio_id, asset_id, price_state, value_text from holdings_value('USD') order by all limit 10

create or replace macro holdings_value(quote) as table
select *
from holdings_value_as_of(quote, date '9999-12-31');
