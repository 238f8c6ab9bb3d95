select count(*) as measured, count(*) filter (
    in_json <> in_lake or in_json <> in_warehouse
) as different
from ops.control_totals where snapshot_id = $last
