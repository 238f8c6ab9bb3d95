-- Instruments that each venue listed, their terms, and the period of each.
--
-- A night with carried-over rows counts like any other.
--
-- venue_id: The venue.
-- instrument_id: The instrument.
-- type: As in instruments, in these nights.
-- display_name: As in instruments, in these nights.
-- feed_id: As in instruments, in these nights.
-- venue_symbol: As in instruments, in these nights.
-- base_asset: As in instruments, in these nights.
-- term_asset: As in instruments, in these nights.
-- min_base_qty: As in instruments, in these nights.
-- max_base_qty: As in instruments, in these nights.
-- min_base_increment: As in instruments, in these nights.
-- min_term_qty: As in instruments, in these nights.
-- min_price: As in instruments, in these nights.
-- max_price: As in instruments, in these nights.
-- min_tick: As in instruments, in these nights.
-- expiration: As in instruments, in these nights.
-- form: history by venue_id, instrument_id
-- venue_name: The venue's display name on the last of these nights that states one.
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
