select
    kind,
    id,
    name,
    case
        when stale_since is not null then 'not read'
        when kind = 'venue' then 'read'
        when updated_at is null then 'no time'
        when days_unchanged <= 1 then 'fresh'
        when days_unchanged <= 30 then 'ageing'
        else 'old'
    end as light,
    days_unchanged,
    updated_at,
    stale_since
from freshness
order by
    case light when 'not read' then 1 when 'old' then 2 when 'no time' then 3
        when 'ageing' then 4 when 'fresh' then 5 else 6 end,
    days_unchanged desc,
    kind,
    id
