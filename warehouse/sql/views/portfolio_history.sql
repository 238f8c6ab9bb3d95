-- History of each portfolio's name.
--
-- portfolio_id: The portfolio.
-- name: Name of the portfolio on these nights.
-- form: history by portfolio_id
-- example: select * from portfolio_history order by portfolio_id, valid_from

select
    snapshot_date,
    book_no,
    book_before,
    portfolio_id,
    name
from history.portfolios
inner join books using (snapshot_date)
