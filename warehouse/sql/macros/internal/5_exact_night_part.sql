-- exact_night_part(amount, amount_text): `exact_part` of amounts from one night: a faster aggregate.
--
-- amount: The amount as DECIMAL(38,18), or NULL if only its text is exact.
-- amount_text: The same amount as text.
-- returns: A STRUCT as from exact_part, for at most a hundred million amounts. If its `texts` are NULL,
--     `small` is the whole sum.
-- example: select internal.exact_night_part(amount, amount_text) from balances
--     where asset_id = 'BTC' and not is_custom_asset

create or replace macro internal.exact_night_part(amount, amount_text) as (
    {
        'small': sum(internal.exact_split(amount, amount_text)['small']),
        'whole': null::decimal(38, 0),
        'part': null::decimal(38, 18),
        'texts': list(internal.exact_split(amount, amount_text)['odd'])
            filter (where internal.exact_split(amount, amount_text)['odd'] is not null)
    }
);
