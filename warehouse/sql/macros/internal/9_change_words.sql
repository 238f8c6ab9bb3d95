-- change_words(what, earlier, later): A change as a person would write it down.
--
-- what: What changed, like the name of a column.
-- earlier: Its value before; NULL where none was stated.
-- later: Its value after; NULL where none is stated.
-- returns: Text like `name: Old -> New`, a DECIMAL(38,18) in plain digits; NULL where nothing changed.
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
