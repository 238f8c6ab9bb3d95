-- json_text(given): A text as a JSON string in double quotes, without an extension.
--
-- given: Any text.
-- returns: Text. NULL for NULL.
-- example: select internal.json_text('a "desk"')

create or replace macro internal.json_text(given) as (
    -- DuckDB 1.4 returns NULL for an empty list.
    left('"' || given, 1)
    || coalesce(
        array_to_string(
            list_transform(
                -- Split by code points, because a split on '' would keep \r\n in one part.
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
