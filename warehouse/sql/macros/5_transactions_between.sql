-- transactions_between(day1, day2): The transactions that people brought, and their place between two books.
--
-- A transaction whose time is within the read of one of the books may be in the book or not, so it is
-- at_the_cut. Nothing is guessed.
--
-- day1: The earlier day. The macro uses the newest book on or before this date. It fails if there is no
--     such book, if both days have the same book, if the first day is after the second, or if a day is in
--     the future.
-- day2: The later day, with the same rules.
-- returns: A table with one row for each valid row of reference.transactions: the columns of this table,
--     portfolio_id and venue_id (NULL if no portfolio or venue, or several, have this ID or name), place
--     (before, inside, at_the_cut or after), and is_repeated (whether the same file has the same
--     reference, account, asset and kind more than once).
-- example: select place, count(*) from transactions_between((select min(snapshot_date) from history.portfolios), (select max(snapshot_date) from portfolios)) group by all order by all

create or replace macro transactions_between(day1, day2) as table
with reads as materialized (
    -- The last read of the portfolios: the answer shows the book between these two times.
    select
        snapshots.snapshot_date = ($first_book) as is_first,
        arg_max(
            epoch_us(coalesce(requests.sent_at, requests.received_at)),
            requests.received_at
        ) as from_us,
        epoch_us(max(requests.received_at)) as to_us
    from ops.snapshots as snapshots
    inner join ops.requests as requests
        on requests.snapshot_id = snapshots.snapshot_id
        and requests.operation = 'list_portfolios'
        and requests.purpose = 'book'
    where snapshots.is_book
        and snapshots.snapshot_date in (($first_book), ($second_book))
    group by all
),

cuts as materialized (
    select
        max(case when is_first then from_us end) as first_from,
        max(case when is_first then to_us end) as first_to,
        max(case when not is_first then from_us end) as second_from,
        max(case when not is_first then to_us end) as second_to
    from reads
),

-- An ID comes before a name, and a name of several portfolios is not used. A CTE must not have the
-- name of a table, because the expression for a day may read this table.
portfolio_names as materialized (
    select
        given,
        case
            when count(distinct portfolio_id) filter (where is_id) = 1
                then any_value(portfolio_id) filter (where is_id)
            when count(distinct portfolio_id) = 1 then any_value(portfolio_id)
        end as portfolio_id
    from (
        select
            unnest([portfolio_id, name]) as given,
            unnest([true, false]) as is_id,
            portfolio_id
        from history.portfolios
        where snapshot_date in (($first_book), ($second_book))
    )
    group by given
),

venue_names as materialized (
    select
        given,
        case
            when count(distinct venue_id) filter (where is_id) = 1
                then any_value(venue_id) filter (where is_id)
            when count(distinct venue_id) = 1 then any_value(venue_id)
        end as venue_id
    from (
        select
            unnest([venue_id, display_name]) as given,
            unnest([true, false]) as is_id,
            venue_id
        from history.venues
        where snapshot_date in (($first_book), ($second_book))
    )
    group by given
),

-- Keys that several rows have. A later file replaces the rows with the same key. The rows of one file
-- stay, also if they are equal. A window over all rows would take three times as long.
several as materialized (
    select
        reference,
        portfolio,
        venue,
        account,
        asset_id,
        is_custom_asset,
        kind,
        max(received_at) as newest
    from reference.transactions as transactions
    group by all
    having count(*) > 1
),

repeated as materialized (
    select
        several.*,
        count(*) as rows
    from several
    inner join reference.transactions as transactions
        using (reference, portfolio, venue, account, asset_id, is_custom_asset, kind)
    where transactions.received_at = several.newest
    group by all
)

select
    transactions.*,
    portfolio_names.portfolio_id,
    venue_names.venue_id,
    case
        when epoch_us(transactions.time) < cuts.first_from then 'before'
        when epoch_us(transactions.time) <= cuts.first_to then 'at_the_cut'
        when epoch_us(transactions.time) < cuts.second_from then 'inside'
        when epoch_us(transactions.time) <= cuts.second_to then 'at_the_cut'
        else 'after'
    end as place,
    coalesce(repeated.rows, 1) > 1 as is_repeated
from reference.transactions as transactions
cross join cuts
left join repeated
    on repeated.reference = transactions.reference
    and repeated.portfolio = transactions.portfolio
    and repeated.venue = transactions.venue
    and repeated.account = transactions.account
    and repeated.asset_id = transactions.asset_id
    and repeated.is_custom_asset = transactions.is_custom_asset
    and repeated.kind = transactions.kind
left join portfolio_names
    on portfolio_names.given = transactions.portfolio
left join venue_names
    on venue_names.given = transactions.venue
where coalesce(repeated.newest, transactions.received_at) = transactions.received_at;
