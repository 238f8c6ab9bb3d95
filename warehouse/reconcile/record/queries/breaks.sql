-- The rows of ops.breaks, with custom assets still marked in their ID.
select day as snapshot_date, break_id, run_id, portfolio as portfolio_id, asset as asset_id, venue as venue_id,
  account as account_name, bucket, episode, result, source, placement, cause, b.note, age_days, change,
  status, owner, root_cause, comment, ledger as ledger_text, snapshot as snapshot_text,
  difference as difference_text, ledger_rows, first_seen, ever_seen,
  value as value_text, nullif(currency, '') as currency, nullif(price_state, '') as price_state
from newest_runs as r join breaks as b on b.run_no = r.no
where state = 'break' order by day, place
