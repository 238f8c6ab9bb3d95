select operation, venue_id, query, status, attempts, error from ops.requests
where snapshot_id = $last and error is not null
order by request_no
