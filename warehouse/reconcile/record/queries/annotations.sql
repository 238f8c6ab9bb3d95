-- The rows of ops.annotations.
select revision, entry_no, break_id, field, value, coalesce(accepted, '') as accepted_text, who, at as said_at,
  source, sha256
from entries join revisions on no = revision order by revision, entry_no
