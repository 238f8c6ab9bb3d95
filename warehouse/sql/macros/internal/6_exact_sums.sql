-- exact_sums(parts): The exact sums of several results of `exact_part`, in the same order.
--
-- parts: A list of results of `exact_part`.
-- returns: A list of STRUCT: `text` in plain digits, or NULL if there was no amount, and `amount`, the
--     same as DECIMAL(38,18), or NULL if that type cannot hold it exactly.
-- example: select internal.exact_sums([internal.exact_part(amount, amount_text)])[1].text as total from balances
--     where asset_id = 'BTC' and not is_custom_asset

create or replace macro internal.exact_sums(parts) as (
    list_transform(
        list_transform(
            list_transform(
                parts,
                lambda sums: {
                    'whole': sums['whole'] + trunc(coalesce(sums['rest'], 0)),
                    'rest': case
                        when sums['whole'] is null then sums['rest']
                        else coalesce(sums['rest'] - trunc(sums['rest']), 0)
                    end,
                    'exact': case
                        when sums['texts'] is not null
                            then internal.exact_total(
                                list_concat(
                                    sums['texts'],
                                    [sums['whole']::varchar, sums['rest']::varchar]
                                )
                            )
                    end
                }
            ),
            -- Both parts of a decimal have the same sign.
            lambda sums: {
                'whole': case
                    when sums['whole'] > 0 and sums['rest'] < 0 then sums['whole'] - 1
                    when sums['whole'] < 0 and sums['rest'] > 0 then sums['whole'] + 1
                    else sums['whole']
                end,
                'rest': case
                    when sums['whole'] > 0 and sums['rest'] < 0 then sums['rest'] + 1
                    when sums['whole'] < 0 and sums['rest'] > 0 then sums['rest'] - 1
                    else sums['rest']
                end,
                'exact': sums['exact']
            }
        ),
        lambda sums: {
            'amount': case
                when sums['exact'] is not null then internal.as_amount(sums['exact'])
                when sums['whole'] is null then sums['rest']
                when abs(sums['whole']) < 100000000000000000000::decimal(38, 0)
                    then sums['whole']::decimal(38, 18) + sums['rest']
            end,
            'text': case
                when sums['exact'] is not null then sums['exact']
                when coalesce(sums['whole'], 0) = 0
                    then regexp_replace(sums['rest']::varchar, '\.?0+$', '')
                else regexp_replace(
                    sums['whole']::varchar || '.' || right(sums['rest']::varchar, 18),
                    '\.?0+$',
                    ''
                )
            end
        }
    )
);
