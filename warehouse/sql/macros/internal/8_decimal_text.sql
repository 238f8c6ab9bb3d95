-- decimal_text(amount): A DECIMAL(38,18) in plain digits, without unnecessary zeros.
--
-- amount: The amount, of this type.
-- returns: Exact text. NULL for NULL.
-- example: select internal.decimal_text(min_price) from instruments limit 5

create or replace macro internal.decimal_text(amount) as (
    regexp_replace(amount::decimal(38, 18)::varchar, '\.?0+$', '')
);
