"""An export's temporary tables, and the CSV files written from them."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from warehouse.contract.model import literal, quote_identifier
from warehouse.query.book import NAMES, PORTFOLIO_NAME, VALUES, Exhibit, OpenBook
from warehouse.query.connect import records, scalar
from warehouse.spreadsheet.writing.cells import MAX_NUMBER_LENGTH
from warehouse.spreadsheet.writing.layout import title
from warehouse.spreadsheet.writing.rows import is_rounded
from warehouse.sql.catalog import views
from warehouse.storage.layout import written_aside

# ruff: noqa: S608 - names are our own and quoted by warehouse.contract.model; values are parameters


# The number of rows in a batch. Larger batches are not faster, and batches of 4,096 rows need 25 MB
# more memory (measured).
BATCH = 1024


def columns_of(source: OpenBook, exhibit: Exhibit) -> dict[str, str]:
    """Return an exhibit's columns with their types. The portfolio name is first."""
    rows = source.connection.execute(f"describe {exhibit.staged_name}").fetchall()
    return {name: kind for name, kind, *_ in rows}


def meanings(exhibit: Exhibit) -> dict[str, str]:
    """Return every column's meaning, taken from the view's SQL file."""
    view = next(view for view in views() if view.name == exhibit.view)
    return {
        PORTFOLIO_NAME: "Name of the portfolio at that time, or its id if it has no name.",
        **view.entries,
        **VALUES,
    }


def longest(source: OpenBook, exhibit: Exhibit) -> dict[str, int]:
    """Return the length of the longest value in each text column."""
    names = [name for name, kind in columns_of(source, exhibit).items() if kind == "VARCHAR"]
    return _largest(source, exhibit, names, "length({0})")


def longest_whole(source: OpenBook, exhibit: Exhibit) -> dict[str, int]:
    """Return each amount column's largest number of digits before the decimal point, up to 15."""
    names = [name for name in columns_of(source, exhibit) if name.endswith("_text")]
    digits = "least(15, coalesce(nullif(instr({0}, '.'), 0) - 1, strlen({0})))"
    return _largest(source, exhibit, names, digits)


def _largest(source: OpenBook, exhibit: Exhibit, names: Iterable[str], size: str) -> dict[str, int]:
    """Return the maximum of an SQL expression for each column.

    In the expression `size`, {0} is replaced by the column name.
    """
    columns = ", ".join(
        f"coalesce(max({size.format(name)}), 0) as {name}" for name in map(quote_identifier, names)
    )
    return records(source.connection, f"select {columns} from {exhibit.staged_name}")[0]


def count_rounded_rows(source: OpenBook, exhibit: Exhibit) -> int:
    """Count the rows that have an amount with more digits than a number cell can store."""
    names = [name for name in columns_of(source, exhibit) if name.endswith("_text")]
    tests = " or ".join(
        f"strlen({name}) > {MAX_NUMBER_LENGTH} or {is_rounded(name)}"
        for name in map(quote_identifier, names)
    )
    query = f"select count(*) from {exhibit.staged_name} where {tests}"
    return int(scalar(source.connection, query))


def texts_over(source: OpenBook, exhibit: Exhibit, size: int) -> list[str]:
    """Return every string in an exhibit that is longer than `size` bytes."""
    texts: set[str] = set()
    for name, kind in columns_of(source, exhibit).items():
        if kind == "VARCHAR":
            column = quote_identifier(name)
            query = (
                f"select distinct {column} from {exhibit.staged_name} where strlen({column}) > ?"
            )
            texts.update(row[0] for row in source.connection.execute(query, [size]).fetchall())
    return sorted(texts)


BYTE_ORDER_MARK = "\ufeff"
# Spreadsheets evaluate strings that look like formulas, and may split a line at any separator. So
# the pattern below matches every character that can begin a formula, and any blanks before it.
_BLANK = "[\\s\x00-\x1f\x7f]"
_TRIGGER = re.compile(f"(?<!{_BLANK}){_BLANK}*[=+\\-@\uff1d\uff0b\uff0d\uff20\u2212]")
_SEPARATORS = ";,\t\r\n|\"'"
_HARMLESS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:/-]*)")


def harmless(text: str) -> str:
    """Put an apostrophe before every part of a string that could be read as a formula."""
    return text if _HARMLESS.fullmatch(text) else _TRIGGER.sub(_disarm, text)


