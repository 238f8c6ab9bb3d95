-- restated_since(moment): The totals that have changed since a moment in the past.
--
-- One row for each date and asset whose total is different today, because the night was read a
-- second time, accepted late or rejected. The exact totals come from ops.control_totals.
--
-- moment: A time, as in the macro known_at.
-- returns: A table: snapshot_date, change (replaced, withdrawn, added or pruned), snapshot_before
--     and snapshot_after, asset_id, is_custom_asset, before_text, after_text and delta_text (all
--     exact), and decided_by, decided_at and reason of the last decision about these snapshots. If
--     a snapshot was pruned, its totals are NULL.
-- example: select * from restated_since(now() - interval 1 day) order by all limit 10

create or replace macro restated_since(moment) as table
with restatements as (
    select
        coalesce(old.snapshot_date, new.snapshot_date) as snapshot_date,
        old.snapshot_id as snapshot_before,
        new.snapshot_id as snapshot_after
    from known_at(moment) as old
    full join (
        select *
        from ops.snapshots
        where is_book
    ) as new
        on new.snapshot_date = old.snapshot_date
    -- A night that was taken since then is new and does not restate anything.
    where old.snapshot_id is distinct from new.snapshot_id
        and (old.snapshot_id is not null or new.started_at <= moment::timestamptz)
),

totals as (
    select
        snapshot_id,
        asset_id,
        is_custom_asset,
        exact_sum(in_lake) as total_text
    from ops.control_totals
    where measure = 'sum'
        and snapshot_id in (
            select snapshot_before from restatements
            union all
            select snapshot_after from restatements
        )
    group by
        snapshot_id,
        asset_id,
        is_custom_asset
),

before as (
    select
        restatements.snapshot_date,
        totals.asset_id,
        totals.is_custom_asset,
        totals.total_text
    from restatements
    inner join totals
        on totals.snapshot_id = restatements.snapshot_before
),

after as (
    select
        restatements.snapshot_date,
        totals.asset_id,
        totals.is_custom_asset,
        totals.total_text
    from restatements
    inner join totals
        on totals.snapshot_id = restatements.snapshot_after
),

assets as (
    select
        snapshot_date,
        asset_id,
        is_custom_asset,
        before.total_text as before_text,
        after.total_text as after_text
    from before
    full join after using (snapshot_date, asset_id, is_custom_asset)
),

reasons as (
    select
        restatements.snapshot_date,
        max_by(decisions.decided_by, decisions.decided_at) as decided_by,
        max(decisions.decided_at) as decided_at,
        max_by(decisions.reason, decisions.decided_at) as reason,
        max_by(decisions.state, decisions.decided_at) as state
    from restatements
    inner join ops.decisions as decisions
        on decisions.snapshot_id in (restatements.snapshot_before, restatements.snapshot_after)
    group by restatements.snapshot_date
)

select
    restatements.snapshot_date,
    case
        when restatements.snapshot_before is null then 'added'
        when restatements.snapshot_after is not null then 'replaced'
        when reasons.state = 'pruned' then 'pruned'
        else 'withdrawn'
    end as change,
    restatements.snapshot_before,
    restatements.snapshot_after,
    assets.asset_id,
    assets.is_custom_asset,
    assets.before_text,
    assets.after_text,
    case
        when starts_with(assets.before_text, '-')
            then internal.exact_total([assets.after_text, substr(assets.before_text, 2)])
        else internal.exact_total([assets.after_text, '-' || assets.before_text])
    end as delta_text,
    reasons.decided_by,
    reasons.decided_at,
    reasons.reason
from restatements
inner join reasons
    on reasons.snapshot_date = restatements.snapshot_date
left join assets
    on assets.snapshot_date = restatements.snapshot_date
where assets.before_text is distinct from assets.after_text
    or assets.asset_id is null;
