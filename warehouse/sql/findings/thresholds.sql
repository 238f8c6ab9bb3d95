-- The findings of the thresholds in reference/thresholds/ for the newest book.
--
-- $groups is a union of internal.value_groups for the scopes of the thresholds. Nothing is divided:
-- both sides of each comparison are exact products. A limit that is reached exactly is not a breach.
--
-- reads: thresholds
-- kind: threshold_breached or threshold_undecided.
-- name: Scope, name and measure of the threshold.
-- severity: high for a breach, medium for a threshold that could not be compared.
-- portfolio_id: The portfolio, if this is the scope.
-- venue_id: The venue, if this is the scope.
-- words: The amount and the limit.
-- is_alert: As in the row of the threshold.
-- example: select * from reference.thresholds limit 10

with rules as materialized (
    select *
    from reference.thresholds
    qualify row_number() over (
        partition by scope, name, is_custom_asset, measure
        order by received_at desc, line desc
    ) = 1
),

amounts as materialized (
    select
        'asset' as scope,
        snapshot_date,
        asset_id as member,
        is_custom_asset,
        total_text as quantity,
        (price_state <> 'priced')::integer as unpriced,
        value_text
    from internal.asset_values($currency, coalesce($before, $day), $day)
    union all
    select
        scope,
        snapshot_date,
        group_id,
        false,
        null,
        unpriced_assets + stale_assets,
        value_text
    from ($groups)
),

members as materialized (
    select
        scope,
        member,
        is_custom_asset,
        coalesce(max(case when snapshot_date = $day then quantity end), '0') as quantity_now,
        coalesce(max(case when snapshot_date < $day then quantity end), '0') as quantity_before,
        coalesce(max(case when snapshot_date = $day then value_text end), '0') as value_now,
        coalesce(max(case when snapshot_date < $day then value_text end), '0') as value_before,
        coalesce(sum(case when snapshot_date = $day then unpriced end), 0) as unpriced_now,
        coalesce(sum(unpriced), 0) as unpriced_both
    from amounts
    group by
        scope,
        member,
        is_custom_asset
),

whole as materialized (
    select
        members.value_now as value_text,
        members.unpriced_now as unpriced,
        (
            select array_to_string(list(distinct asset_id order by asset_id)[:5], ', ')
            from internal.asset_values($currency, $day, $day)
            where price_state <> 'priced'
        ) as unpriced_names
    from members
    where members.scope = 'book'
),

-- A name that has no amount in these books is known if it is a venue or portfolio without money, an
-- asset of an earlier book, or the value of a label. Its amount is 0.
known as (
    select
        'venue' as scope,
        venue_id as member,
        false as is_custom_asset
    from main.venues
    union
    select * from (
        select
            'portfolio',
            portfolio_id,
            false
        from main.portfolios
        union
        select * from (
            select
                'asset',
                asset_id,
                is_custom_asset
            from history.holdings_by_asset
            where (select count(*) from rules where rules.scope = 'asset' and rules.name <> '') > 0
            union
            select
                label,
                value,
                false
            from internal.labels
        )
    )
),

-- A threshold with a name takes precedence over a threshold for each member of its scope.
pairs as materialized (
    select
        rules.scope,
        rules.name as rule_name,
        rules.measure,
        rules.minimum,
        rules.maximum,
        rules.is_alert,
        coalesce(members.member, rules.name) as member,
        coalesce(members.is_custom_asset, rules.is_custom_asset) as is_custom_asset,
        members.member is not null or known.member is not null as is_known,
        coalesce(members.quantity_now, '0') as quantity_now,
        coalesce(members.quantity_before, '0') as quantity_before,
        coalesce(members.value_now, '0') as value_now,
        coalesce(members.value_before, '0') as value_before,
        coalesce(members.unpriced_now, 0) as unpriced_now,
        coalesce(members.unpriced_both, 0) as unpriced_both
    from rules
    left join members
        on members.scope = rules.scope
        and (
            (rules.name = '' and (members.is_custom_asset or not rules.is_custom_asset))
            or (rules.name = members.member and rules.is_custom_asset = members.is_custom_asset)
        )
    left join known
        on known.scope = rules.scope
        and known.member = rules.name
        and known.is_custom_asset = rules.is_custom_asset
    where members.member is not null
        or rules.name <> ''
    qualify row_number() over (
        partition by rules.scope, rules.measure, coalesce(members.member, rules.name),
            coalesce(members.is_custom_asset, rules.is_custom_asset)
        order by rules.name = '', not rules.is_custom_asset
    ) = 1
),

