-- Tradable instruments: not expired when the book was read, at venues that are trading.
--
-- snapshot_date: Business date of the book.
-- venue_id: The venue that trades it.
-- venue_name: The venue's display name.
-- instrument_id: The instrument's id in the API.
-- type: spot or future.
-- display_name: Its display name.
-- venue_symbol: Its symbol at the venue.
-- base_asset: The asset that is traded.
-- term_asset: The asset of the price.
-- min_base_qty: Smallest order, in base asset.
-- max_base_qty: Largest order, in base asset.
-- min_base_increment: Step of the order size.
-- min_term_qty: Smallest order, in term asset.
-- min_price: Lowest price.
-- max_price: Highest price.
-- min_tick: Step of the price.
-- expiration: When a dated future expires, UTC. NULL if it does not expire.
-- stale_since: NULL if read tonight. Otherwise the date of the last good read of the venue.
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
