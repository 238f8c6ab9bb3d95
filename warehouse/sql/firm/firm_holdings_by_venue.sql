-- Holdings at each venue by asset, summed over all sources of the firm's newest book.
--
-- A listed asset is the same in all sources, so their amounts are added exactly. A custom asset
-- belongs to the organisation that defined it. Two custom assets with the same id are never added.
-- The totals include only the sources in that night's book, so check `missing_sources` too.
--
-- snapshot_date: Business date of the book.
-- venue_id: The venue where the asset is kept.
-- asset_id: Asset ID. Amounts of different assets are never added together.
-- is_custom_asset: Whether an organisation defined the asset itself.
-- custom_of: The source that defined a custom asset. NULL for a listed asset.
-- free: Free amounts of the documented kinds. NULL if DECIMAL(38,18) cannot hold the sum.
-- free_text: The amount in the column free, as exact text.
-- locked: Locked amounts of the documented kinds. NULL if DECIMAL(38,18) cannot hold the sum.
-- locked_text: The amount in the column locked, as exact text.
-- other: All amounts of undocumented balance kinds. NULL if DECIMAL(38,18) cannot hold the sum exactly.
-- other_text: The amount in the column other, as exact text.
-- total: Sum of free, locked and other. NULL if DECIMAL(38,18) cannot hold the sum exactly.
-- total_text: The amount in the column total, as exact text.
-- sources: Number of sources in the book that hold the asset.
-- source_names: The names of these sources, in alphabetical order.
-- missing_sources: Sources that are missing from the book of that night (see ops.nights). NULL if
--     no source is missing.
-- portfolios: Number of portfolios that have an account of the asset at the venue, over these
--     sources.
-- accounts: Number of accounts of the asset, over these sources.
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
