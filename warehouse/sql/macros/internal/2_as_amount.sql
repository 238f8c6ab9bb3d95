-- as_amount(amount_text): The amount as DECIMAL(38,18), if that type can hold it exactly.
--
-- amount_text: An amount as the API sends it.
-- returns: DECIMAL(38,18). NULL if it does not fit exactly or is not an amount. A plain cast would
--     silently round the nineteenth decimal, but this macro never rounds.
-- example: select internal.as_amount('1e-8'), internal.as_amount('0.1234567890123456789')

create or replace macro internal.as_amount(amount_text) as (
    -- Nearly all amounts are plain digits, which need only a cast.
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
