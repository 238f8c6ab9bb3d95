-- prices_as_of(day, quote): The valid price of each asset in the book of a day.
--
-- The valid price is the last one at or before the time at which the book's portfolios were read. A
-- price with only a date is valid from that business date. If several prices have the same time, the
-- order of NIGHTBOOK_PRICE_SOURCES decides, then the later file. A missing price is never assumed to
-- be 0 or 1. Only the quote itself has the price 1, and only if it is not a custom asset. With
-- NIGHTBOOK_CROSS_RATE, a price in another quote, divided by the rate of the same date, is a price. Of
-- the same time, a stated price comes first.
--
-- day: Any date. The macro uses the newest book on or before this date. If there is no such book,
--     the macro fails with an error.
-- quote: The unit of the prices, such as 'USD'.
-- returns: A table with one row for each asset of the book: snapshot_date, asset_id, is_custom_asset,
--     quote, price_text, price_state (priced, stale if the price is older than
--     NIGHTBOOK_PRICE_MAX_AGE, or missing), price_time, age_days, as_of (as in the file), source, level,
--     file, sha256, line and received_at, then price_kind (stated, quote, or quotient if
--     NIGHTBOOK_CROSS_RATE gives the price, with at least 28 digits), and of a quotient's rate
--     rate_text, rate_sha256 and rate_line.
-- example: select asset_id, is_custom_asset, price_text, price_state from prices_as_of('9999-12-31', 'USD') order by all limit 10

create or replace macro prices_as_of(day, quote) as table
select *
from internal.valid_prices(quote, ($book_date), ($book_date), null);
