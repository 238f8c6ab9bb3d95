-- exact_sum(amount_text): The exact sum of amounts as text: an aggregate for any GROUP BY.
--
-- It does not support FILTER and OVER. Use `exact_sum(case when ... then amount_text end)`. In
-- DuckDB 1.2 it does not work in HAVING either, so filter the rows of a subquery.
--
-- amount_text: Amounts as the API sends them, of any size. NULLs are skipped.
-- returns: Text in plain digits, without an exponent or unnecessary zeros. NULL without rows. A
--     text that is not an amount (`1,5`, `NaN`, ` 1`) is an error that shows the text.
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
