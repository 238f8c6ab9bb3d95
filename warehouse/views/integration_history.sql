-- Which integrations each portfolio had, in which state, and from when to when.
--
-- A night that was not taken changes nothing: the change lies between `changed_after` and
-- `valid_from`, and nobody knows more; nor does one on which the API said nothing of a
-- portfolio's integrations. To ask what was so on a day, compare it with `valid_from` and
-- `valid_to`.
--
-- portfolio_id: The portfolio.
-- integration_id: The integration.
-- venue_id: Its venue in those nights.
-- status: Its state in those nights.
-- valid_from: First night on which it was read so.
-- valid_to: Last night on which it was read so, without another state between.
-- is_current: Whether the newest book has it so.
-- nights: Nights on which it was read so.
-- changed_after: The night before valid_from that has a book; NULL for the first book of all.
-- change: first (the first book had it), new, changed, or back (it was gone in between).
-- what_changed: What is not as in the row before, in words; NULL where there is none before.
-- example: select * from integration_history order by all limit 10

with books as (
    select
        known.portfolio_id,
        taken.snapshot_date,
        row_number() over nights as book_no,
        lag(taken.snapshot_date) over nights as book_before
    from ops.snapshots as taken
    cross join (select distinct portfolio_id from history.integrations) as known
    anti join history.portfolios as silent
        on silent.snapshot_date = taken.snapshot_date
        and silent.portfolio_id = known.portfolio_id
        and silent.integration_count is null
    where taken.is_book
    window nights as (partition by known.portfolio_id order by taken.snapshot_date)
),

seen as (
    select
        integrations.portfolio_id,
        integrations.integration_id,
        books.snapshot_date,
        books.book_no,
        books.book_before,
        {
            'venue_id': integrations.venue_id,
            'status': integrations.status
        } as state,
        lag(books.book_no) over nights as seen_no,
        lag(state) over nights as before
    from history.integrations as integrations
    inner join books
        on books.snapshot_date = integrations.snapshot_date
        and books.portfolio_id = integrations.portfolio_id
    window nights as (
        partition by integrations.portfolio_id, integrations.integration_id
        order by books.snapshot_date
    )
),

marked as (
    select
        portfolio_id,
        integration_id,
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
                        in_words('venue_id', before.venue_id, state.venue_id),
                        in_words('status', before.status, state.status)
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
            partition by portfolio_id, integration_id
            order by snapshot_date
            rows unbounded preceding
        ) as stretch
    from marked
)

select
    portfolio_id,
    integration_id,
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
    portfolio_id,
    integration_id,
    stretch,
    state
