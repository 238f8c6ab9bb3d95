-- trace(portfolio, asset, day): The origin of each amount in a position, with the night, the
-- request and the JSON path.
--
-- The macro uses only the database. The bytes of the responses are in the landing folder, and
-- `nightbook trace` shows them. Without `day`, for example in `trace('Treasury Reserve', 'BTC')`,
-- the macro uses the newest book.
--
-- portfolio: ID or name of the portfolio. If several portfolios have the name, the result contains all
--     of them.
-- asset: ID of the asset.
-- day: Any date. The macro uses the newest book on or before this date. By default, it uses the
--     newest book of all. If there is no such book, the macro fails with an error.
-- returns: A table: snapshot_date, snapshot_id, portfolio_id, portfolio_name, asset_id,
--     is_custom_asset, venue_id, account_name, duplicate_no, bucket, state, amount_text, and the
--     columns request_no, path, query, sent_at, received_at, byte_count, sha256 and file of the
--     request whose response contains the amount. The file is in the folder
--     `landing/<snapshot_date>/<snapshot_id>/`. The last column, `json_path` (RFC 9535), finds the
--     amount in the response by IDs. For an undocumented balance kind, `json_path` only finds the
--     kind, and `state` has the rest of the path.
-- example: select venue_id, account_name, bucket, state, amount_text, request_no, sha256, json_path
--     from trace((select min(portfolio_id) from balances), 'BTC') order by all

create or replace macro trace(portfolio, asset, day := null) as table
with newest as (
    select
        max(snapshot_date) as snapshot_date,
        max_by(snapshot_id, snapshot_date) as snapshot_id
    from ops.snapshots
    where is_book
        and snapshot_date <= coalesce(day::date, date 'infinity')
),

book as (
    select
        snapshot_id,
        coalesce(
            snapshot_date,
            error('no book on or before that day: see ops.snapshots and ops.gaps')
        ) as snapshot_date
    from newest
)

select
    amounts.snapshot_date,
    book.snapshot_id,
    amounts.portfolio_id,
    owners.name as portfolio_name,
    amounts.asset_id,
    amounts.is_custom_asset,
    amounts.venue_id,
    amounts.account_name,
    amounts.duplicate_no,
    amounts.bucket,
    amounts.state,
    amounts.amount_text,
    requests.request_no,
    requests.path,
    requests.query,
    requests.sent_at,
    requests.received_at,
    requests.byte_count,
    requests.sha256,
    requests.file,
    '$.data[?@.id==' || internal.json_text(amounts.portfolio_id)
    || '].positions[?@.assetId==' || internal.json_text(amounts.asset_id)
    || ' && @.isCustomAsset==' || amounts.is_custom_asset::varchar
    || '].accounts[?@.venueId==' || internal.json_text(amounts.venue_id)
    || ' && @.name==' || internal.json_text(amounts.account_name)
    || '].balance[' || internal.json_text(amounts.bucket) || ']'
    || case
        when internal.is_known_balance(amounts.bucket, amounts.state)
            then '[' || internal.json_text(amounts.state) || ']'
        else ''
    end as json_path
from book
inner join history.balances as amounts
    on amounts.snapshot_date = book.snapshot_date
inner join history.portfolios as owners
    on owners.snapshot_date = amounts.snapshot_date
    and owners.portfolio_id = amounts.portfolio_id
left join ops.requests as requests
    on requests.snapshot_id = book.snapshot_id
    and requests.operation = 'list_portfolios'
    and requests.purpose = 'book'
where amounts.asset_id = asset
    and (owners.portfolio_id = portfolio or owners.name = portfolio);
