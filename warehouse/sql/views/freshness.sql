-- Age of each portfolio and venue when the book was read.
--
-- snapshot_date: Business date of the book.
-- kind: portfolio or venue.
-- id: The id of the portfolio or venue in the API.
-- name: Its display name.
-- updated_at: Time of the last change in the API, UTC. NULL if it is not stated.
-- read_at: When the read of the book was complete, UTC.
-- days_unchanged: Whole days from updated_at to read_at. Negative if the time of the API is later.
-- stale_since: The date of the last good read, for a venue whose instruments could not be read.
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
