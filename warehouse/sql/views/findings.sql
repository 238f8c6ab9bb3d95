-- Findings in the book. A finding is a fact that a person should check.
--
-- One row for each finding. In the kind names, money means an amount that is not zero. The finding
-- instruments_differ means that the API's endpoints disagree about some instruments. ops.listings
-- has one row for each of these instruments. The finding round_count means that a list has exactly
-- 100, 200, 250, 500 or 1000 records (or a similar round number), so the API may have truncated the
-- list. The finding account_repeated means that a position lists the same account more than once. If
-- the amounts of these accounts are equal, the severity is high, because the same money may be
-- counted twice.
--
-- snapshot_date: Business date of the book.
-- severity: high, medium or low. Sort by severity_rank, because this column is text.
-- kind: Kind of the finding: money_at_closed_venue, money_at_unknown_venue,
--     money_without_integration, integration_unknown_venue, portfolio_vanished, portfolio_renamed,
--     portfolio_emptied, venue_emptied, asset_moved (see asset_moves), instruments_stale,
--     instruments_gone, instruments_differ, round_count, account_repeated, book_moved, or a kind of
--     ops.own_findings.
-- portfolio_id: The portfolio of the finding. NULL if the finding is only about a venue.
-- venue_id: The venue of the finding. NULL if the finding is only about a portfolio.
-- words: The finding in one sentence.
-- portfolio_name: Display name of the portfolio. If the portfolio is gone, its last name. NULL if
--     the API does not send a name.
-- venue_name: Display name of the venue. NULL if the venue is not in the list of venues.
-- severity_rank: 1 for high, 2 for medium, 3 for low.
-- example: select severity, kind, words from findings order by severity_rank, kind, words

with book as (
    select
        max(snapshot_date) as snapshot_date,
        max_by(snapshot_id, snapshot_date) as snapshot_id,
        max_by(started_at, snapshot_date) as started_at
    from internal.books
),

unread_venues as (
    select distinct requests.venue_id
    from ops.requests as requests
    inner join book
        on book.snapshot_id = requests.snapshot_id
    where requests.error is not null
),

money as (
    select
        portfolio_id,
        venue_id,
        count(distinct (asset_id, is_custom_asset)) as number,
        number || case when number = 1 then ' asset' else ' assets' end as assets
    from balances
    where amount is distinct from 0
    group by
        portfolio_id,
        venue_id
),

money_before as (
    select distinct
        portfolio_id,
        venue_id
    from balances_before
    where amount is distinct from 0
),

lists as (
    select
        'portfolios' as what,
        null as venue_id,
        count(*) as records
    from portfolios
    union all
    select
        'venues',
        null,
        count(*)
    from venues
    union all
    select
        coalesce(type, 'untyped') || ' instruments',
        venue_id,
        count(*)
    from instruments
    where stale_since is null
    group by
        type,
        venue_id
),

-- The listings of accounts that a position has more than once. 1.0 and 1.00 are equal amounts.
repeated_listings as (
    select
        accounts.portfolio_id,
        accounts.asset_id,
        accounts.is_custom_asset,
        accounts.venue_id,
        accounts.account_name,
        list_sort(
            list(
                concat_ws(
                    ' ',
                    balances.bucket,
                    balances.state,
                    coalesce(balances.amount::varchar, balances.amount_text)
                )
            )
        ) as amounts,
        coalesce(bool_or(balances.amount is distinct from 0), false)
        and count(balances.amount_text) > 0 as has_money,
        internal.exact_sums(
            [internal.exact_part(balances.amount, coalesce(balances.amount_text, '0'))]
        )[1].text as total_text
    from accounts
    semi join (
        select *
        from accounts
        where duplicate_no > 0
    ) as repeats
        using (portfolio_id, asset_id, is_custom_asset, venue_id, account_name)
    left join balances
        using (portfolio_id, asset_id, is_custom_asset, venue_id, account_name, duplicate_no)
    group by
        accounts.portfolio_id,
        accounts.asset_id,
        accounts.is_custom_asset,
        accounts.venue_id,
        accounts.account_name,
        accounts.duplicate_no
),

