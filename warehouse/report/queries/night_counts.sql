select snapshot_date, state, portfolio_count, account_count, balance_count, venue_count, instrument_count
from ops.snapshots
where snapshot_id in ($compared)
order by snapshot_id desc
