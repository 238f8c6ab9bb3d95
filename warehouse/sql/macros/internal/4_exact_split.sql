-- exact_split(amount, amount_text): One amount in the form that `exact_night_part` adds.
--
-- amount: The amount as DECIMAL(38,18), or NULL if only its text is exact.
-- amount_text: The same amount as text.
-- returns: A STRUCT of `small`, the amount if it is below 1e12 (a decimal holds the sum of a hundred
--     million of them), and `odd`, its text if it is not.
-- example: select internal.exact_split(amount, amount_text) from balances

create or replace macro internal.exact_split(amount, amount_text) as (
    {
        'small': case when abs(amount) < 1000000000000 then amount end,
        'odd': case when amount is null or abs(amount) >= 1000000000000 then amount_text end
    }
);
