-- One row for each period of nights with equal values.
--
-- Each row covers a period of consecutive nights with the same values. A missing night does not end
-- a period. The exact time of a change is not known, but it is between `changed_after` and
-- `valid_from`. To find the values on a given day, select the row whose `valid_from` and `valid_to`
-- include that day.
--
-- valid_from: First night of the period.
-- valid_to: Last night of the period.
-- is_current: Whether the newest book has these values.
-- nights: Number of nights in the period.
-- changed_after: The last night before valid_from that has a book. NULL if valid_from is the first
--     book.
-- change: first (in the first book), new, changed, or back (missing for some nights before).
-- what_changed: Differences from the previous row, as text. NULL if there is no previous row.

-- The relevant nights in order. A query may define its own list with the same name.
with books as (
    select
        snapshot_date,
        row_number() over (order by snapshot_date) as book_no,
        lag(snapshot_date) over (order by snapshot_date) as book_before
    from ops.snapshots
    where is_book
),

records as (
    $query
),

appearances as (
    select
        $key,
        snapshot_date,
        book_no,
        book_before$named,
        struct_pack(
            $packed
        ) as state,
        lag(book_no) over nights as previous_no,
        lag(state) over nights as before
    from records
    window nights as (
        partition by $key
        order by snapshot_date
    )
),

change_marks as (
    select
        $key,
        state,
        snapshot_date$named,
        case
            when previous_no is null and book_before is null then 'first'
            when previous_no is null then 'new'
            when previous_no < book_no - 1 then 'back'
            when state is distinct from before then 'changed'
        end as change,
        case when change is not null then book_before end as changed_after,
        case
            when change in ('changed', 'back')
                then nullif(
                    concat_ws(
                        '; ',
                        $compared
                    ),
                    ''
                )
        end as what_changed
    from appearances
),

stretches as (
    select
        *,
        count(change) over (
            partition by $key
            order by snapshot_date
            rows unbounded preceding
        ) as stretch
    from change_marks
)

select
    $key,
    unnest(state),
    min(snapshot_date) as valid_from,
    max(snapshot_date) as valid_to,
    max(snapshot_date) = (
        select max(snapshots.snapshot_date) from ops.snapshots as snapshots where snapshots.is_book
    ) as is_current,
    count(*) as nights,
    max(changed_after) as changed_after,
    max(change) as change,
    max(what_changed) as what_changed$latest
from stretches
group by
    $key,
    stretch,
    state
