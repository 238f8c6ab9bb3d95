select
    snapshot_date,
    positions_compared,
    positions_compared + coalesce(positions_not_compared, 0) as positions,
    open_breaks,
    pending_breaks
from ops.reconciliations
where reconciliation = 'ledger'
order by snapshot_date desc
limit 1
