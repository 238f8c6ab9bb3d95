-- value_changes_between(day1, day2, quote): Why the value of each asset changed between two days.
--
-- The quantity effect is the change of the quantity, at the first price. The price effect is the change
-- of the price, for the second quantity. Their sum is exactly the change. An asset that is only in one
-- of the books has only a quantity effect, at the price of that book. If an asset of a book has no valid
-- price there, its change is NULL.
--
-- day1: The earlier day. The macro uses the newest book on or before this date. It fails if there is no
--     such book, if both days have the same book, if the first day is after the second, or if a day is in
--     the future.
-- day2: The later day, with the same rules.
-- quote: The unit of the values, such as 'USD'.
-- returns: A table with one row for each asset of one of the books: asset_id, is_custom_asset, quote,
--     state_before and state_after (see price_state in prices_as_of, or absent if the book does not have
--     the asset), total_before_text, total_after_text, price_before_text, price_after_text,
--     value_before_text, value_after_text, and change, quantity_effect and price_effect, each with its
--     exact text.
-- example: select * from value_changes_between((select min(snapshot_date) from history.portfolios), (select max(snapshot_date) from portfolios), 'USD') order by all limit 10

create or replace macro value_changes_between(day1, day2, quote) as table
with before as materialized (
    select *
    from internal.asset_values(quote, ($first_book), ($first_book))
),

after as materialized (
    select *
    from internal.asset_values(quote, ($second_book), ($second_book))
),

compared as materialized (
    select
        coalesce(before.asset_id, after.asset_id) as asset_id,
        coalesce(before.is_custom_asset, after.is_custom_asset) as is_custom_asset,
        coalesce(before.price_state, 'absent') as state_before,
        coalesce(after.price_state, 'absent') as state_after,
        before.total_text as total_before_text,
        after.total_text as total_after_text,
        before.price_text as price_before_text,
        after.price_text as price_after_text,
        before.value_text as value_before_text,
        after.value_text as value_after_text,
        case
            when state_before in ('priced', 'absent') and state_after in ('priced', 'absent') then {
                'first': coalesce(before.total_text, '0'),
                'second': coalesce(after.total_text, '0'),
                'price': coalesce(before.price_text, after.price_text),
                'later_price': coalesce(after.price_text, before.price_text)
            }
        end as known
    from before
    full join after
        on after.asset_id = before.asset_id
        and after.is_custom_asset = before.is_custom_asset
),

differences as materialized (
    select
        *,
        internal.exact_total([known['second'], internal.opposite(known['first'])]) as moved_text,
        internal.exact_total([known['later_price'], internal.opposite(known['price'])]) as rise_text
    from compared
),

effects as materialized (
    select
        *,
        internal.exact_product(moved_text, known['price']) as quantity_effect_text,
        internal.exact_product(known['second'], rise_text) as price_effect_text,
        case
            when known is not null
                then internal.exact_total([
                    coalesce(value_after_text, '0'),
                    internal.opposite(coalesce(value_before_text, '0'))
                ])
        end as change_text
    from differences
)

select
    asset_id,
    is_custom_asset,
    quote as quote,
    state_before,
    state_after,
    total_before_text,
    total_after_text,
    price_before_text,
    price_after_text,
    value_before_text,
    value_after_text,
    internal.as_amount(change_text) as change,
    change_text,
    internal.as_amount(quantity_effect_text) as quantity_effect,
    quantity_effect_text,
    internal.as_amount(price_effect_text) as price_effect,
    price_effect_text
from effects;
