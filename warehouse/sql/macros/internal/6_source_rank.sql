-- source_rank(sources, source): The position of a source in a list. The best source has 1.
--
-- sources: The list, as in NIGHTBOOK_PRICE_SOURCES.
-- source: The source of a price.
-- returns: BIGINT. 2000 if the source is not in the list.
-- example: select internal.source_rank(['custodian', 'manual'], 'manual')

create or replace macro internal.source_rank(sources, source) as (
    coalesce(nullif(list_position(sources, source), 0), 2000)::bigint
);
