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
    portfolio_id,
    asset_id || ' of ' || portfolio_name || ' is worth ' || value_text || ' USD.' as words
from holdings_value('USD')
where value * 10 > (select book.value from book)
order by holdings_value.value desc
