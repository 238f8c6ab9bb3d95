-- exact_single(amount, amount_text): The input of `exact_sums` for one amount, which is not an aggregate.
--
-- amount: The amount as DECIMAL(38,18), or NULL if only its text is exact.
-- amount_text: The same amount as text, which is read only if `amount` is NULL.
-- returns: A STRUCT as from exact_part.
-- example: select internal.exact_sums([internal.exact_single(amount, amount_text)])[1].text from balances
--     where asset_id = 'BTC' and not is_custom_asset

create or replace macro internal.exact_single(amount, amount_text) as (
    {
        'whole': null::decimal(38, 0),
        'rest': amount,
        'texts': case when amount is null and amount_text is not null then [amount_text] end
    }
);
