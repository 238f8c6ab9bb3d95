-- How old each thing was when the book was read: one row per portfolio and per venue.
--
-- snapshot_date: Business date of the book.
-- kind: portfolio or venue.
-- id: The portfolio or venue, as the API names it.
-- name: Its name for people.
-- updated_at: When the API says it last changed, UTC; NULL where it does not say.
-- read_at: When the read of the book was complete, UTC.
-- days_unchanged: Whole days between the two; negative where the API's time is ahead.
-- stale_since: For a venue whose instruments could not be read: the date of the last good read.
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
