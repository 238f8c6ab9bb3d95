"""Two CSV files of a table: one for people, one for machines, never one for both.

For people: a byte order mark, titles, amounts in exact digits, and every text made harmless, since
spreadsheets run what looks like a formula. For machines: RFC 4180, every column of the view, every
text as it is; NULL is nothing, an empty text is `""`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from warehouse.export.staged_tables import batches, columns_of
from warehouse.query.book import NAMES, Exhibit, OpenBook
from warehouse.spreadsheet.writing.layout import title
from warehouse.storage.layout import written_aside

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
