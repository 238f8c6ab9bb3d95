-- head of treasury: How much of each asset do we hold, free and locked?
select asset_id, is_custom_asset, free_text, locked_text, other_text, total_text
from holdings_by_asset order by all;

-- head of treasury: Which venues keep our BTC?
select venue_id, free_text, locked_text, total_text from holdings_by_venue
where asset_id = 'BTC' and not is_custom_asset order by total desc nulls first, venue_id;

-- head of treasury: Which portfolios hold BTC?
select name, portfolio_id, total_text
from holdings inner join portfolios using (portfolio_id)
where asset_id = 'BTC' and not is_custom_asset order by total desc nulls first, name;

-- head of treasury: When were these figures read from the API?
select snapshot_date, started_at, finished_at, snapshot_id from ops.snapshots
where is_book order by snapshot_date desc limit 1;

-- head of treasury: Which amounts are locked, and why?
select asset_id, is_custom_asset, bucket, exact_sum(locked_text) as locked
from locked_funds group by all order by all;

-- head of treasury: How did each asset change in the last seven days?
select asset_id, is_custom_asset, exact_sum(delta_text) as delta from changes_between(
    (select min(snapshot_date) from history.portfolios
        where snapshot_date >= (select max(snapshot_date) from portfolios) - 7),
    (select max(snapshot_date) from portfolios)
) group by all order by all;

-- head of treasury: What do we hold at venues that are not trading?
select display_name, trading_status, asset_id, is_custom_asset, total_text
from holdings_by_venue inner join venues using (venue_id)
where trading_status is distinct from 'trading' and total_text <> '0' order by all;

-- head of treasury: What do we hold at venues without a verified integration?
select portfolio_id, venue_id, words from findings
where kind = 'money_without_integration' order by all;

-- auditor: How much of each asset did we hold on a given day?
select snapshot_date, asset_id, is_custom_asset, total_text
from holdings_by_asset_as_of((select max(snapshot_date) from portfolios)) order by all;

-- auditor: Which nights are missing, and why?
select snapshot_date, reason from ops.gaps order by all;

-- auditor: Which nights were held, rejected, or accepted by a person?
select snapshot_id, state, decided_by, reason from ops.snapshots
where state <> 'accepted' or decided_by <> 'guards' order by all;

-- auditor: Does every total agree between the API's responses, the lake and this file?
select count(*) as totals, count(*) filter (
    in_json <> in_lake or in_json <> in_warehouse
) as different from ops.control_totals;

-- auditor: Which API responses contain a night's figures?
select snapshot_id, request_no, operation, file, sha256 from ops.requests
where snapshot_id = (select max(snapshot_id) from ops.snapshots where is_book)
order by request_no;

-- auditor: Which names did each portfolio have, and when?
select portfolio_id, name, valid_from, valid_to from portfolio_history
order by portfolio_id, valid_from;

-- auditor: Which values from the API are invalid, inexact or undocumented?
select 'inexact' as what, path, value as example from ops.inexact
union all select kind, path, example from ops.drift
union all select 'reject', path, value from ops.rejects order by all;

-- analyst: Which accounts appeared for the first time last night?
select portfolio_id, venue_id, account_name, asset_id, is_custom_asset from accounts
anti join (
    from history.accounts where snapshot_date < (select max(snapshot_date) from accounts)
) using (portfolio_id, venue_id, account_name, asset_id, is_custom_asset) order by all;

-- analyst: Which venues changed their state, and when?
select venue_id, valid_from, what_changed from venue_history
where what_changed like '%trading_status: %' order by all;

-- analyst: Which instruments were delisted, and when were they last seen?
select venue_id, instrument_id, max(valid_to) as last_seen from instrument_history
group by all having not bool_or(is_current) order by all;

-- analyst: How much BTC did we hold on each night?
select snapshot_date, exact_sum(amount_text) as total from history.balances
where asset_id = 'BTC' and not is_custom_asset group by all order by all;

-- analyst: What explains the change in each asset between two days?
select asset_id, is_custom_asset, opening_text, new_accounts_text, gone_accounts_text,
    increased_text, decreased_text, closing_text
from roll_forward_between(
    (select max(snapshot_date) from history.portfolios
        where snapshot_date < (select max(snapshot_date) from portfolios)),
    (select max(snapshot_date) from portfolios)
) order by all;
