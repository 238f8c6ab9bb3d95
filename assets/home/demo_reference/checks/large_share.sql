-- A position of a portfolio is more than a tenth of the value of the book.
-- severity: medium
-- alert: no
-- A value with more than 18 decimals is only in value_text. To compare it, a double is exact enough.
with book as (
    select value_text::double as book_value
    from value_by_night('USD')
    order by snapshot_date desc
    limit 1
)

select
    held.portfolio_id,
    held.asset_id || ' of ' || held.portfolio_name || ' is worth ' || held.value_text || ' USD.' as words
from holdings_value('USD') as held
where held.value_text::double * 10 > (select book.book_value from book)
order by held.value_text::double desc
