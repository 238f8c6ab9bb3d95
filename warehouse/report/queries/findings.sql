select
    findings.severity,
    findings.kind,
    findings.portfolio_id,
    coalesce(later.name, earlier.name) as portfolio,
    findings.venue_id,
    venues.display_name as venue,
    findings.words
from findings
left join portfolios as later using (portfolio_id)
left join portfolios_before as earlier using (portfolio_id)
left join venues using (venue_id)
order by
    case findings.severity when 'high' then 1 when 'medium' then 2 else 3 end,
    findings.kind,
    findings.portfolio_id,
    findings.venue_id,
    findings.words
