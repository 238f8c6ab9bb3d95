-- value_by_night(quote): The value of the book of each night.
--
-- quote: The unit of the values, such as 'USD'.
-- returns: A table: snapshot_date, assets, unpriced_assets (assets without a price), stale_assets
--     (assets with a stale price), oldest_price (the time of the oldest price in the value),
--     value and value_text. Assets without a valid price are not in the value, which is NULL if
--     no asset has a valid price.
-- example: select snapshot_date, value_text, assets, unpriced_assets, stale_assets from value_by_night('USD') order by all

create or replace macro value_by_night(quote) as table
select
    snapshot_date,
    assets,
    unpriced_assets,
    stale_assets,
    oldest_price,
    value,
    value_text
from internal.value_groups('book', quote, date '0001-01-01', date '9999-12-31');
