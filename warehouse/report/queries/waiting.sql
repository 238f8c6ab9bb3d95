select snapshot_date, snapshot_id, state, reason
from ops.snapshots
where state in ('held', 'complete')
    and snapshot_date not in (select snapshot_date from ops.snapshots where is_book)
order by snapshot_id desc
