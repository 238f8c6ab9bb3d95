select
    snapshot_date,
    nullif(trim(owner), '') as owner,
    count(*) as open_breaks,
    max(age_days) as oldest_days
from ops.breaks
where reconciliation = 'ledger'
    and status not in ('Explained - accepted', 'Accepted by rule')
    and snapshot_date = (
        select max(snapshot_date)
        from ops.breaks
        where reconciliation = 'ledger'
            and status not in ('Explained - accepted', 'Accepted by rule')
    )
group by all
order by open_breaks desc, owner nulls last
