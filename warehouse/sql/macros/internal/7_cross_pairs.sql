-- cross_pairs(quote_asset): Pairs of a price and a rate of the same date, of NIGHTBOOK_CROSS_RATE.
--
-- The last price of each asset and date, with the last rate of this date. There is no other chain.
--
-- quote_asset: The unit of the values. There are no rows if it is not the cross rate's asset.
-- returns: A table with one row for each asset and date: asset_id, is_custom_asset, price_date,
--     price_time (NULL if price and rate have only a date), price_row and rate_row (in
--     reference.prices). The rate's own quote has the rate's row as its price, which means 1.
-- example: select * from internal.cross_pairs('EUR') limit 10

create or replace macro internal.cross_pairs(quote_asset) as table
with legs as materialized (
    select
        prices.rowid as price_row,
        prices.asset_id,
        prices.is_custom_asset,
        -- The date in UTC. A cast of the time would use the client's time zone.
        coalesce(
            prices.as_of_date,
            date '1970-01-01' + (epoch_us(prices.as_of_time) // 86400000000)::integer
        ) as price_date,
        prices.as_of_time,
        prices.asset_id = settings.cross_asset and not prices.is_custom_asset as is_rate,
        prices.source = settings.cross_source as has_source,
        settings.cross_quote,
        (
            coalesce(epoch_us(prices.as_of_time), 0),
            -internal.source_rank(settings.sources, prices.source),
            epoch_us(prices.received_at),
            prices.rowid
        ) as place
    from reference.prices as prices
    inner join internal.price_settings as settings
        on settings.cross_quote = prices.quote
    where settings.cross_asset = quote_asset
),

rates as materialized (
    select
        price_date,
        any_value(cross_quote) as cross_quote,
        arg_max(price_row, place) as rate_row,
        max(as_of_time) as rate_time
    from legs
    where is_rate
        and has_source
    group by price_date
)

select
    legs.asset_id,
    legs.is_custom_asset,
    price_date,
    greatest(max(legs.as_of_time), any_value(rates.rate_time)) as price_time,
    arg_max(legs.price_row, legs.place) as price_row,
    any_value(rates.rate_row) as rate_row
from legs
inner join rates using (price_date)
where not legs.is_rate
group by all
union all
select
    cross_quote,
    false,
    price_date,
    rate_time,
    rate_row,
    rate_row
from rates;
