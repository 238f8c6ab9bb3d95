-- Which instruments each venue listed, on which terms, and from when to when.
--
-- A night whose rows were carried over counts as it is shown.
--
-- venue_id: The venue.
-- instrument_id: The instrument.
-- type: As in instruments, in those nights.
-- display_name: As in instruments, in those nights.
-- feed_id: As in instruments, in those nights.
-- venue_symbol: As in instruments, in those nights.
-- base_asset: As in instruments, in those nights.
-- term_asset: As in instruments, in those nights.
-- min_base_qty: As in instruments, in those nights.
-- max_base_qty: As in instruments, in those nights.
-- min_base_increment: As in instruments, in those nights.
-- min_term_qty: As in instruments, in those nights.
-- min_price: As in instruments, in those nights.
-- max_price: As in instruments, in those nights.
-- min_tick: As in instruments, in those nights.
-- expiration: As in instruments, in those nights.
-- form: history by venue_id, instrument_id
-- venue_name: The venue's name for people on the last of those nights that states one.
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
