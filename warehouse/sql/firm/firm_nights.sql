-- The nights of the firm's book: one row per date with at least one source.
--
-- The counts are over the sources in the book of the night. ops.nights has a row for each source.
--
-- snapshot_date: Business date of the book.
-- snapshot_id: A short name made of the date, the numbers of included and of all sources, and a
--     digest of their snapshots. The same snapshots have the same name while shared portfolios
--     count for the same sources.
-- sources: Number of sources in the book.
-- listed: Number of sources that should be in it.
-- missing_sources: Names of the missing sources. NULL if none is missing.
-- is_book: Always true, as in ops.snapshots.
-- state: Always accepted: each source accepts its own nights.
-- decided_by: guards, or the names of the people who accepted them. NULL if nobody did.
-- reason: Why people accepted some of them, each with its source. Empty if the guards accepted all.
-- started_at: When the first read of them began, UTC.
-- finished_at: When the last response to any of them was complete, UTC.
-- request_count: Number of requests.
-- failed_request_count: Number of failed requests.
-- byte_count: Number of received bytes, decoded.
-- reject_count: Number of values that break the contract (see ops.rejects).
-- inexact_count: Number of values kept only as text (see ops.inexact).
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
