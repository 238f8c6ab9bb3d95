-- Venues of which accounts are listed more than once with the same amounts, from the tables
-- `accounts` and `balances` of one night.
with repeated_keys as (
    select distinct portfolio_id, asset_id, is_custom_asset, venue_id, account_name
    from accounts
    where duplicate_no > 0
),
-- Two notations of an amount are the same money. An account without money does not count.
listed as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        duplicate_no,
        list_sort(list(row(bucket, state, internal.plain_digits(amount_text)))) as amounts,
        internal.exact_total(list(amount_text)) as total
    from balances
    semi join repeated_keys
        using (portfolio_id, asset_id, is_custom_asset, venue_id, account_name)
    group by all
    having bool_or(internal.plain_digits(amount_text) <> '0')
),
repeated as (
    select
        portfolio_id,
        asset_id,
        is_custom_asset,
        venue_id,
        account_name,
        any_value(total) as total,
        count(*) as listings
    from listed
    group by portfolio_id, asset_id, is_custom_asset, venue_id, account_name, amounts
    having count(*) > 1
),
totals as (
    select
        venue_id,
        asset_id || if(is_custom_asset, ' (custom)', '') as asset,
        internal.exact_total(list(total)) as total,
        count(*) as accounts,
        sum(listings) as listings,
        min({
            'portfolio_id': portfolio_id,
            'asset_id': asset_id,
            'is_custom_asset': is_custom_asset,
            'account_name': account_name
        }) as first
    from repeated
    group by all
)
select
    venue_id,
    sum(accounts) as accounts,
    sum(listings) as listings,
    (select count(*) from accounts where accounts.venue_id = totals.venue_id) as all_listings,
    map_from_entries(list(row(asset, total))) as totals,
    min(first).portfolio_id,
    min(first).account_name
from totals
group by venue_id
order by venue_id