def _disarm(match: re.Match[str]) -> str:
    """Put an apostrophe before each matched character that could begin a cell."""
    matched = match[0]
    before = match.string[match.start() - 1] if match.start() else _SEPARATORS[0]
    return "".join(
        f"'{char}" if previous in _SEPARATORS else char
        for previous, char in zip(before + matched, matched, strict=False)
    )


def field(text: str) -> str:
    """Quote a string as a CSV field."""
    return '"' + text.replace('"', '""') + '"'


def for_people(source: OpenBook, exhibit: Exhibit, path: Path) -> int:
    """Write the CSV file that people open in a spreadsheet. Return the number of rows."""
    names = columns_of(source, exhibit)
    # Write only the exact string of each amount, under the title of the amount column.
    titles = {
        name: title(name.removesuffix("_text")) for name in names if f"{name}_text" not in names
    }
    return _write(source, exhibit, path, titles, safe=harmless, mark=BYTE_ORDER_MARK)


def for_machines(source: OpenBook, exhibit: Exhibit, path: Path) -> int:
    """Write the CSV file for programs, with the view's column names. Return the number of rows."""
    names = [name for name in columns_of(source, exhibit) if name not in NAMES]
    return _write(source, exhibit, path, dict(zip(names, names, strict=True)))


def _write(
    source: OpenBook,
    exhibit: Exhibit,
    path: Path,
    titles: Mapping[str, str],
    *,
    safe: Callable[[str], str] = str,
    mark: str = "",
) -> int:
    """Write a CSV file with these columns. Return the number of rows.

    Only text is quoted. `safe` makes a text safe to open in a spreadsheet. The file begins with
    `mark`.
    """
    all_kinds = columns_of(source, exhibit)
    kinds = {name: all_kinds[name] for name in titles}
    is_text = quoted_columns(kinds)
    query = f"select {line_columns(kinds)} from {exhibit.staged_name}"
    rows = 0
    with written_aside(path) as file:
        file.write(f"{mark}{','.join(map(field, titles.values()))}\r\n".encode())
        result = source.connection.execute(query)
        while batch := result.fetchmany(BATCH):
            file.write(csv_lines(batch, is_text, safe).encode())
            rows += len(batch)
            source.on_rows(len(batch))
    return rows


def quoted_columns(kinds: Mapping[str, str]) -> list[bool]:
    """Return for each column, given with its type, whether a CSV file quotes its texts."""
    return [kind == "VARCHAR" and not name.endswith("_text") for name, kind in kinds.items()]


def line_columns(kinds: Mapping[str, str]) -> str:
    """Return SQL for the columns `line` and `cells` of these columns, for `csv_lines`.

    A row with a text that is not harmless has only cells. DuckDB writes the lines of all other
    rows, in half of the time that Python needs (0.11 instead of 0.22 CPU s for 15,000 accounts).
    """
    is_text = quoted_columns(kinds)
    cells = [
        f"replace({quote_identifier(name)}::varchar, '+00', 'Z')"
        if kind == "TIMESTAMP WITH TIME ZONE"
        else f"{quote_identifier(name)}::varchar"
        for name, kind in kinds.items()
    ]
    texts = [cell for cell, is_quoted in zip(cells, is_text, strict=True) if is_quoted]
    is_harmless = " and ".join(
        f"coalesce(regexp_full_match({cell}, {literal(_HARMLESS.pattern)}), true)" for cell in texts
    )
    fields = (
        f"coalesce('\"' || {cell} || '\"', '')" if is_quoted else f"coalesce({cell}, '')"
        for cell, is_quoted in zip(cells, is_text, strict=True)
    )
    line = " || ',' || ".join(fields)
    return (
        f"case when {is_harmless or 'true'} then {line} end as line, "
        f"case when line is null then [{', '.join(cells)}] end as cells"
    )


def csv_lines(
    rows: Iterable[tuple[str | None, list[str | None]]],
    is_text: Sequence[bool],
    safe: Callable[[str], str],
) -> str:
    """Return the lines of rows with the columns of `line_columns`. `safe` changes their texts."""
    lines = (
        ",".join(
            "" if cell is None else field(safe(cell)) if is_quoted else cell
            for cell, is_quoted in zip(cells, is_text, strict=True)
        )
        if line is None
        else line
        for line, cells in rows
    )
    return "".join(f"{line}\r\n" for line in lines)
