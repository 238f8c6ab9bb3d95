-- One row per difference from the document, over all nights: a new field, value or balance kind, a
-- missing required field, or a changed type.
--
-- path: Its path without indexes, like data[].positions[].note.
-- kind: unknown field, unknown value, unknown balance, missing field or changed type.
-- word: The value if it is an unknown value. Otherwise the name of the field.
-- first_seen: Business date of the first night with it.
-- last_seen: Business date of the newest night with it.
-- example: One example from its first night as JSON text, the first 200 characters.
-- seen: Number of occurrences over all nights.
-- example: select * from ops.drift where first_seen = (select max(first_seen) from ops.drift)

select
    path,
    kind,
    word,
    min(snapshot_date) as first_seen,
    max(snapshot_date) as last_seen,
    arg_min(example, snapshot_id) as example,
    sum(seen)::bigint as seen
from ops.drift_by_night
group by
    path,
    kind,
    word
