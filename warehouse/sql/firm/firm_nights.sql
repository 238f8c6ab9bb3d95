-- The nights of the firm's book.
--
-- One row for each date on which the book has at least one source. The counts are sums over the
-- sources in the book of the date. ops.nights has one row for each source.
--
-- snapshot_date: Business date of the book.
-- snapshot_id: ID of the firm's night. It contains the date, the number of included sources, the
--     number of all sources, and a digest of their snapshots. The same snapshots have the same ID,
--     unless a shared portfolio counts for a different source.
-- sources: Number of sources in the book.
-- listed: Number of sources that should be in the book.
-- missing_sources: Names of the missing sources. NULL if no source is missing.
-- is_book: Always true, as in ops.snapshots.
-- state: Always accepted, because each source accepts its own nights.
-- decided_by: `guards`, or the names of the people who accepted nights of the sources. NULL if
--     there is no decision.
-- reason: Why people accepted nights, with the name of each source. Empty if the guards accepted
--     the nights of all sources.
-- started_at: When the first read of a source began, UTC.
-- finished_at: When the last response to a source was complete, UTC.
-- request_count: Number of requests.
-- failed_request_count: Number of failed requests.
-- byte_count: Total size of all decoded responses in bytes.
-- reject_count: Number of invalid values (see ops.rejects).
-- inexact_count: Number of values that are exact only as strings (see ops.inexact).
-- example: select snapshot_date, sources, listed, missing_sources from firm_nights order by all

select
    nights.snapshot_date,
    strftime(nights.snapshot_date, '%Y%m%d') || '-' || count(*) filter (where is_in_book) || 'of'
    || count(*) || '-' || left(
        sha256(
            string_agg(
                nights.source || chr(10) || snapshots.snapshot_id, chr(10)
                order by nights.source
            ) filter (where is_in_book) || coalesce(any_value(aside.portfolios), '')
        ),
        8
    ) as snapshot_id,
    count(*) filter (where is_in_book) as sources,
    count(*) as listed,
    string_agg(nights.source, ', ' order by nights.source)
        filter (where not is_in_book) as missing_sources,
    true as is_book,
    'accepted' as state,
    string_agg(distinct snapshots.decided_by, ', ' order by snapshots.decided_by) as decided_by,
    coalesce(
        string_agg(nights.source || ': ' || snapshots.reason, '; ' order by nights.source)
            filter (where snapshots.reason <> ''),
        ''
    ) as reason,
    min(snapshots.started_at) as started_at,
    max(snapshots.finished_at) as finished_at,
    sum(snapshots.request_count)::bigint as request_count,
    sum(snapshots.failed_request_count)::bigint as failed_request_count,
    sum(snapshots.byte_count)::bigint as byte_count,
    sum(snapshots.reject_count)::bigint as reject_count,
    sum(snapshots.inexact_count)::bigint as inexact_count
from ops.nights as nights
left join ops.snapshots as snapshots
    on nights.is_in_book
    and snapshots.source = nights.source
    and snapshots.snapshot_id = nights.snapshot_id
left join (
    select
        snapshot_date,
        chr(10) || string_agg(
            source || chr(10) || portfolio_id, chr(10)
            order by source, portfolio_id
        ) as portfolios
    from internal.set_aside
    group by snapshot_date
) as aside
    on aside.snapshot_date = nights.snapshot_date
group by nights.snapshot_date
having count(*) filter (where is_in_book) > 0
