select table_name, column_name, path, left(value, 200) as value
from ops.inexact
where snapshot_id = $last
order by request_no, path
