-- History of each venue's name, trading status and types.
--
-- venue_id: The venue.
-- display_name: Name of the venue on these nights.
-- trading_status: Trading status of the venue on these nights.
-- types: Types of the venue on these nights, in alphabetical order.
-- form: history by venue_id
-- example: select * from venue_history order by venue_id, valid_from

with typed as (
    select
        snapshot_date,
        venue_id,
        string_agg(type, ', ' order by type) as types
    from history.venue_types
    group by all
)

select
    snapshot_date,
    book_no,
    book_before,
    venue_id,
    display_name,
    trading_status,
    types
from history.venues
left join typed using (snapshot_date, venue_id)
inner join books using (snapshot_date)
