-- The book has no new differences from the API's document.
-- severity: warning
-- path: Path of the field in the response, without list indexes.
-- kind: unknown field, unknown value, unknown balance, missing field or changed type.
-- word: The value if the kind is `unknown value`, otherwise the field name.
-- example: An example as JSON text.

select
    path,
    kind,
    word,
    example
from ops.drift
where first_seen = (
    select max(snapshot_date)
    from ops.snapshots
    where is_book
)
