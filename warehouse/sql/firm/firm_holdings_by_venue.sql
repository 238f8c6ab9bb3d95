-- What each venue keeps of each asset, over all sources of the newest book of the firm.
--
-- A listed asset is the same everywhere, so its sources are added up, exactly. A custom asset is
-- that of the organisation which defined it: two of the same id are never added to each other. The
-- totals hold the sources of that night's book and no others: read `missing_sources` with each.
--
-- snapshot_date: Business date of the book.
-- venue_id: Venue that keeps it.
-- asset_id: Asset held; assets are never added to each other.
-- is_custom_asset: Whether the asset is one that an organisation defined itself.
-- custom_of: For a custom asset, the source that defined it; NULL for a listed one.
-- free: Free, of the kinds that the document knows; NULL where DECIMAL(38,18) cannot hold it.
-- free_text: The same, exact.
-- locked: Locked, of the kinds that the document knows; NULL where DECIMAL(38,18) cannot hold it.
-- locked_text: The same, exact.
-- other: All that the document does not know; NULL where DECIMAL(38,18) cannot hold it exactly.
-- other_text: The same, exact.
-- total: Free, locked and other together; NULL where DECIMAL(38,18) cannot hold it exactly.
-- total_text: The same, exact.
-- sources: How many sources of the book hold it.
-- source_names: Which these are, in alphabetical order.
-- missing_sources: Sources that the book of that night lacks (see ops.nights); NULL where it is whole.
-- portfolios: Portfolios that have an account of it there, over those sources.
-- accounts: Accounts of the asset, over those sources.
-- example: select venue_id, asset_id, total_text, sources from firm_holdings_by_venue order by all

with sums as (
    select
        snapshot_date,
        venue_id,
        asset_id,
        is_custom_asset,
        case when is_custom_asset then source end as custom_of,
        internal.exact_sums(
            [
                internal.exact_part(free, free_text),
                internal.exact_part(locked, locked_text),
                internal.exact_part(other, other_text),
                internal.exact_part(total, total_text)
            ]
        ) as exact,
        count(*) as sources,
        string_agg(source, ', ' order by source) as source_names,
        sum(portfolios)::bigint as portfolios,
        sum(accounts)::bigint as accounts
    from holdings_by_venue
    group by
        snapshot_date,
        venue_id,
        asset_id,
        is_custom_asset,
        custom_of
)

select
    sums.snapshot_date,
    venue_id,
    asset_id,
    is_custom_asset,
    custom_of,
    exact[1].amount as free,
    exact[1].text as free_text,
    exact[2].amount as locked,
    exact[2].text as locked_text,
    exact[3].amount as other,
    exact[3].text as other_text,
    exact[4].amount as total,
    exact[4].text as total_text,
    sources,
    source_names,
    missing.names as missing_sources,
    portfolios,
    accounts
from sums
left join (
    select
        snapshot_date,
        string_agg(source, ', ' order by source) as names
    from ops.nights
    where not is_in_book
    group by snapshot_date
) as missing
    on missing.snapshot_date = sums.snapshot_date
