select
    snapshot_date,
    count(*) filter (age_days <= 1) as to_1_day,
    count(*) filter (age_days between 2 and 4) as to_4_days,
    count(*) filter (age_days between 5 and 29) as to_29_days,
    count(*) filter (age_days >= 30) as from_30_days,
    count(*) as open_breaks
from ops.breaks
where reconciliation = 'ledger'
    and status not in ('Explained - accepted', 'Accepted by rule')
group by snapshot_date
order by snapshot_date desc
limit 30
