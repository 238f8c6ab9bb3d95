-- The rows of ops.reconciliations, with the level and the number of positions still in JSON.
select day as snapshot_date, run_id, digest, shown, rejected as rejected_rows,
  uncovered as positions_not_compared, made_at as run_at, made_by as run_by,
  count(*) filter (where state = 'break') as breaks,
  count(*) filter (where state = 'break' and status not in ('Explained - accepted', 'Accepted by rule')) as open_breaks,
  count(*) filter (where state = 'not compared' and status not in ('Explained - accepted', 'Accepted by rule')) as pending_breaks
from newest_runs as r left join breaks as b on b.run_no = r.no group by r.no order by day
