-- exact_part_of_parts(part): The results of `exact_part` for several groups as one: an aggregate.
--
-- part: A result of exact_part.
-- returns: A STRUCT as from exact_part.
-- example: select internal.exact_part_of_parts({'whole': 1::decimal(38,0), 'rest': null::decimal(38,18), 'texts': null::varchar[]})

create or replace macro internal.exact_part_of_parts(part) as (
    {
        'whole': sum(part['whole']),
        'rest': sum(part['rest']),
        'texts': flatten(list(part['texts']) filter (where part['texts'] is not null))
    }
);
