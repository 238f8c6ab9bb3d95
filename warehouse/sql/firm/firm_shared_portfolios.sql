-- Portfolios that several sources can see.
--
-- One row for each portfolio, about the newest date on which several sources see it. A shared
-- portfolio counts for one source only, so that sums do not include it twice. All tables and views
-- of amounts omit its rows in the other sources. ops.shared_portfolios has all dates.
--
-- portfolio_id: The portfolio.
-- portfolio_name: Display name of the portfolio. NULL if the API does not send a name.
-- sources: The sources that see the portfolio, in alphabetical order.
-- counted_for: The source for which the portfolio counts.
-- is_settled: Whether firm.toml names the source in counted_for. If not, nightbook uses the first
--     source by name until a person decides.
-- snapshot_date: The newest date on which several sources saw the portfolio.
-- nights: Number of dates on which several sources saw the portfolio.
-- differs: Whether the sources report different amounts for the portfolio on that date.
-- example: select portfolio_name, sources, counted_for from firm_shared_portfolios
--     where not is_settled order by all

with newest as (
    select
        portfolio_id,
        max(snapshot_date) as snapshot_date,
        count(distinct snapshot_date) as nights
    from ops.shared_portfolios
    group by portfolio_id
),

seen as (
    select
        shared.source,
        shared.snapshot_date,
        shared.portfolio_id,
        shared.counted_for,
        shared.is_settled,
        newest.nights,
        nights.is_in_book,
        portfolios.name
    from ops.shared_portfolios as shared
    inner join newest
        on newest.portfolio_id = shared.portfolio_id
        and newest.snapshot_date = shared.snapshot_date
    inner join ops.nights as nights
        on nights.source = shared.source
        and nights.snapshot_date = shared.snapshot_date
    left join internal.portfolios as portfolios
        on portfolios.source = shared.source
        and portfolios.snapshot_date = nights.as_of
        and portfolios.portfolio_id = shared.portfolio_id
),

stated as (
    select
        source,
        portfolio_id,
        list(
            row(
                asset_id,
                is_custom_asset,
                venue_id,
                account_name,
                duplicate_no,
                bucket,
                state,
                internal.plain_digits(amount_text)
            )
            order by asset_id, is_custom_asset, venue_id, account_name, duplicate_no, bucket, state
        ) as amounts
    from internal.balances
    semi join seen using (source, snapshot_date, portfolio_id)
    group by
        source,
        portfolio_id
)

select
    seen.portfolio_id,
    min(seen.name) as portfolio_name,
    string_agg(seen.source, ', ' order by seen.source) as sources,
    min(seen.counted_for) as counted_for,
    bool_and(seen.is_settled) as is_settled,
    min(seen.snapshot_date) as snapshot_date,
    min(seen.nights) as nights,
    count(distinct coalesce(stated.amounts, [])) filter (where seen.is_in_book) > 1 as differs
from seen
left join stated
    on stated.source = seen.source
    and stated.portfolio_id = seen.portfolio_id
group by seen.portfolio_id
