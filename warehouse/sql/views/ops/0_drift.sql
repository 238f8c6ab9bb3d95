-- One row for each difference from the API's document, across all nights. Examples are a new field, a
-- missing required field and a changed type.
--
-- path: Path to the field in the response, without list indexes, for example
--     data[].positions[].note.
-- kind: unknown field, unknown value, unknown balance, missing field or changed type.
-- word: The value if the kind is `unknown value`, otherwise the field name.
-- first_seen: Business date of the first night with this difference.
-- last_seen: Business date of the newest night with this difference.
-- example: First 200 characters of an example from the first night, as JSON text.
-- seen: How often the difference occurred, over all nights.
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
