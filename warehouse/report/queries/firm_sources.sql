select
    nights.source,
    nights.is_in_book,
    nights.state,
    nights.snapshot_date,
    nights.as_of,
    nights.reason,
    held.accounts,
    findings.findings,
    findings.high,
    moved.changed
from ops.nights as nights
left join (select source, count(*) as accounts from accounts group by source) as held using (source)
left join (
    select
        source,
        count(*) as findings,
        count(*) filter (where severity = 'high') as high
    from findings
    group by source
) as findings using (source)
left join (select source, count(*) as changed from changes group by source) as moved using (source)
where nights.snapshot_date = (select max(snapshot_date) from ops.nights)
order by nights.is_in_book, nights.source
