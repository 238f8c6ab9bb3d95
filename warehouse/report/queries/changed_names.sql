with earlier as (
    select 'portfolio' as kind, portfolio_id as id, 'name' as what, name as value
    from history.portfolios where snapshot_date = $before
    union all
    select 'venue', venue_id, unnest(['name', 'status']), unnest([display_name, trading_status])
    from history.venues where snapshot_date = $before
    union all
    select 'integration', integration_id, 'status', status
    from history.integrations where snapshot_date = $before
),

later as (
    select 'portfolio' as kind, portfolio_id as id, 'name' as what, name as value
    from portfolios
    union all
    select 'venue', venue_id, unnest(['name', 'status']), unnest([display_name, trading_status])
    from venues
    union all
    select 'integration', integration_id, 'status', status
    from integrations
)

select
    kind,
    what,
    id,
    case
        when earlier.id is null then 'new'
        when later.id is null then 'gone'
        else 'changed'
    end as change,
    earlier.value as before,
    later.value as now
from (select *, id as key from earlier) as earlier
full join (select *, id as key from later) as later using (kind, what, id)
where earlier.key is null or later.key is null or earlier.value is distinct from later.value
order by kind desc, id, what
