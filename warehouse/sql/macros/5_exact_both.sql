-- exact_both(one, two): Two of `exact_part_of` in one, as if of the rows of both.
--
-- one: What `exact_part_of` returned.
-- two: The same of other rows.
-- returns: A STRUCT as of exact_part.
-- example: select exact_both(exact_part_of(given, true), exact_part_of(given, true))['small']
--     from (select exact_split(amount, amount_text) as given from balances
--     where asset_id = 'BTC' and not is_custom_asset)

create or replace macro exact_both(one, two) as (
    {
        'small': coalesce(one['small'] + two['small'], one['small'], two['small']),
        'whole': null::decimal(38, 0),
        'part': null::decimal(38, 18),
        'texts': list_concat(one['texts'], two['texts'])
    }
);
