select *
from firm_shared_portfolios
order by is_settled, portfolio_id
