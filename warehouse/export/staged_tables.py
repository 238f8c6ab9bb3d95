"""An export's temporary tables, and the CSV files written from them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from warehouse.contract.firm import SOURCE
from warehouse.contract.model import quote_identifier
from warehouse.query.book import NAMES, PORTFOLIO_NAME, Exhibit, OpenBook
from warehouse.spreadsheet.writing.cells import LONGEST_NUMBER
from warehouse.spreadsheet.writing.layout import title
from warehouse.spreadsheet.writing.rows import is_rounded
from warehouse.sql.catalog import views
from warehouse.storage.layout import written_aside

# ruff: noqa: S608 - names are our own and quoted by warehouse.contract.model; values are parameters


BATCH = 1024  # rows per batch. Batches of 4,096 rows need 25 MB more and are not faster (measured)


def columns_of(source: OpenBook, exhibit: Exhibit) -> dict[str, str]:
    """Return an exhibit's columns with their types. The portfolio name is first."""
    rows = source.connection.execute(f"describe {exhibit.staged_name}").fetchall()
    return {name: kind for name, kind, *_ in rows}


def meanings(exhibit: Exhibit) -> dict[str, str]:
    """Return every column's meaning, taken from the view's SQL file."""
    view = next(view for view in views() if view.name == exhibit.view)
    return {
        SOURCE.name: SOURCE.meaning,
        PORTFOLIO_NAME: "Name of the portfolio at that time, or its id if it has no name.",
        **view.entries,
    }


def batches(
    source: OpenBook, exhibit: Exhibit, names: tuple[str, ...]
) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """Yield an exhibit's rows in order, in batches. Each batch is a tuple of columns.

    Decimals are strings in plain digits, because every caller writes text.
    """
    kinds = columns_of(source, exhibit)
    columns = ", ".join(_column(name, kinds) for name in names)
    result = source.connection.execute(f"select {columns} from {exhibit.staged_name}")
    while fetched := result.fetchmany(BATCH):
        yield tuple(zip(*fetched, strict=True))
        source.on_rows(len(fetched))


def _column(name: str, kinds: dict[str, str]) -> str:
    return f"{quote_identifier(name)}{'::varchar' if kinds[name].startswith('DECIMAL') else ''}"


def longest(source: OpenBook, exhibit: Exhibit) -> dict[str, int]:
    """Return the length of the longest value in each text column."""
    names = [name for name, kind in columns_of(source, exhibit).items() if kind == "VARCHAR"]
    columns = ", ".join(f"coalesce(max(length({quote_identifier(name)})), 0)" for name in names)
    row = source.connection.execute(f"select {columns} from {exhibit.staged_name}").fetchone()
    return dict(zip(names, row or (), strict=True))


def longest_whole(source: OpenBook, exhibit: Exhibit) -> dict[str, int]:
    """Return each amount column's largest number of digits before the decimal point, up to 15."""
    names = [name for name in columns_of(source, exhibit) if name.endswith("_text")]
    columns = ", ".join(
        f"coalesce(max(least(15, coalesce(nullif(instr({name}, '.'), 0) - 1, strlen({name})))), 0)"
        for name in map(quote_identifier, names)
    )
    row = source.connection.execute(f"select {columns} from {exhibit.staged_name}").fetchone()
    return dict(zip(names, row or (), strict=True))


def count_rounded_rows(source: OpenBook, exhibit: Exhibit) -> int:
    """Count the rows that have an amount with more digits than a number cell keeps."""
    names = [name for name in columns_of(source, exhibit) if name.endswith("_text")]
    tests = " or ".join(
        f"strlen({name}) > {LONGEST_NUMBER} or {is_rounded(name)}"
        for name in map(quote_identifier, names)
    )
    query = f"select count(*) from {exhibit.staged_name} where {tests}"
    row = source.connection.execute(query).fetchone()
    return int(row[0]) if row else 0


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
    """Put an apostrophe before each matched character that follows a possible separator."""
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
    """Write the CSV file for people. Return the number of rows."""
    kinds = columns_of(source, exhibit)
    # Write each amount's exact string, but under the amount column's title.
    names = tuple(name for name in kinds if f"{name}_text" not in kinds)
    titles = [title(name.removesuffix("_text")) for name in names]
    formatters = _formatters(kinds, names, harmless)
    with written_aside(path) as file:
        file.write(BYTE_ORDER_MARK.encode())
        return _write(file, titles, batches(source, exhibit, names), formatters)


def for_machines(source: OpenBook, exhibit: Exhibit, path: Path) -> int:
    """Write the CSV file for programs, with the view's column names. Return the number of rows."""
    kinds = columns_of(source, exhibit)
    names = tuple(name for name in kinds if name not in NAMES)
    with written_aside(path) as file:
        return _write(file, names, batches(source, exhibit, names), _formatters(kinds, names, str))


def _formatters(
    kinds: Mapping[str, str], names: Iterable[str], text: Callable[[str], str]
) -> list[Callable[[Any], str]]:
    """Return a formatting function for each column. Only text columns are quoted."""

    def quote(value: str) -> str:
        return field(text(value))

    return [
        quote if kinds[name] == "VARCHAR" and not name.endswith("_text") else _bare
        for name in names
    ]


def _bare(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _write(
    file: IO[bytes],
    titles: Iterable[str],
    rows: Iterable[Sequence[Sequence[Any]]],
    formatters: Sequence[Callable[[Any], str]],
) -> int:
    """Write a CSV header and its rows. Return the number of rows."""
    file.write((",".join(map(field, titles)) + "\r\n").encode())
    count = 0
    for batch in rows:
        columns = [
            ["" if value is None else to_text(value) for value in column]
            for to_text, column in zip(formatters, batch, strict=True)
        ]
        lines = [",".join(line) + "\r\n" for line in zip(*columns, strict=True)]
        file.write("".join(lines).encode())
        count += len(lines)
    return count
