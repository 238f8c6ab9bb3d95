-- Which instruments each venue listed, on which terms, and from when to when.
--
-- A night that was not taken changes nothing: the change lies between `changed_after` and
-- `valid_from`, and nobody knows more. To ask what was so on a day, compare it with `valid_from`
-- and `valid_to`. A night whose rows were carried over counts as it is shown.
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
-- valid_from: First night on which it was read so.
-- valid_to: Last night on which it was read so, without another state between.
-- is_current: Whether the newest book has it so.
-- nights: Nights on which it was read so.
-- changed_after: The night before valid_from that has a book; NULL for the first book of all.
-- change: first (the first book had it), new, changed, or back (it was gone in between).
-- what_changed: What is not as in the row before, in words; NULL where there is none before.
-- example: select * from instrument_history where change <> 'first' order by all limit 10

with books as (
    select
        snapshot_date,
        row_number() over (order by snapshot_date) as book_no,
        lag(snapshot_date) over (order by snapshot_date) as book_before
    from ops.snapshots
    where is_book
),

seen as (
    select
        instruments.venue_id,
        instruments.instrument_id,
        books.snapshot_date,
        books.book_no,
        books.book_before,
        {
            'type': instruments.type,
            'display_name': instruments.display_name,
            'feed_id': instruments.feed_id,
            'venue_symbol': instruments.venue_symbol,
            'base_asset': instruments.base_asset,
            'term_asset': instruments.term_asset,
            'min_base_qty': instruments.min_base_qty,
            'max_base_qty': instruments.max_base_qty,
            'min_base_increment': instruments.min_base_increment,
            'min_term_qty': instruments.min_term_qty,
            'min_price': instruments.min_price,
            'max_price': instruments.max_price,
            'min_tick': instruments.min_tick,
            'expiration': instruments.expiration
        } as state,
        lag(books.book_no) over nights as seen_no,
        lag(state) over nights as before
    from history.instruments as instruments
    inner join books
        on books.snapshot_date = instruments.snapshot_date
    window nights as (
        partition by instruments.venue_id, instruments.instrument_id
        order by books.snapshot_date
    )
),

marked as (
    select
        venue_id,
        instrument_id,
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
                        in_words('type', before.type, state.type),
                        in_words('display_name', before.display_name, state.display_name),
                        in_words('feed_id', before.feed_id, state.feed_id),
                        in_words('venue_symbol', before.venue_symbol, state.venue_symbol),
                        in_words('base_asset', before.base_asset, state.base_asset),
                        in_words('term_asset', before.term_asset, state.term_asset),
                        in_words(
                            'min_base_qty',
                            in_digits(before.min_base_qty),
                            in_digits(state.min_base_qty)
                        ),
                        in_words(
                            'max_base_qty',
                            in_digits(before.max_base_qty),
                            in_digits(state.max_base_qty)
                        ),
                        in_words(
                            'min_base_increment',
                            in_digits(before.min_base_increment),
                            in_digits(state.min_base_increment)
                        ),
                        in_words(
                            'min_term_qty',
                            in_digits(before.min_term_qty),
                            in_digits(state.min_term_qty)
                        ),
                        in_words(
                            'min_price',
                            in_digits(before.min_price),
                            in_digits(state.min_price)
                        ),
                        in_words(
                            'max_price',
                            in_digits(before.max_price),
                            in_digits(state.max_price)
                        ),
                        in_words(
                            'min_tick',
                            in_digits(before.min_tick),
                            in_digits(state.min_tick)
                        ),
                        in_words('expiration', before.expiration, state.expiration)
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
            partition by venue_id, instrument_id
            order by snapshot_date
            rows unbounded preceding
        ) as stretch
    from marked
)

select
    venue_id,
    instrument_id,
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
    instrument_id,
    stretch,
    state
