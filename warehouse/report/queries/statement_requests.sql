select 'GET ' || path || case query when '' then '' else '?' || query end as request,
    status, received_at, byte_count, sha256
from ops.requests
where snapshot_id = $snapshot and operation = 'list_portfolios' and purpose = 'book'
order by request_no
