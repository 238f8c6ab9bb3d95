-- What each venue was called, its state and its types, and from when to when.
--
-- A night that was not taken changes nothing: the change lies between `changed_after` and
-- `valid_from`, and nobody knows more. To ask what was so on a day, compare it with `valid_from`
-- and `valid_to`.
--
-- venue_id: The venue.
-- display_name: Its name in those nights.
-- trading_status: Its state in those nights.
-- types: Its types in those nights, in alphabetical order.
-- valid_from: First night on which it was read so.
-- valid_to: Last night on which it was read so, without another state between.
-- is_current: Whether the newest book has it so.
-- nights: Nights on which it was read so.
-- changed_after: The night before valid_from that has a book; NULL for the first book of all.
-- change: first (the first book had it), new, changed, or back (it was gone in between).
-- what_changed: What is not as in the row before, in words; NULL where there is none before.
-- example: select * from venue_history order by venue_id, valid_from

with books as (
    select
        snapshot_date,
        row_number() over (order by snapshot_date) as book_no,
        lag(snapshot_date) over (order by snapshot_date) as book_before
    from ops.snapshots
    where is_book
),

typed as (
    select
        snapshot_date,
        venue_id,
        string_agg(type, ', ' order by type) as types
    from history.venue_types
    group by
        snapshot_date,
        venue_id
),

seen as (
    select
        venues.venue_id,
        books.snapshot_date,
        books.book_no,
        books.book_before,
        {
            'display_name': venues.display_name,
            'trading_status': venues.trading_status,
            'types': typed.types
        } as state,
        lag(books.book_no) over nights as seen_no,
        lag(state) over nights as before
    from history.venues as venues
    left join typed
        on typed.snapshot_date = venues.snapshot_date
        and typed.venue_id = venues.venue_id
    inner join books
        on books.snapshot_date = venues.snapshot_date
    window nights as (
        partition by venues.venue_id
        order by books.snapshot_date
    )
),

marked as (
    select
        venue_id,
        state,
        snapshot_date,
        case
            when seen_no is null and book_before is null then 'first'
            when seen_no is null then 'new'
            when seen_no < book_no - 1 then 'back'
            when state is distinct from before then 'changed'
        end as change,
        case when change is not null then book_before end as changed_after,
        case
            when change in ('changed', 'back')
                then nullif(
                    concat_ws(
                        '; ',
                        in_words('display_name', before.display_name, state.display_name),
                        in_words('trading_status', before.trading_status, state.trading_status),
                        in_words('types', before.types, state.types)
                    ),
                    ''
                )
        end as what_changed
    from seen
),

numbered as (
    select
        *,
        count(change) over (
            partition by venue_id
            order by snapshot_date
            rows unbounded preceding
        ) as stretch
    from marked
)

select
    venue_id,
    unnest(state),
    min(snapshot_date) as valid_from,
    max(snapshot_date) as valid_to,
    max(snapshot_date) = (
        select max(snapshots.snapshot_date) from ops.snapshots as snapshots where snapshots.is_book
    ) as is_current,
    count(*) as nights,
    max(changed_after) as changed_after,
    max(change) as change,
    max(what_changed) as what_changed
from numbered
group by
    venue_id,
    stretch,
    state
