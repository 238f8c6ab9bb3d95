-- The age of each portfolio and venue when the book was read, counted from the time of its last change
-- in the API.
--
-- snapshot_date: Business date of the book.
-- kind: portfolio or venue.
-- id: ID of the portfolio or venue in the API.
-- name: Display name of the portfolio or venue.
-- updated_at: Time of the last change according to the API, UTC. NULL if the API does not send a
--     time.
-- read_at: When the read of the book was complete, UTC.
-- days_unchanged: Number of whole days from updated_at to read_at. Negative if updated_at is later
--     than read_at.
-- stale_since: Date of the last good read if the instruments of the venue could not be read.
--     Otherwise NULL.
-- example: select kind, name, days_unchanged from freshness order by days_unchanged desc limit 10

with things as (
    select
        snapshot_date,
        'portfolio' as kind,
        portfolio_id as id,
        name,
        updated_at,
        null::date as stale_since
    from portfolios
    union all
    select
        venues.snapshot_date,
        'venue',
        venues.venue_id,
        venues.display_name,
        venues.updated_at,
        stale.stale_since
    from venues
    left join (
        select
            venue_id,
            min(stale_since) as stale_since
        from instruments
        group by venue_id
    ) as stale
        on stale.venue_id = venues.venue_id
)

select
    things.snapshot_date,
    things.kind,
    things.id,
    things.name,
    things.updated_at,
    snapshots.finished_at as read_at,
    floor(
        (epoch_ms(snapshots.finished_at) - epoch_ms(things.updated_at)) / 86400000
    )::integer as days_unchanged,
    things.stale_since
from things
inner join ops.snapshots as snapshots
    on snapshots.snapshot_date = things.snapshot_date
    and snapshots.is_book
