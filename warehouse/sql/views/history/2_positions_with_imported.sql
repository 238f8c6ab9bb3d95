-- One row for each account of a position on each night, and in each old book that was imported.
--
-- Old books are in this view only: they are not part of any total, guard or control total, nor of
-- the lake. They are shown only if the last imported day equals the first night, or if a person
-- accepted the differences (see history.imports). Otherwise this view has only the nights. A name in
-- an old book that the first book does not have is shown as written.
--
-- snapshot_date: Date of the night, or day of the old book.
-- origin: api for a night, or the name of the file.
-- portfolio_id: ID of the portfolio. NULL if the old book does not state it.
-- venue_id: ID of the venue. NULL if the old book does not state it.
-- account_name: Name of the account. NULL if the old book does not state it.
-- asset_id: ID of the asset.
-- is_custom_asset: Whether the organisation defined the asset itself.
-- amount_text: Exact sum of the account's amounts, in plain digits.
-- sha256: SHA-256 of the file. NULL for a night.
-- sheet: Tab of the workbook, or file in the archive. NULL for a night.
-- line: First line of the position in the tab or file. NULL for a night.
-- example: select snapshot_date, origin, exact_sum(amount_text) from history.positions_with_imported
--     where asset_id = 'BTC' and not is_custom_asset group by all order by all

-- An account with an empty balance has the amount 0. DuckDB 1.2 does not read more than two queries
-- in one UNION.
with nights as (
    select
        snapshot_date,
        portfolio_id,
        venue_id,
        account_name,
        asset_id,
        is_custom_asset,
        amount,
        amount_text
    from history.balances
    union all
    select
        snapshot_date,
        portfolio_id,
        venue_id,
        account_name,
        asset_id,
        is_custom_asset,
        0,
        '0'
    from history.accounts
    where coalesce(balance_count, 0) = 0
),

amounts as (
    select
        snapshot_date,
        'api' as origin,
        portfolio_id,
        venue_id,
        account_name,
        asset_id,
        is_custom_asset,
        amount,
        amount_text,
        null::varchar as sha256,
        null::varchar as sheet,
        null::bigint as line,
        null::bigint as row_no
    from nights
    union all
    select
        positions.as_of_date,
        positions.file,
        positions.portfolio_id,
        positions.venue_id,
        positions.account_name,
        positions.asset_id,
        positions.is_custom_asset,
        internal.as_amount(positions.amount_text),
        positions.amount_text,
        positions.sha256,
        positions.sheet,
        positions.line,
        positions.row_no
    from reference.positions as positions
    inner join history.imports as imports
        on imports.as_of_date = positions.as_of_date
        and imports.sha256 = positions.sha256
        and imports.state = 'shown'
)

select
    snapshot_date,
    origin,
    portfolio_id,
    venue_id,
    account_name,
    asset_id,
    is_custom_asset,
    internal.exact_sums([internal.exact_part(amount, amount_text)])[1]['text'] as amount_text,
    sha256,
    arg_min(sheet, row_no) as sheet,
    arg_min(line, row_no) as line
from amounts
group by
    snapshot_date,
    origin,
    portfolio_id,
    venue_id,
    account_name,
    asset_id,
    is_custom_asset,
    sha256
