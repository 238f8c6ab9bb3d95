-- exact_product(a, b): The exact product of two amounts with any number of digits.
--
-- a: An amount in plain digits.
-- b: An amount in plain digits.
-- returns: Text in plain digits. NULL if one of the amounts is NULL.
-- example: select internal.exact_product('-12345678901234567890.5', '0.1')

create or replace macro internal.exact_product(a, b) as (
    -- DuckDB multiplies BIGNUM as DOUBLE, so multiply digits as HUGEINT. Each step is a list of one.
    [
        {
            'minus': case when starts_with(a, '-') = starts_with(b, '-') then '' else '-' end,
            'one': ltrim(replace(a, '.', ''), '-0'),
            'two': ltrim(replace(b, '.', ''), '-0'),
            'deep': length(split_part(a, '.', 2)) + length(split_part(b, '.', 2))
        }
    ]
    .list_transform(
        lambda given: {
            'minus': given['minus'],
            'deep': given['deep'],
            'product': case
                when given['one'] = '' or given['two'] = ''
                    then {'carry': 0::hugeint, 'digits': ''}
                when length(given['one']) + length(given['two']) <= 38
                    then {'carry': given['one']::hugeint * given['two']::hugeint, 'digits': ''}
                -- Column multiplication with columns of nine digits, the lowest first.
                else list_reduce(
                    list_prepend(
                        {'carry': 0::hugeint, 'digits': ''},
                        list_transform(
                            range(
                                (length(given['one']) + 8) // 9
                                + (length(given['two']) + 8) // 9
                                - 1
                            ),
                            lambda place: {
                                'carry': list_sum(
                                    list_transform(
                                        range(
                                            greatest(
                                                0,
                                                place + 1 - (length(given['two']) + 8) // 9
                                            ),
                                            least(place + 1, (length(given['one']) + 8) // 9)
                                        ),
                                        lambda part: internal.digit_group(given['one'], part)
                                            * internal.digit_group(given['two'], place - part)
                                    )
                                )::hugeint,
                                'digits': ''
                            }
                        )
                    ),
                    lambda below, here: {
                        'carry': (below['carry'] + here['carry']) // 1000000000::hugeint,
                        'digits': lpad(
                            ((below['carry'] + here['carry']) % 1000000000::hugeint)::varchar,
                            9,
                            '0'
                        )
                        || below['digits']
                    }
                )
            end
        }
    )
    .list_transform(
        lambda given: {
            'minus': given['minus'],
            'deep': given['deep'],
            'digits': repeat('0', given['deep']) || given['product']['carry']::varchar
                || given['product']['digits']
        }
    )
    .list_transform(
        lambda given: given['minus']
            || ltrim(left(given['digits'], length(given['digits']) - given['deep']), '0')
            || '.'
            || rtrim(right(given['digits'], given['deep']), '0')
    )
    .list_transform(
        lambda trimmed: case
            when trimmed in ('.', '-.') then '0'
            else rtrim(regexp_replace(trimmed, '^(-?)\.', '\10.'), '.')
        end
    )[1]
);
