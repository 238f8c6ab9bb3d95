select
    severity,
    kind,
    portfolio_id,
    portfolio_name as portfolio,
    venue_id,
    venue_name as venue,
    words
from history.findings as earlier
where snapshot_date = $before
    and not exists (
        select 1
        from findings
        where findings.kind = earlier.kind
            and findings.portfolio_id is not distinct from earlier.portfolio_id
            and findings.venue_id is not distinct from earlier.venue_id
            and if(findings.kind = 'asset_moved', findings.words, '')
                = if(earlier.kind = 'asset_moved', earlier.words, '')
            and regexp_replace(findings.words, '[0-9]+( assets?)?', '', 'g')
                = regexp_replace(earlier.words, '[0-9]+( assets?)?', '', 'g')
    )
order by
    severity_rank,
    kind,
    portfolio_id,
    venue_id,
    words
