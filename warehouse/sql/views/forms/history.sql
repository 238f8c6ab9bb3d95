-- What was read by night, told in stretches of nights that are alike: one row a stretch.
--
-- A night that was not taken changes nothing: the change lies between `changed_after` and
-- `valid_from`, and nobody knows more. To ask what was so on a day, compare it with `valid_from`
-- and `valid_to`.
--
-- valid_from: First night on which it was read so.
-- valid_to: Last night on which it was read so, without another state between.
-- is_current: Whether the newest book has it so.
-- nights: Nights on which it was read so.
-- changed_after: The night before valid_from that has a book; NULL for the first book of all.
-- change: first (the first book had it), new, changed, or back (it was gone in between).
-- what_changed: What is not as in the row before, in words; NULL where there is none before.

-- The nights that tell something, in their order; a query may have its own by the same name.
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
