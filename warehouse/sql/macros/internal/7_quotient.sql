-- quotient(a, b): The quotient of two amounts that are not negative, with at least 28 digits.
--
-- The digits after these are cut off.
--
-- a: An amount in plain digits.
-- b: An amount in plain digits, with up to 37 digits.
-- returns: Text in plain digits. NULL if an amount is NULL, or if b is 0 or has too many digits.
-- example: select internal.quotient('1', '1.0825')

create or replace macro internal.quotient(a, b) as (
    -- Long division: each step brings down a digit. Each step of the macro is a list of one.
    [
        {
            'above': ltrim(replace(a, '.', ''), '0'),
            'below': ltrim(replace(b, '.', ''), '0'),
            'decimals': length(split_part(a, '.', 2)) - length(split_part(b, '.', 2))
        }
    ]
    .list_transform(
        lambda given: {
            'below': case
                when length(given['below']) between 1 and 37 then given['below']::hugeint
            end,
            'above': given['above'],
            'more': greatest(0, 28 + length(given['below']) - length(given['above'])),
            'decimals': given['decimals']
        }
    )
    .list_transform(
        lambda given: {
            'decimals': given['decimals'] + given['more'],
            'digits': list_reduce(
                list_prepend(
                    {'rest': 0::hugeint, 'digits': ''},
                    list_transform(
                        regexp_extract_all(given['above'] || repeat('0', given['more']), '.'),
                        lambda digit: {'rest': digit::hugeint, 'digits': ''}
                    )
                ),
                lambda before, here: {
                    'rest': (before['rest'] * 10 + here['rest']) % given['below'],
                    'digits': before['digits']
                        || ((before['rest'] * 10 + here['rest']) // given['below'])::varchar
                }
            )['digits']
        }
    )
    .list_transform(
        lambda given: internal.plain_digits(
            given['digits'] || 'e' || (-given['decimals'])::varchar
        )
    )[1]
);