repeated_amounts as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        any_value(total_text) as total_text,
        count(*) as listings,
        bool_or(has_money) and count(*) > 1 as counts_again
    from repeated_listings
    group by
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        amounts
),

every_finding as (
    select
        'high' as severity,
        'money_at_closed_venue' as kind,
        money.portfolio_id,
        money.venue_id,
        'Money (' || money.assets || ') at a venue that is not trading: '
        || coalesce(venues.trading_status, 'its status could not be read') || '.' as words
    from money
    inner join venues
        on venues.venue_id = money.venue_id
    where venues.trading_status is distinct from 'trading'
    union all
    select
        'high',
        'money_at_unknown_venue',
        money.portfolio_id,
        money.venue_id,
        'Money (' || money.assets || ') at a venue that is not in the list of venues.'
    from money
    anti join venues
        on venues.venue_id = money.venue_id
    union all
    select
        'medium',
        'money_without_integration',
        money.portfolio_id,
        money.venue_id,
        'Money (' || money.assets || ') at a venue without a verified connection (integration)'
        || coalesce(
            ', status ' || (
                select min(integrations.status)
                from integrations
                where integrations.portfolio_id = money.portfolio_id
                    and integrations.venue_id = money.venue_id
            ) || '.',
            '.'
        )
    from money
    inner join portfolios
        on portfolios.portfolio_id = money.portfolio_id
    -- Without this key, the API did not state any integrations.
    where portfolios.integration_count is not null
        and not exists (
            select 1
            from integrations
            where integrations.portfolio_id = money.portfolio_id
                and integrations.venue_id = money.venue_id
                and integrations.status = 'verified'
        )
    union all
    select
        'medium',
        'integration_unknown_venue',
        integrations.portfolio_id,
        integrations.venue_id,
        'Integration ' || integrations.integration_id
        || ' is with a venue that is not in the list of venues.'
    from integrations
    anti join venues
        on venues.venue_id = integrations.venue_id
    where integrations.venue_id is not null
    union all
    select
        'high',
        'portfolio_vanished',
        earlier.portfolio_id,
        null,
        'Portfolio "' || coalesce(earlier.name, '')
        || '" was in the previous book but is not in this one.'
    from portfolios_before as earlier
    anti join portfolios
        on portfolios.portfolio_id = earlier.portfolio_id
    union all
    select
        'low',
        'portfolio_renamed',
        portfolios.portfolio_id,
        null,
        'Portfolio ' || coalesce('"' || earlier.name || '"', 'without a name')
        || coalesce(' is now called "' || portfolios.name || '".', ' no longer has a name.')
    from portfolios
    inner join portfolios_before as earlier
        on earlier.portfolio_id = portfolios.portfolio_id
    where earlier.name is distinct from portfolios.name
    union all
    select distinct
        'high',
        'portfolio_emptied',
        earlier.portfolio_id,
        null,
        'Everything that the portfolio held in the previous book is gone.'
    from money_before as earlier
    inner join portfolios
        on portfolios.portfolio_id = earlier.portfolio_id
    anti join money
        on money.portfolio_id = earlier.portfolio_id
    union all
    select distinct
        'high',
        'venue_emptied',
        null,
        earlier.venue_id,
        'Everything that was held at the venue in the previous book is gone.'
    from money_before as earlier
    anti join money
        on money.venue_id = earlier.venue_id
    union all
    select
        severity,
        'asset_moved',
        null,
        null,
        'The total of ' || asset_id || case
            when is_custom_asset then ' (custom)'
            else ''
        end
        || case move
            when 'gone' then ' is gone. It was ' || before_text
            when 'turned' then ' changed its sign. It was ' || before_text || ' and is now '
                || after_text
            else ' ' || move || ' from ' || before_text || ' to ' || after_text
        end
        || '.'
    from asset_moves
    where move <> 'new'
    union all
    select
        'medium',
        'instruments_stale',
        null,
        instruments.venue_id,
        case
            when any_value(unread_venues.venue_id) is not null
                then count(*) || ' instruments could not be read. The instruments of '
            else 'The venue no longer lists any instruments, without an error. The ' || count(*)
                || ' instruments of '
        end
        || min(instruments.stale_since) || ' are shown.'
    from instruments
    left join unread_venues
        on unread_venues.venue_id = instruments.venue_id
    where instruments.stale_since is not null
    group by instruments.venue_id
    union all
    -- Expired instruments are expected to disappear.
    select
        'medium',
        'instruments_gone',
        null,
        earlier.venue_id,
        'The list of ' || earlier.type || ' instruments is empty. It had ' || count(*)
        || ' in the previous book.'
    from instruments_before as earlier
    inner join venues
        on venues.venue_id = earlier.venue_id
    cross join book
    anti join instruments
        on instruments.venue_id = earlier.venue_id
        and instruments.type = earlier.type
    where earlier.type is not null
        and (earlier.expiration is null or earlier.expiration > book.started_at)
    group by
        earlier.venue_id,
        earlier.type
    union all
    select
        'low',
        'instruments_differ',
        null,
        listings.venue_id,
        count(*) || case
            when listings.missing_from in ('type', 'displayName')
                then ' instruments have a different ' || listings.missing_from
                    || ' in the record of the venue than in its list.'
            else ' instruments of the venue are missing from ' || listings.missing_from
                || ', but they are in another of its lists.'
        end
    from ops.listings as listings
    inner join ops.snapshots as snapshots
        on snapshots.snapshot_id = listings.snapshot_id
        and snapshots.is_book
    inner join book
        on book.snapshot_date = snapshots.snapshot_date
    group by
        listings.venue_id,
        listings.missing_from
    union all
    select
        'high',
        'round_count',
        null,
        lists.venue_id,
        'The list of ' || lists.what || ' has exactly ' || lists.records
        || ' records. Check whether it is complete or only one page of several.'
    from lists
    where regexp_matches(lists.records::varchar, '^(1|2|25|5)0+$')
        and lists.records >= 100
    union all
    select
        case
            when bool_or(counts_again) then 'high'
            else 'low'
        end,
        'account_repeated',
        portfolio_id,
        venue_id,
        'Account "' || account_name || '" is listed ' || sum(listings) || ' times for ' || asset_id
        || case
            when is_custom_asset then ' (custom)'
            else ''
        end
        || case
            when bool_or(counts_again)
                then ' with the same amounts, which may be counted more than once: '
                    || string_agg(total_text, ', ' order by total_text)
                        filter (where counts_again)
            when count(*) > 1 then ' with different amounts'
            else ' and holds nothing'
        end
        || '.'
    from repeated_amounts
    group by
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name
    union all
    select
        case snapshots.stillness
            when 'moving' then 'medium'
            else 'low'
        end,
        'book_moved',
        null,
        null,
        'The book changed while it was read, '
        || case snapshots.stillness
            when 'moving' then 'and it changed again during the second read: '
            else 'so it was read a second time: '
        end
        || snapshots.moved || '.'
    from ops.snapshots as snapshots
    inner join book
        on book.snapshot_date = snapshots.snapshot_date
    where snapshots.is_book
        and snapshots.stillness in ('moved', 'moving')
    union all
    select
        own_findings.severity,
        own_findings.kind,
        own_findings.portfolio_id,
        own_findings.venue_id,
        own_findings.words
    from ops.own_findings as own_findings
    inner join book
        on book.snapshot_date = own_findings.snapshot_date
)

select
    book.snapshot_date,
    every_finding.severity,
    every_finding.kind,
    every_finding.portfolio_id,
    every_finding.venue_id,
    every_finding.words,
    coalesce(portfolios.name, portfolios_before.name) as portfolio_name,
    venues.display_name as venue_name,
    case every_finding.severity when 'high' then 1 when 'medium' then 2 else 3 end as severity_rank
from every_finding
cross join book
left join portfolios
    on portfolios.portfolio_id = every_finding.portfolio_id
left join portfolios_before
    on portfolios_before.portfolio_id = every_finding.portfolio_id
left join venues
    on venues.venue_id = every_finding.venue_id
