-- in_words(what, earlier, later): A change as a person would write it down.
--
-- what: What changed, like the name of a column.
-- earlier: Its value before; NULL where none was stated.
-- later: Its value after; NULL where none is stated.
-- returns: Text like `name: Old -> New`, a DECIMAL(38,18) in plain digits; NULL where nothing changed.
-- example: select in_words('status', 'requested', 'verified')

create or replace macro in_words(what, earlier, later) as (
    case
        when earlier is distinct from later
            then what || ': '
                || coalesce(as_said(earlier), 'not stated')
                || ' -> '
                || coalesce(as_said(later), 'not stated')
    end
);
