-- Everything in the book is as documented, or was already otherwise on an earlier night.
-- severity: warning
-- path: Where it stands, without indexes.
-- kind: unknown field, unknown value, unknown balance, missing field or changed type.
-- word: The field, or for an unknown value the word.
-- example: One value of it.

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
