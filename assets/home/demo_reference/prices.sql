-- Prices of nearly all assets, for the dates of three nights. ADA has none, DOGE has only an old one, and
-- of the custom assets, Kapitalrücklage has none.
select
    asset_id,
    is_custom_asset,
    'USD' as quote,
    case replace(asset_id, '.S', '')
        when 'BTC' then printf('91%d.50', 234 + 111 * number)
        when 'ETH' then printf('31%d.257', 20 - number)
        when 'EUR' then printf('1.08%d', 25 + number)
        when 'JPY' then '0.006412'
        when 'USDC' then '0.9998'
        when 'USDT' then '1.0003'
        when 'SHIB' then '0.00001253'
        when 'PEPE' then '0.00000715'
        else printf(
            '%d.%02d',
            md5_number_lower(asset_id) % 4,
            (md5_number_upper(asset_id) + number) % 100
        )
    end as price_text,
    snapshot_date + case when asset_id = 'DOGE' then -40 else number - 1 end as as_of,
    'demo' as source
from holdings_by_asset
cross join (values (0), (1), (2)) as dates (number)
where asset_id not in ('ADA', 'Kapitalrücklage', 'USD')
    and (asset_id <> 'DOGE' or number = 0)
order by all
