-- The value of each break: the difference without its sign, multiplied by the valid price of the asset when the book's
-- portfolios were read. The braces are filled in by materiality.py.
with weighed as (
    select no, result, ltrim(difference, '-') as size, ends_with(asset, {custom}) as is_custom_asset,
        -- The book does not have an asset with this name. A price may have exactly one such asset.
        case when starts_with(asset, '{unmapped}') then (
            select case when count(distinct prices.asset_id) = 1 then any_value(prices.asset_id) end
            from reference.prices as prices
            where prices.quote = {currency} and not prices.is_custom_asset
                and lower(prices.asset_id) = asset[2:]
        ) else rtrim(asset, {custom}) end as asset_id
    from broken
)
select no,
    case when result <> 'Rejected' and price_state = 'priced'
        then internal.exact_product(size, price_text)
    end as value,
    case when result = 'Rejected' then 'unread' else coalesce(price_state, 'missing') end as price_state
from weighed
left join internal.valid_prices({currency}, {day}, {day}, (
    select list(distinct {{'asset_id': asset_id, 'is_custom_asset': is_custom_asset}}) from weighed
)) using (asset_id, is_custom_asset)
