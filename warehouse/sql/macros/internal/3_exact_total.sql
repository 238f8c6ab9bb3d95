-- exact_total(amount_texts): The exact sum of a list of amounts with any number of digits.
--
-- amount_texts: A list of amounts as the API sends them. NULLs are skipped.
-- returns: Text in plain digits. NULL for an empty list. A text that is not an amount is an error.
-- example: select internal.exact_total(['1e30', '-0.000000000000000000000001'])

create or replace macro internal.exact_total(amount_texts) as (
    -- Column addition with columns of 15 digits, the lowest first. Each step is a list of one.
    [
        list_transform(
            list_filter(amount_texts, lambda given: given is not null),
            lambda given: coalesce(
                internal.plain_digits(given),
                -- A cast that fails with a message, because error() is a side effect and stops pruning.
                cast(
                    cast(
                        '"' || left(given, 100) || '" is no amount; nothing was added up' as integer
                    ) as varchar
                )
            )
        )
    ]
    .list_transform(
        lambda texts: {
            'texts': texts,
            'wide': 15 + 15 * (
                list_max(list_transform(texts, lambda text: strpos(text || '.', '.'))) // 15
            ),
            'deep': 15 + 15 * (
                list_max(
                    list_transform(texts, lambda text: length(split_part(text, '.', 2)))
                ) // 15
            )
        }
    )
    .list_transform(
        lambda given: {
            'deep': given['deep'],
            'sums': list_transform(
                range(given['wide'] + given['deep'] - 14, 0, -15),
                lambda start: list_sum(
                    list_transform(
                        given['texts'],
                        lambda text: (case when starts_with(text, '-') then -1 else 1 end)
                            * cast(
                                substr(
                                    lpad(
                                        ltrim(split_part(text, '.', 1), '-'),
                                        given['wide']::integer,
                                        '0'
                                    )
                                    || rpad(split_part(text, '.', 2), given['deep']::integer, '0'),
                                    start,
                                    15
                                ) as bigint
                            )
                    )
                )
            )
        }
    )
    -- A negative total is found from the sum of the opposites: one of the two needs no borrow.
    .list_transform(
        lambda columns: [
            {'deep': columns['deep'], 'minus': '', 'sums': columns['sums']},
            {
                'deep': columns['deep'],
                'minus': '-',
                'sums': list_transform(columns['sums'], lambda amount: -amount)
            }
        ]
    )[1]
    -- Carry: adding 1e35 keeps the dividend positive, and it is subtracted afterwards.
    .list_transform(
        lambda side: {
            'minus': side['minus'],
            'deep': side['deep'],
            'total': list_reduce(
                list_prepend(
                    {'carry': 0::hugeint, 'digits': ''},
                    list_transform(side['sums'], lambda amount: {'carry': amount, 'digits': ''})
                ),
                lambda below, here: {
                    'carry': (
                        below['carry']
                        + here['carry']
                        + 100000000000000000000000000000000000::hugeint
                    ) // 1000000000000000::hugeint - 100000000000000000000::hugeint,
                    'digits': lpad(
                        (
                            (
                                below['carry']
                                + here['carry']
                                + 100000000000000000000000000000000000::hugeint
                            ) % 1000000000000000::hugeint
                        )::varchar,
                        15,
                        '0'
                    ) || below['digits']
                }
            )
        }
    )
    .list_filter(lambda side: side['total']['carry'] >= 0)
    .list_transform(
        lambda side: side['minus']
            || ltrim(
                side['total']['carry']::varchar
                || left(side['total']['digits'], length(side['total']['digits']) - side['deep']),
                '0'
            )
            || '.'
            || rtrim(right(side['total']['digits'], side['deep']), '0')
    )
    .list_transform(
        lambda trimmed: case
            when trimmed in ('.', '-.') then '0'
            else rtrim(regexp_replace(trimmed, '^(-?)\.', '\10.'), '.')
        end
    )[1]
);
