-- Everything in the book is as documented, or differed already on an earlier night.
-- severity: warning
-- path: Its path without indexes.
-- kind: unknown field, unknown value, unknown balance, missing field or changed type.
-- word: The field, or the value if it is unknown.
-- example: One example.

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
