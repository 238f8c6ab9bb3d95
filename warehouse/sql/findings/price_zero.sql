-- The assets of the newest book whose price is 0. A person wrote it, so it is a price.
--
-- reads: prices
-- kind: price_zero.
-- name: ID of the asset.
-- severity: low.
-- portfolio_id: NULL.
-- venue_id: NULL.
-- words: The price and its source.
-- is_alert: false.
-- example: select * from reference.prices limit 10

select
    'price_zero' as kind,
    asset_id as name,
    'low' as severity,
    null as portfolio_id,
    null as venue_id,
    'The price of ' || asset_id || case when is_custom_asset then ' (custom)' else '' end
    || ' is 0 ' || quote || ', as of ' || as_of || coalesce(' from ' || nullif(source, ''), '')
    || '. So the value of this asset is 0.' as words,
    false as is_alert
from internal.valid_prices($currency, $day, $day, null)
where price_state = 'priced'
    and price_text = '0'
    and price_kind <> 'quote'
order by all
