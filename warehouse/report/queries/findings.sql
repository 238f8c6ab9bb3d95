with earlier as (
    select
        *,
        if(
            kind = 'asset_moved', words, regexp_replace(words, '[0-9]+( assets?)?', '', 'g')
        ) as about
    from history.findings
    where snapshot_date = $before
),

listed as (
    select
        if(earlier.kind is null, 'new', 'old') as since,
        findings.severity,
        findings.severity_rank,
        findings.kind,
        findings.portfolio_id,
        findings.portfolio_name as portfolio,
        findings.venue_id,
        findings.venue_name as venue,
        findings.words
    from findings
    left join (select distinct kind, portfolio_id, venue_id, about from earlier) as earlier
        on earlier.kind = findings.kind
        and earlier.portfolio_id is not distinct from findings.portfolio_id
        and earlier.venue_id is not distinct from findings.venue_id
        and earlier.about = if(
            findings.kind = 'asset_moved',
            findings.words,
            regexp_replace(findings.words, '[0-9]+( assets?)?', '', 'g')
        )
),

-- Amounts are added up only for the findings that the report shows, 25 of each kind at most.
shown as (
    select *
    from listed
    qualify row_number() over (
        partition by since
        order by
            severity_rank,
            kind,
            portfolio_id,
            venue_id,
            words
    ) <= 25
),

amounts as (
    select
        findings.kind,
        findings.portfolio_id,
        findings.venue_id,
        findings.words,
        balances.asset_id,
        balances.is_custom_asset,
        balances.amount_text
    from shown as findings
    inner join balances using (portfolio_id, venue_id)
    where starts_with(findings.kind, 'money_') and balances.amount is distinct from 0
    union all
    select
        findings.kind,
        findings.portfolio_id,
        findings.venue_id,
        findings.words,
        earlier.asset_id,
        earlier.is_custom_asset,
        earlier.amount_text
    from shown as findings
    inner join balances_before as earlier
        on earlier.portfolio_id = findings.portfolio_id
    where findings.kind in ('portfolio_vanished', 'portfolio_emptied')
        and earlier.amount is distinct from 0
    union all
    select
        findings.kind,
        findings.portfolio_id,
        findings.venue_id,
        findings.words,
        earlier.asset_id,
        earlier.is_custom_asset,
        earlier.amount_text
    from shown as findings
    inner join balances_before as earlier
        on earlier.venue_id = findings.venue_id
    where findings.kind = 'venue_emptied'
        and earlier.amount is distinct from 0
),

held as (
    select
        kind,
        portfolio_id,
        venue_id,
        words,
        asset_id,
        is_custom_asset,
        exact_sum(amount_text) as amount
    from amounts
    group by all
    union all
    select
        'asset_moved',
        null,
        null,
        -- This is the sentence of the view `findings`, which has no column for the asset.
        'The total of ' || asset_id || if(is_custom_asset, ' (custom)', '') || case move
            when 'gone' then ' is gone. It was ' || before_text
            when 'turned' then ' changed its sign. It was ' || before_text || ' and is now '
                || after_text
            else ' ' || move || ' from ' || before_text || ' to ' || after_text
        end || '.',
        asset_id,
        is_custom_asset,
        after_text
    from asset_moves
),

money as (
    select
        kind,
        portfolio_id,
        venue_id,
        words,
        list(
            {'asset_id': asset_id, 'is_custom_asset': is_custom_asset, 'amount': amount}
            order by asset_id, is_custom_asset
        ) as assets
    from held
    group by all
)

select
    listed.since,
    listed.severity,
    listed.kind,
    listed.portfolio_id,
    listed.portfolio,
    listed.venue_id,
    listed.venue,
    money.assets[:3] as assets,
    len(money.assets) as asset_count,
    listed.words
from listed
left join money
    on money.kind = listed.kind
    and money.portfolio_id is not distinct from listed.portfolio_id
    and money.venue_id is not distinct from listed.venue_id
    and money.words = listed.words
order by
    listed.severity_rank,
    listed.since,
    listed.kind,
    listed.portfolio_id,
    listed.venue_id,
    listed.words
