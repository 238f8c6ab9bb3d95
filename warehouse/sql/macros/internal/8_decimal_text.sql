-- decimal_text(amount): A DECIMAL(38,18) in plain digits, without needless zeros.
--
-- amount: The amount, of that type.
-- returns: Text, exact; NULL for NULL.
-- example: select internal.decimal_text(min_price) from instruments limit 5

create or replace macro internal.decimal_text(amount) as (
    regexp_replace(amount::decimal(38, 18)::varchar, '\.?0+$', '')
);
