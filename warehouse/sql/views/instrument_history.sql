-- History of each venue's instruments, with their terms.
--
-- Nights with carried-over instruments count like any other night.
--
-- venue_id: The venue.
-- instrument_id: The instrument.
-- type: Value of this column in instruments on these nights.
-- display_name: Value of this column in instruments on these nights.
-- feed_id: Value of this column in instruments on these nights.
-- venue_symbol: Value of this column in instruments on these nights.
-- base_asset: Value of this column in instruments on these nights.
-- term_asset: Value of this column in instruments on these nights.
-- min_base_qty: Value of this column in instruments on these nights.
-- max_base_qty: Value of this column in instruments on these nights.
-- min_base_increment: Value of this column in instruments on these nights.
-- min_term_qty: Value of this column in instruments on these nights.
-- min_price: Value of this column in instruments on these nights.
-- max_price: Value of this column in instruments on these nights.
-- min_tick: Value of this column in instruments on these nights.
-- expiration: Value of this column in instruments on these nights.
-- form: history by venue_id, instrument_id
-- venue_name: Display name of the venue, on the last of these nights that has a name.
-- example: select * from instrument_history where change <> 'first' order by all limit 10

select
    snapshot_date,
    book_no,
    book_before,
    venue_id,
    instrument_id,
    type,
    instruments.display_name,
    feed_id,
    venue_symbol,
    base_asset,
    term_asset,
    min_base_qty,
    max_base_qty,
    min_base_increment,
    min_term_qty,
    min_price,
    max_price,
    min_tick,
    expiration,
    venues.display_name as venue_name
from history.instruments as instruments
inner join books using (snapshot_date)
left join history.venues as venues using (snapshot_date, venue_id)