measured as materialized (
    select
        pairs.*,
        whole.value_text as whole_text,
        pairs.scope = 'asset' and pairs.measure in ('quantity', 'move') as is_quantity,
        case when is_quantity then pairs.quantity_now else pairs.value_now end as now_text,
        case when is_quantity then pairs.quantity_before else pairs.value_before end as before_text,
        case
            when not pairs.is_known then 'no book and no label has this name'
            when pairs.measure = 'move' and $before is null then 'there is no earlier book'
            when is_quantity then null
            when $currency is null then 'NIGHTBOOK_CURRENCY is not set'
            when case pairs.measure
                when 'share' then whole.unpriced
                when 'move' then pairs.unpriced_both
                else pairs.unpriced_now
            end > 0
                then case
                    when pairs.scope = 'asset' and pairs.unpriced_now > 0 then 'it has'
                    when pairs.measure = 'share' then 'assets of the book have'
                    else 'some of its assets have'
                end || ' no valid price' || coalesce(
                    ' (assets without a valid price in the book: ' || whole.unpriced_names || ')',
                    ' in the previous book'
                )
            when pairs.measure = 'share' and (whole_text = '0' or starts_with(whole_text, '-'))
                then 'the value of the whole book is not above 0'
        end as problem
    from pairs
    left join whole on true
),

sides as materialized (
    select
        *,
        case measure
            when 'share' then internal.exact_product(now_text, '100')
            when 'move'
                then internal.exact_product(
                    ltrim(
                        internal.exact_total([now_text, internal.opposite(before_text)]),
                        '-'
                    ),
                    '100'
                )
            else now_text
        end as amount,
        case measure
            when 'share' then whole_text
            when 'move' then ltrim(before_text, '-')
            else '1'
        end as factor
    from measured
    where problem is null
),

compared as materialized (
    select
        *,
        minimum is not null and starts_with(
            internal.exact_total(
                [amount, internal.opposite(internal.exact_product(minimum, factor))]
            ),
            '-'
        ) as is_below,
        maximum is not null and starts_with(
            internal.exact_total(
                [internal.exact_product(maximum, factor), internal.opposite(amount)]
            ),
            '-'
        ) as is_above
    from sides
),

listed as (
    select
        'threshold_breached' as kind,
        scope,
        member as shown,
        is_custom_asset,
        measure,
        'high' as severity,
        case when scope = 'portfolio' then member end as portfolio_id,
        case when scope = 'venue' then member end as venue_id,
        'The ' || measure || ' of ' || scope || ' ' || member
        || case when is_custom_asset then ' (custom)' else '' end
        || case measure
            when 'share' then ' is ' || now_text || ' of ' || whole_text
            when 'move' then ' is from ' || before_text || ' to ' || now_text
            else ' is ' || now_text
        end
        || case when is_quantity then '' else ' ' || $currency end
        || case
            when is_below then ', below the minimum of ' || minimum
            else ', above the maximum of ' || maximum
        end
        || case when measure in ('share', 'move') then ' %.' else '.' end as words,
        is_alert
    from compared
    where is_below or is_above
    union all
    -- One finding for each threshold, because a threshold for each member may have many.
    select
        'threshold_undecided',
        scope,
        rule_name,
        bool_and(is_custom_asset),
        measure,
        'medium',
        case when scope = 'portfolio' and rule_name <> '' then rule_name end,
        case when scope = 'venue' and rule_name <> '' then rule_name end,
        'The ' || measure || ' of ' || scope || ' '
        || array_to_string(list(member order by member)[:3], ', ')
        || case when count(*) > 3 then ' and ' || (count(*) - 3) || ' more' else '' end
        || ' cannot be compared with the limits: ' || min_by(problem, member) || '.',
        is_alert
    from measured
    where problem is not null
    group by
        scope,
        rule_name,
        case when rule_name <> '' then is_custom_asset end,
        measure,
        is_alert,
        minimum,
        maximum
)

select
    kind,
    concat_ws(
        ' ',
        scope,
        coalesce(nullif(shown, ''), '(each)'),
        case when is_custom_asset then 'custom' end,
        measure
    ) as name,
    severity,
    portfolio_id,
    venue_id,
    words,
    is_alert
from listed
order by all
