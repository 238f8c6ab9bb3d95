-- exact_part_where(split, chosen): `exact_part` of the chosen rows of one night: an aggregate.
--
-- split: What `exact_split` made of a row; made once in a subquery, it serves several sums.
-- chosen: Whether the row is one of those to add up.
-- returns: A STRUCT as of exact_part; where its `texts` are NULL, `small` is the whole sum.
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
