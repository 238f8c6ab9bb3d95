select
    source,
    severity,
    kind,
    portfolio_id,
    portfolio_name as portfolio,
    venue_id,
    venue_name as venue,
    words
from findings
order by severity_rank, source, kind, words
