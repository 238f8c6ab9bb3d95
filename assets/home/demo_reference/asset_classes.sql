-- The class of each asset.
select
    asset_id,
    is_custom_asset,
    case
        when is_custom_asset then 'Private'
        when asset_id in ('USD', 'EUR', 'JPY', 'GBP', 'CHF') then 'Cash'
        when asset_id in ('USDC', 'USDT', 'DAI', 'TUSD') then 'Stablecoin'
        else 'Coin'
    end as asset_class
from holdings_by_asset
order by all
