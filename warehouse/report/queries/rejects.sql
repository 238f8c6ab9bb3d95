select request_no, path, reason, left(value, 200) as value, carries_money
from ops.rejects
where snapshot_id = $last
order by carries_money desc, request_no, path
