-- plain_digits(amount_text): The same amount in plain digits: no exponent, no unnecessary zeros, and `-0` becomes `0`.
--
-- amount_text: An amount as the API sends it, like `1.50`, `.5` or `-2e-8`, with any number of digits.
-- returns: Exact text. NULL for NULL, and for a text that is not an amount (exponents are at most 200).
-- example: select internal.plain_digits('-001.50e3')

create or replace macro internal.plain_digits(amount_text) as (
    -- A list with one element, transformed in steps: a macro has no other way to name a value.
    [
        case
            when regexp_full_match(
                amount_text,
                '[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?0*([01]?[0-9]?[0-9]|200))?'
            ) then {
                'minus': case when starts_with(amount_text, '-') then '-' else '' end,
                -- 200 zeros on each side, so that the point can move by 200 digits in both directions.
                'digits': repeat('0', 200)
                    || regexp_replace(amount_text, '[+\-.]|[eE].*', '', 'g')
                    || repeat('0', 200),
                'point': 200
                    + length(regexp_extract(amount_text, '^[+-]?([0-9]*)', 1))
                    + coalesce(
                        try_cast(regexp_extract(amount_text, '[eE]\+?(-?[0-9]+)$', 1) as bigint),
                        0
                    )
            }
        end
    ]
    .list_transform(
        lambda given: given['minus']
            || ltrim(left(given['digits'], given['point']), '0')
            || '.'
            || rtrim(substr(given['digits'], given['point'] + 1), '0')
    )
    .list_transform(
        lambda trimmed: case
            when trimmed in ('.', '-.') then '0'
            else rtrim(regexp_replace(trimmed, '^(-?)\.', '\10.'), '.')
        end
    )[1]
);
