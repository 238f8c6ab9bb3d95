-- json_text(given): A text as JSON writes it, in double quotes; no extension is needed.
--
-- given: Any text.
-- returns: Text; NULL for NULL.
-- example: select internal.json_text('a "desk"')

create or replace macro internal.json_text(given) as (
    -- DuckDB 1.4 makes NULL of a list of nothing.
    left('"' || given, 1)
    || coalesce(
        array_to_string(
            list_transform(
                -- By code points: a split on the empty text would keep both ends of a line in one.
                regexp_extract_all(given, '(?s).'),
                lambda letter: case
                    when letter in ('"', '\') then '\' || letter
                    when unicode(letter) < 32 then format('\u{:04x}', unicode(letter))
                    else letter
                end
            ),
            ''
        ),
        ''
    )
    || '"'
);
