-- exact_sum(amount_text): The exact sum of amounts given as text: an aggregate for any GROUP BY.
--
-- No FILTER and no OVER can be put on it: write `exact_sum(case when ... then amount_text end)`. In
-- DuckDB 1.2 it has no place in HAVING either: filter around a subquery.
--
-- amount_text: Amounts as the API sends them, of any size; NULLs are left out.
-- returns: Text in plain digits, without exponent and needless zeros; NULL for no rows. A text that
--     is no amount (`1,5`, `NaN`, ` 1`) is an error that names it, never a wrong number.
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
