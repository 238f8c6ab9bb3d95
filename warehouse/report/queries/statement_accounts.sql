with parts as (
    select venue_id, account_name, duplicate_no, asset_id, is_custom_asset,
        list({'part': bucket || ' ' || state, 'amount_text': amount_text} order by bucket, state) as parts
    from history.balances
    where snapshot_date = $day and portfolio_id = $portfolio
    group by all
)
select accounts.venue_id, coalesce(nullif(accounts.venue_name, ''), accounts.venue_id) as venue,
    accounts.account_name || case accounts.duplicate_no when 0 then '' else ' (' || accounts.duplicate_no + 1 || ')' end
        as account,
    asset_id, is_custom_asset, accounts.total_text, parts.parts
from account_balances_as_of($day) as accounts
left join parts using (venue_id, account_name, duplicate_no, asset_id, is_custom_asset)
where accounts.portfolio_id = $portfolio
order by venue, accounts.venue_id, accounts.account_name, accounts.duplicate_no, asset_id, is_custom_asset
