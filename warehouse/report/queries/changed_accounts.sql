with earlier as (
    from history.accounts where snapshot_date = $before
),

moved as (
    select 'new' as change, later.*
    from accounts as later
    anti join earlier
        using (portfolio_id, asset_id, is_custom_asset, venue_id, account_name, duplicate_no)
    union all
    select 'gone', earlier.*
    from earlier
    anti join accounts
        using (portfolio_id, asset_id, is_custom_asset, venue_id, account_name, duplicate_no)
)

select
    change,
    coalesce(portfolios.name, portfolios_before.name) as portfolio,
    moved.portfolio_id,
    venues.display_name as venue,
    moved.venue_id,
    moved.account_name,
    left(string_agg(moved.asset_id, ', ' order by moved.asset_id), 200) as assets
from moved
left join portfolios using (portfolio_id)
left join portfolios_before using (portfolio_id)
left join venues using (venue_id)
where moved.change = $change
group by all
order by moved.portfolio_id, moved.venue_id, moved.account_name
