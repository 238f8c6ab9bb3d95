-- change_words(what, earlier, later): The description of a change in plain text.
--
-- what: The thing that changed, like the name of a column.
-- earlier: Its value before. NULL if none was stated.
-- later: Its value after. NULL if none is stated.
-- returns: Text like `name: Old -> New`, with decimals in plain digits. NULL if nothing changed.
-- example: select internal.change_words('status', 'requested', 'verified')

create or replace macro internal.change_words(what, earlier, later) as (
    case
        when earlier is distinct from later
            then what || ': '
                || coalesce(internal.value_text(earlier), 'not stated')
                || ' -> '
                || coalesce(internal.value_text(later), 'not stated')
    end
);
