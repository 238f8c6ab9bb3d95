"""Tables that are staged for an export, and their CSV files."""

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

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters


BATCH = 1024  # rows: four times as many cost 25 MB and save nothing (measured)


def columns_of(source: OpenBook, exhibit: Exhibit) -> dict[str, str]:
    """Return the columns of an exhibit and their types, the portfolio's name first."""
    rows = source.connection.execute(f"describe {exhibit.staged_name}").fetchall()
    return {name: kind for name, kind, *_ in rows}


def meanings(exhibit: Exhibit) -> dict[str, str]:
    """Return the meaning of every column, as the view's own file says it."""
    view = next(view for view in views() if view.name == exhibit.view)
    return {
        SOURCE.name: SOURCE.meaning,
        PORTFOLIO_NAME: "The portfolio's name at that time, or its id where it has none.",
        **view.entries,
    }


def batches(
    source: OpenBook, exhibit: Exhibit, names: tuple[str, ...]
) -> Iterator[tuple[tuple[Any, ...], ...]]:
    """Yield some columns of an exhibit in its order, a batch of columns at a time.

    Decimals come as text in plain digits, since every reader of batches writes text.
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
    """Return the length of the longest text of each column of texts."""
    names = [name for name, kind in columns_of(source, exhibit).items() if kind == "VARCHAR"]
    columns = ", ".join(f"coalesce(max(length({quote_identifier(name)})), 0)" for name in names)
    row = source.connection.execute(f"select {columns} from {exhibit.staged_name}").fetchone()
    return dict(zip(names, row or (), strict=True))


def longest_whole(source: OpenBook, exhibit: Exhibit) -> dict[str, int]:
    """Return the most digits before the point of each column of amounts, up to 15."""
    names = [name for name in columns_of(source, exhibit) if name.endswith("_text")]
    columns = ", ".join(
        f"coalesce(max(least(15, coalesce(nullif(instr({name}, '.'), 0) - 1, strlen({name})))), 0)"
        for name in map(quote_identifier, names)
    )
    row = source.connection.execute(f"select {columns} from {exhibit.staged_name}").fetchone()
    return dict(zip(names, row or (), strict=True))


def count_rounded_rows(source: OpenBook, exhibit: Exhibit) -> int:
    """Return how many rows have an amount of more digits than a number keeps, counted by DuckDB."""
    names = [name for name in columns_of(source, exhibit) if name.endswith("_text")]
    tests = " or ".join(
        f"strlen({name}) > {LONGEST_NUMBER} or {is_rounded(name)}"
        for name in map(quote_identifier, names)
    )
    query = f"select count(*) from {exhibit.staged_name} where {tests}"
    row = source.connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def texts_over(source: OpenBook, exhibit: Exhibit, size: int) -> list[str]:
    """Return every text of an exhibit that is longer than so many bytes."""
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
# Spreadsheets run what looks like a formula, and people open a CSV file with whatever separator
# their program guesses: what begins a formula, with all the blanks before it.
_BLANK = "[\\s\x00-\x1f\x7f]"
_TRIGGER = re.compile(f"(?<!{_BLANK}){_BLANK}*[=+\\-@\uff1d\uff0b\uff0d\uff20\u2212]")
_SEPARATORS = ";,\t\r\n|\"'"
_HARMLESS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:/-]*)")


def harmless(text: str) -> str:
    """Return the text with an apostrophe before whatever a spreadsheet might take for a formula."""
    return text if _HARMLESS.fullmatch(text) else _TRIGGER.sub(_disarm, text)


def _disarm(match: re.Match[str]) -> str:
    """Put an apostrophe where a cell begins, or would with another separator."""
    letters = match[0]
    before = match.string[match.start() - 1] if match.start() else _SEPARATORS[0]
    return "".join(
        f"'{letter}" if previous in _SEPARATORS else letter
        for previous, letter in zip(before + letters, letters, strict=False)
    )


def field(text: str) -> str:
    """Return the text as a quoted field."""
    return '"' + text.replace('"', '""') + '"'


def for_people(source: OpenBook, exhibit: Exhibit, path: Path) -> int:
    """Write the file that people open; the date of the book is its first column."""
    kinds = columns_of(source, exhibit)
    # Of an amount people get the exact text, under the title of the amount.
    names = tuple(name for name in kinds if f"{name}_text" not in kinds)
    titles = [title(name.removesuffix("_text")) for name in names]
    renders = _renders(kinds, names, harmless)
    with written_aside(path) as file:
        file.write(BYTE_ORDER_MARK.encode())
        return _write(file, titles, batches(source, exhibit, names), renders)


def for_machines(source: OpenBook, exhibit: Exhibit, path: Path) -> int:
    """Write the file that machines read: the columns of the view under their own names."""
    kinds = columns_of(source, exhibit)
    names = tuple(name for name in kinds if name not in NAMES)
    with written_aside(path) as file:
        return _write(file, names, batches(source, exhibit, names), _renders(kinds, names, str))


def _renders(
    kinds: Mapping[str, str], names: Iterable[str], text: Callable[[str], str]
) -> list[Callable[[Any], str]]:
    """Return how each column is written: in digits, dates and flags nothing needs a quote."""

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
    renders: Sequence[Callable[[Any], str]],
) -> int:
    """Write a header and batches of columns; returns how many rows."""
    file.write((",".join(map(field, titles)) + "\r\n").encode())
    count = 0
    for batch in rows:
        columns = [
            ["" if value is None else render(value) for value in column]
            for render, column in zip(renders, batch, strict=True)
        ]
        lines = [",".join(line) + "\r\n" for line in zip(*columns, strict=True)]
        file.write("".join(lines).encode())
        count += len(lines)
    return count
