-- exact_sums_by_part(sums, texts): The exact sums of several parts of a balance, in the same order.
--
-- sums: A list of STRUCT: the name of a `part`, or NULL for the total, and the sum of its small
--     amounts, as from exact_split.
-- texts: A list of STRUCT: `part` and `text`, for all amounts that are not small.
-- returns: A list of STRUCT as from exact_sums.
-- example: select internal.exact_sums_by_part([{'part': 'free', 'small': 1.5}], [{'part': 'free', 'text': '1e30'}])

create or replace macro internal.exact_sums_by_part(sums, texts) as (
    internal.exact_sums(
        list_transform(
            sums,
            lambda summed: {
                'small': summed['small'],
                'whole': null::decimal(38, 0),
                'part': null::decimal(38, 18),
                'texts': list_transform(
                    list_filter(
                        texts,
                        lambda given: coalesce(given['part'] = summed['part'], true)
                    ),
                    lambda given: given['text']
                )
            }
        )
    )
);
