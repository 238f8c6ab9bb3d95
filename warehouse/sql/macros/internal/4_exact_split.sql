-- exact_split(amount, amount_text): One amount as `exact_part_where` adds it up.
--
-- amount: The amount as DECIMAL(38,18), or NULL where only its text is exact.
-- amount_text: The same amount as text.
-- returns: A STRUCT: `small`, the amount where it is below 1e12, so that a decimal holds the sum of
--     a hundred million of them; or else `odd`, its text.
-- example: select internal.exact_split(amount, amount_text) from balances

create or replace macro internal.exact_split(amount, amount_text) as (
    {
        'small': case when abs(amount) < 1000000000000 then amount end,
        'odd': case when amount is null or abs(amount) >= 1000000000000 then amount_text end
    }
);
