-- History of each portfolio's integrations, with their states.
--
-- If the API omits a portfolio's integrations on some night, that night does not end a
-- period.
--
-- portfolio_id: The portfolio.
-- integration_id: The integration.
-- venue_id: Venue of the integration on these nights.
-- status: State of the integration on these nights.
-- form: history by portfolio_id, integration_id
-- portfolio_name: Display name of the portfolio, on the last of these nights that has a name.
-- venue_name: Display name of the venue, on the last of these nights that has a name.
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
