-- value_by_venue(quote, day): The value at each venue in the book of a day.
--
-- quote: The unit of the values, such as 'USD'.
-- day: Any date. The macro uses the newest book on or before this date. If there is no such book,
--     the macro fails with an error.
-- returns: A table: snapshot_date, venue_id, venue_name, assets, unpriced_assets (assets without
--     a price), stale_assets (assets with a stale price), oldest_price (the time of the oldest
--     price in the value), value and value_text. Assets without a valid price are not in the
--     value, which is NULL if no asset has a valid price.
-- example: select venue_id, value_text, assets, unpriced_assets from value_by_venue('USD', '9999-12-31') order by all

create or replace macro value_by_venue(quote, day) as table
select
    snapshot_date,
    group_id as venue_id,
    group_name as venue_name,
    assets,
    unpriced_assets,
    stale_assets,
    oldest_price,
    value,
    value_text
from internal.value_groups('venue', quote, ($book_date), ($book_date));
