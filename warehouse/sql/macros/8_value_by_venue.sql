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
with valued as materialized (
    select
        venues.snapshot_date,
        venues.venue_id,
        venues.venue_name,
        prices.price_state,
        prices.price_time,
        case
            when prices.price_state = 'priced'
                then internal.exact_product(venues.total_text, prices.price_text)
        end as value_text
    from history.holdings_by_venue as venues
    inner join internal.valid_prices(quote, ($book_date), ($book_date), null) as prices
        on prices.snapshot_date = venues.snapshot_date
        and prices.asset_id = venues.asset_id
        and prices.is_custom_asset = venues.is_custom_asset
    where venues.snapshot_date = ($book_date)
),

totals as materialized (
    select
        snapshot_date,
        venue_id,
        venue_name,
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
