-- value_text(value): Any value as text. A DECIMAL(38,18) has no unnecessary zeros.
--
-- value: A value of any type.
-- returns: Exact text. NULL for NULL.
-- example: select internal.value_text(min_price) from instruments limit 5

create or replace macro internal.value_text(value) as (
    case
        when typeof(value) = 'DECIMAL(38,18)'
            then regexp_replace(value::varchar, '\.?0+$', '')
        else value::varchar
    end
);
