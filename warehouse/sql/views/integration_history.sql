-- Integrations of each portfolio, their states, and the period of each.
--
-- A night without integrations of a portfolio in the API does not end a period.
--
-- portfolio_id: The portfolio.
-- integration_id: The integration.
-- venue_id: Its venue in these nights.
-- status: Its state in these nights.
-- form: history by portfolio_id, integration_id
-- portfolio_name: The portfolio's display name on the last of these nights that states one.
-- venue_name: The venue's display name on the last of these nights that states one.
-- example: select * from integration_history order by all limit 10

with books as (
    select
        known.portfolio_id,
        taken.snapshot_date,
        row_number() over nights as book_no,
        lag(taken.snapshot_date) over nights as book_before
    from ops.snapshots as taken
    cross join (select distinct portfolio_id from history.integrations) as known
    anti join history.portfolios as silent
        on silent.snapshot_date = taken.snapshot_date
        and silent.portfolio_id = known.portfolio_id
        and silent.integration_count is null
    where taken.is_book
    window nights as (partition by known.portfolio_id order by taken.snapshot_date)
)

select
    snapshot_date,
    book_no,
    book_before,
    portfolio_id,
    integration_id,
    venue_id,
    status,
    portfolios.name as portfolio_name,
    venues.display_name as venue_name
from history.integrations
inner join books using (snapshot_date, portfolio_id)
left join history.portfolios as portfolios using (snapshot_date, portfolio_id)
left join history.venues as venues using (snapshot_date, venue_id)
