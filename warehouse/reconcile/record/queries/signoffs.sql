-- The rows of ops.signoffs.
select s.day as snapshot_date, s.no as signoff_no, role, who, at as signed_at, comment, s.run_id, s.digest,
  open_breaks, entered_by, r.digest is s.digest as is_valid
from signatures as s left join newest_runs as r on r.day = s.day order by s.no
