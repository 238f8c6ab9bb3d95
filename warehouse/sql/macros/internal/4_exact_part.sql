-- exact_part(amount, amount_text): The input of `exact_sums` for one group: an aggregate.
--
-- amount: The amount as DECIMAL(38,18), or NULL if only its text is exact.
-- amount_text: The same amount as text, which is read only if `amount` is NULL.
-- returns: A STRUCT of three sums that cannot overflow, and the texts that do not fit a decimal.
-- example: select asset_id, is_custom_asset, internal.exact_part(amount, amount_text) from balances group by all

create or replace macro internal.exact_part(amount, amount_text) as (
    {
        -- 38 digits hold the sum of 1.7e10 amounts below 1e10. For larger amounts, the integer and
        -- fractional parts are added separately. CASE takes a third of the time of FILTER.
        'small': sum(case when abs(amount) < 10000000000 then amount end),
        'whole': sum(case when abs(amount) >= 10000000000 then trunc(amount) end),
        'part': sum(case when abs(amount) >= 10000000000 then amount - trunc(amount) end),
        'texts': list(amount_text) filter (where amount is null and amount_text is not null)
    }
);
