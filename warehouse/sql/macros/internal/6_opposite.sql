-- opposite(amount_text): An amount with the other sign.
--
-- amount_text: An amount in plain digits.
-- returns: Text. NULL for NULL.
-- example: select internal.opposite('-1.5')

create or replace macro internal.opposite(amount_text) as (
    case when starts_with(amount_text, '-') then substr(amount_text, 2) else '-' || amount_text end
);
