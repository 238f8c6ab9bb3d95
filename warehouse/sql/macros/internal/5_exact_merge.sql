-- exact_merge(first, second): Combine two results of `exact_part_where`, as if over the rows of both.
--
-- first: A result of `exact_part_where`.
-- second: A result for other rows.
-- returns: A STRUCT as from exact_part.
-- example: select internal.exact_merge(internal.exact_part_where(given, true), internal.exact_part_where(given, true))['small']
--     from (select internal.exact_split(amount, amount_text) as given from balances
--     where asset_id = 'BTC' and not is_custom_asset)

create or replace macro internal.exact_merge(first, second) as (
    {
        'small': coalesce(first['small'] + second['small'], first['small'], second['small']),
        'whole': null::decimal(38, 0),
        'part': null::decimal(38, 18),
        'texts': list_concat(first['texts'], second['texts'])
    }
);
