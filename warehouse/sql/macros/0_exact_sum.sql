-- exact_sum(amount_text): The exact sum of amounts, as text.
--
-- This aggregate function works with any GROUP BY, but not with FILTER
-- or OVER. To add up only some rows, use `exact_sum(case when state = 'free' then amount_text
-- end)`. In DuckDB 1.2, the function does not work in HAVING, so filter the rows of a subquery
-- instead.
--
-- amount_text: Amounts as text, of any size. NULL values are skipped.
-- returns: The sum as text in plain digits, without an exponent or unnecessary zeros. The result is
--     NULL if there are no rows. If a string is not an amount (such as `1,5` or `NaN`), the error
--     message shows the string.
-- example: select asset_id, is_custom_asset, exact_sum(amount_text) from balances group by all

create or replace macro exact_sum(amount_text) as (
    internal.exact_sums(
        [
            internal.exact_part(
                case
                    when regexp_full_match(amount_text, '-?0*[0-9]{1,20}(\.[0-9]{1,18})?')
                        then try_cast(amount_text as decimal(38, 18))
                end,
                amount_text
            )
        ]
    )[1]['text']
);
