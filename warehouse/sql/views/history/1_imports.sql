-- One row for each old workbook that was imported, with its state.
--
-- as_of_date: Day of the old book.
-- file: Name of the file.
-- sha256: SHA-256 of the file, which is its name in reference/kept/.
-- received_at: When the file was last imported, UTC.
-- row_count: Number of positions in the file.
-- reject_count: Number of rows that could not be read. See ops.reference_rejects.
-- state: shown: the rows are in history.positions_with_imported. replaced: a later file has the same
--     day. too_late: the day is not before the first night. hidden: the last imported day differs
--     from the first night, and nobody has accepted this. See history.import_differences.
-- differences: Number of differences between the last imported day and the first night.
-- accepted_by: Who accepted the differences of this book. NULL if nobody did.
-- accepted_at: When the differences were accepted, UTC.
-- accepted_reason: The reason that this person gave.
-- example: select as_of_date, file, row_count, state, differences from history.imports

with first_night as (
    select
        min(snapshot_date) as snapshot_date,
        arg_min(snapshot_id, snapshot_date) as snapshot_id
    from ops.snapshots
    where is_book
),

imported as (
    select
        table_name[11:]::date as as_of_date,
        *,
        received_at = max(received_at) over (partition by table_name) as is_newest
    from ops.reference_files
    where starts_with(table_name, 'positions/')
),

last_book as (
    select
        arg_max(coalesce(imported.accepted_night = first_night.snapshot_id, false), as_of_date)
            as is_accepted,
        arg_max(imported.reject_count, as_of_date) as rejects
    from imported
    cross join first_night
    where imported.is_newest and imported.as_of_date < first_night.snapshot_date
),

gate as (
    select count(*) as differences
    from history.import_differences
)

select
    imported.as_of_date,
    imported.file,
    imported.sha256,
    imported.received_at,
    imported.row_count,
    imported.reject_count,
    case
        when not imported.is_newest then 'replaced'
        when coalesce(imported.as_of_date >= first_night.snapshot_date, true) then 'too_late'
        when last_book.is_accepted or gate.differences + last_book.rejects = 0 then 'shown'
        else 'hidden'
    end as state,
    gate.differences,
    imported.accepted_by,
    imported.accepted_at,
    imported.accepted_reason
from imported
cross join first_night
cross join last_book
cross join gate
