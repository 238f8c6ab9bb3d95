-- value_text(value): Any value as text, without the zeros that a DECIMAL(38,18) does not need.
--
-- value: A value of any type.
-- returns: Text, exact; NULL for NULL.
-- example: select internal.value_text(min_price) from instruments limit 5

create or replace macro internal.value_text(value) as (
    case
        when typeof(value) = 'DECIMAL(38,18)'
            then regexp_replace(value::varchar, '\.?0+$', '')
        else value::varchar
    end
);
