-- exact_part_where(split, chosen): `exact_part` of the chosen rows of one night: an aggregate.
--
-- split: The result of `exact_split` for a row. A subquery can compute it once for several sums.
-- chosen: Whether the row is added.
-- returns: A STRUCT as from exact_part. If its `texts` are NULL, `small` is the whole sum.
-- example: select internal.exact_part_where(internal.exact_split(amount, amount_text), state = 'free') from balances
--     where asset_id = 'BTC' and not is_custom_asset

create or replace macro internal.exact_part_where(split, chosen) as (
    {
        'small': sum(case when chosen then split['small'] end),
        'whole': null::decimal(38, 0),
        'part': null::decimal(38, 18),
        'texts': list(split['odd']) filter (where chosen and split['odd'] is not null)
    }
);
