-- The desk of each portfolio. Two portfolios have none.
select
    portfolio_id,
    ['Macro', 'Credit', 'Digital assets'][1 + (md5_number_lower(portfolio_id) % 3)::bigint] as desk
from portfolios
where name not in ('Empty', 'Pilot Mandate')
order by all
