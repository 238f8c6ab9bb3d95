-- exact_part(amount, amount_text): What `exact_sums` needs to know of a group: an aggregate.
--
-- amount: The amount as DECIMAL(38,18), or NULL where only its text is exact.
-- amount_text: The same amount as text; read only where `amount` is NULL.
-- returns: A STRUCT of three sums that cannot overflow, and of the texts that no decimal holds.
-- example: select asset_id, is_custom_asset, internal.exact_part(amount, amount_text) from balances group by all

create or replace macro internal.exact_part(amount, amount_text) as (
    {
        -- 38 digits hold the sum of 1.7e10 rows of amounts below 1e10; of larger ones the whole and
        -- the broken parts are added apart. CASE takes a third of the time of FILTER (measured).
        'small': sum(case when abs(amount) < 10000000000 then amount end),
        'whole': sum(case when abs(amount) >= 10000000000 then trunc(amount) end),
        'part': sum(case when abs(amount) >= 10000000000 then amount - trunc(amount) end),
        'texts': list(amount_text) filter (where amount is null and amount_text is not null)
    }
);
