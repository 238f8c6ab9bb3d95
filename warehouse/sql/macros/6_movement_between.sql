-- movement_between(day1, day2): Why the amount in each account changed between two books.
--
-- Opening, in, out and fees give the expected amount. The difference to the closing amount is
-- unexplained. There is no row that explains it away. Transactions at the cut are in no column, because
-- nobody knows whether the book has them.
--
-- day1: The earlier day. The macro uses the newest book on or before this date. It fails if there is no
--     such book, if both days have the same book, if the first day is after the second, or if a day is in
--     the future.
-- day2: The later day, with the same rules.
-- returns: A table with one row for each account and asset with an amount or a transaction:
--     portfolio_id, venue_id, account_name, asset_id, is_custom_asset, the exact texts opening_text,
--     in_text, out_text, fees_text (kind is fee), expected_text, closing_text and unexplained_text,
--     state (explained, unexplained, or at_the_cut if it has such transactions and is not explained
--     without them), and the numbers of transactions inside, at_the_cut, outside (before or after, in
--     a file that also has others) and repeated. If a transaction names no known portfolio or venue,
--     the ID is as the file says.
-- example: select state, count(*) from movement_between((select min(snapshot_date) from history.portfolios), (select max(snapshot_date) from portfolios)) group by all order by all

create or replace macro movement_between(day1, day2) as table
with moves as materialized (
    select
        coalesce(portfolio_id, portfolio) as portfolio_id,
        coalesce(venue_id, venue) as venue_id,
        account as account_name,
        asset_id,
        is_custom_asset,
        kind,
        amount_text,
        place,
        is_repeated,
        sha256
    from transactions_between(day1, day2)
),

-- The files of this movement. Of other files, transactions outside are not named.
files as materialized (
    select distinct sha256
    from moves
    where place in ('inside', 'at_the_cut')
),

entries as materialized (
    select
        portfolio_id,
        venue_id,
        account_name,
        asset_id,
        is_custom_asset,
        case when snapshot_date = ($first_book) then 'opening' else 'closing' end as part,
        amount,
        amount_text,
        null as place,
        false as is_repeated
    from history.balances
    where snapshot_date in (($first_book), ($second_book))
    union all
    select
        portfolio_id,
        venue_id,
        account_name,
        asset_id,
        is_custom_asset,
        case
            when place <> 'inside' then 'none'
            when kind = 'fee' then 'fee'
            when starts_with(amount_text, '-') then 'out'
            else 'in'
        end,
        internal.as_amount(amount_text),
        amount_text,
        place,
        is_repeated
    from moves
    semi join files using (sha256)
),

grouped as materialized (
    select
        portfolio_id,
        venue_id,
        account_name,
        asset_id,
        is_custom_asset,
        part,
        internal.exact_part(amount, amount_text) as sums,
        count(place) filter (where place = 'inside') as inside,
        count(place) filter (where place = 'at_the_cut') as at_the_cut,
        count(place) filter (where place in ('before', 'after')) as outside,
        count(place) filter (where is_repeated) as repeated
    from entries
    group by all
),

summed as materialized (
    select
        portfolio_id,
        venue_id,
        account_name,
        asset_id,
        is_custom_asset,
        internal.exact_sums([
            internal.exact_part_of_parts(case when part = 'opening' then sums end),
            internal.exact_part_of_parts(case when part = 'in' then sums end),
            internal.exact_part_of_parts(case when part = 'out' then sums end),
            internal.exact_part_of_parts(case when part = 'fee' then sums end),
            internal.exact_part_of_parts(
                case when part in ('opening', 'in', 'out', 'fee') then sums end
            ),
            internal.exact_part_of_parts(case when part = 'closing' then sums end)
        ]) as sums,
        sum(inside)::bigint as inside,
        sum(at_the_cut)::bigint as at_the_cut,
        sum(outside)::bigint as outside,
        sum(repeated)::bigint as repeated
    from grouped
    group by all
),

texts as materialized (
    select
        * exclude (sums),
        coalesce(sums[1].text, '0') as opening_text,
        coalesce(sums[2].text, '0') as in_text,
        coalesce(sums[3].text, '0') as out_text,
        coalesce(sums[4].text, '0') as fees_text,
        coalesce(sums[5].text, '0') as expected_text,
        coalesce(sums[6].text, '0') as closing_text
    from summed
),

differences as materialized (
    select
        *,
        case
            when closing_text = expected_text then '0'
            else internal.exact_total([closing_text, internal.opposite(expected_text)])
        end as unexplained_text
    from texts
)

select
    portfolio_id,
    venue_id,
    account_name,
    asset_id,
    is_custom_asset,
    opening_text,
    in_text,
    out_text,
    fees_text,
    expected_text,
    closing_text,
    unexplained_text,
    case
        when unexplained_text = '0' then 'explained'
        when at_the_cut > 0 then 'at_the_cut'
        else 'unexplained'
    end as state,
    inside,
    at_the_cut,
    outside,
    repeated
from differences;
