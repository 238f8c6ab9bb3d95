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
            parts,
            lambda sums: {
                'small': case
                    when sums['texts'] is null and sums['whole'] is null then sums['small']
                end,
                'text': case
                    when sums['texts'] is null and sums['whole'] is null
                        then regexp_replace(sums['small']::varchar, '\.?0+$', '')
                    else internal.exact_total(
                        list_concat(
                            coalesce(sums['texts'], []),
                            [sums['small']::varchar, sums['whole']::varchar, sums['part']::varchar]
                        )
                    )
                end
            }
        ),
        lambda total: {
            'amount': case
                when total['small'] is not null then total['small']
                when regexp_full_match(total['text'], '-?[0-9]{1,20}(\.[0-9]{1,18})?')
                    then try_cast(total['text'] as decimal(38, 18))
            end,
            'text': total['text']
        }
    )
);
