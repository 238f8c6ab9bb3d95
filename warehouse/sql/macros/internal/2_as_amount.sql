-- as_amount(amount_text): The amount as DECIMAL(38,18), where that type holds it exactly.
--
-- amount_text: An amount as the API sends it.
-- returns: DECIMAL(38,18); NULL where it does not fit exactly, and for what is no amount. A plain
--     cast rounds the nineteenth decimal silently; this never rounds.
-- example: select internal.as_amount('1e-8'), internal.as_amount('0.1234567890123456789')

create or replace macro internal.as_amount(amount_text) as (
    -- Plain digits, as nearly all come, are cast at once.
    case
        when regexp_full_match(amount_text, '-?[0-9]{1,20}(\.[0-9]{1,18})?')
            then try_cast(amount_text as decimal(38, 18))
        else list_transform(
            [internal.plain_digits(amount_text)],
            lambda text: case
                when regexp_full_match(text, '-?[0-9]{1,20}(\.[0-9]{1,18})?')
                    then try_cast(text as decimal(38, 18))
            end
        )[1]
    end
);
