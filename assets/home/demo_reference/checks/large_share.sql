-- A position of a portfolio is more than a tenth of the value of the book.
-- severity: medium
-- alert: no
with book as (
    select value
    from value_by_night('USD')
    order by snapshot_date desc
    limit 1
)

select
    held.portfolio_id,
    held.asset_id || ' of ' || held.portfolio_name || ' is worth ' || held.value_text || ' USD.' as words
from holdings_value('USD') as held
where held.value * 10 > (select book.value from book)
order by held.value desc
