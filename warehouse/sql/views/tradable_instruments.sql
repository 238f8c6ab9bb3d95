-- Tradable instruments. An instrument is tradable if its venue is trading and the instrument had not expired
-- when the book was read.
--
-- snapshot_date: Business date of the book.
-- venue_id: The venue that trades the instrument.
-- venue_name: Display name of the venue.
-- instrument_id: ID of the instrument in the API.
-- type: Type of the instrument: spot or future.
-- display_name: Display name of the instrument.
-- venue_symbol: Symbol of the instrument at the venue.
-- base_asset: Asset that is traded.
-- term_asset: Asset that the price is expressed in.
-- min_base_qty: Smallest order in units of the base asset.
-- max_base_qty: Largest order in units of the base asset.
-- min_base_increment: Smallest step of the order size.
-- min_term_qty: Smallest order in units of the term asset.
-- min_price: Lowest price.
-- max_price: Highest price.
-- min_tick: Step of the price.
-- expiration: When a dated future expires, UTC. NULL if the instrument does not expire.
-- stale_since: NULL if the venue's instruments were read on this night. Otherwise, the date of the
--     last good read.
-- example: select venue_name, venue_symbol from tradable_instruments where base_asset = 'BTC'

select
    instruments.snapshot_date,
    instruments.venue_id,
    venues.display_name as venue_name,
    instruments.instrument_id,
    instruments.type,
    instruments.display_name,
    instruments.venue_symbol,
    instruments.base_asset,
    instruments.term_asset,
    instruments.min_base_qty,
    instruments.max_base_qty,
    instruments.min_base_increment,
    instruments.min_term_qty,
    instruments.min_price,
    instruments.max_price,
    instruments.min_tick,
    instruments.expiration,
    instruments.stale_since
from instruments
inner join venues
    on venues.venue_id = instruments.venue_id
inner join ops.snapshots as snapshots
    on snapshots.snapshot_date = instruments.snapshot_date
    and snapshots.is_book
where venues.trading_status = 'trading'
    and (instruments.expiration is null or instruments.expiration > snapshots.started_at)
