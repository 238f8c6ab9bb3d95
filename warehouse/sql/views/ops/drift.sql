-- One row per thing that is not as documented, over all nights: a field, a word or a balance kind
-- that is new, a required field that is missing, a type that changed.
--
-- path: Where it stands, without indexes, like data[].positions[].note.
-- kind: unknown field, unknown value, unknown balance, missing field or changed type.
-- word: For an unknown value: the word; otherwise the name of the field.
-- first_seen: Business date of the first night that had it.
-- last_seen: Business date of the newest night that had it.
-- example: One value of it on its first night, as JSON text, the first 200 letters.
-- seen: How often it came, over all nights.
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
