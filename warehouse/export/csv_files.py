"""Two CSV files of a table: one for people, one for machines, never one for both.

For people: a byte order mark, titles, amounts in exact digits, and every text made harmless, since
spreadsheets run what looks like a formula. For machines: RFC 4180, every column of the view, every
text as it is; NULL is nothing, an empty text is `""`.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from warehouse.export.staged_tables import batches, columns_of
from warehouse.query.book import PORTFOLIO_NAME, Exhibit, OpenBook
from warehouse.spreadsheet.writing.layout import title
from warehouse.storage.layout import written_aside

BYTE_ORDER_MARK = "\ufeff"
# Spreadsheets run what looks like a formula, and people open a CSV file with whatever separator
# their program guesses.
# What begins a formula, at the start of a cell or of what another separator would make a cell.
_TRIGGER = re.compile(
    "(?:^|(?<=[;,\t\r\n|\"']))(?=[\\s\x00-\x1f\x7f]*[=+\\-@\uff1d\uff0b\uff0d\uff20\u2212])"
)
_HARMLESS = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 ._:/-]*)")
Render = Callable[[Sequence[Any]], list[str]]


def harmless(text: str) -> str:
    """Return the text with an apostrophe before whatever a spreadsheet might take for a formula."""
    return text if _HARMLESS.fullmatch(text) else _TRIGGER.sub("'", text)


def field(text: str) -> str:
    """Return the text as a quoted field."""
    return '"' + text.replace('"', '""') + '"'


def for_people(source: OpenBook, exhibit: Exhibit, path: Path) -> int:
    """Write the file that people open; the date of the book is its first column."""
    kinds = columns_of(source, exhibit)
    shown = tuple(name for name in kinds if f"{name}_text" not in kinds)
    titles = [title(name.removesuffix("_text")) for name in shown]
    renders = [_for_people(name, kinds[name]) for name in shown]
    return _write(source, exhibit, path, (BYTE_ORDER_MARK, titles, shown, renders))


def _for_people(name: str, kind: str) -> Render:
    if kind != "VARCHAR" or name.endswith("_text"):
        return _bare
    return lambda values: ["" if value is None else field(harmless(value)) for value in values]


def for_machines(source: OpenBook, exhibit: Exhibit, path: Path) -> int:
    """Write the file that machines read: the columns of the view under their own names."""
    kinds = columns_of(source, exhibit)
    shown = tuple(name for name in kinds if name != PORTFOLIO_NAME)
    renders = [
        _quote if kinds[name] == "VARCHAR" and not _is_exact(name) else _bare for name in shown
    ]
    return _write(source, exhibit, path, ("", list(shown), shown, renders))


def _is_exact(name: str) -> bool:
    return name.endswith("_text")


def _quote(values: Sequence[Any]) -> list[str]:
    return ["" if value is None else field(value) for value in values]


def _bare(values: Sequence[Any]) -> list[str]:
    """Write digits, dates and flags, in which nothing needs a quote."""
    return ["" if value is None else _word(value) for value in values]


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _write(
    source: OpenBook,
    exhibit: Exhibit,
    path: Path,
    form: tuple[str, Iterable[str], tuple[str, ...], Sequence[Render]],
) -> int:
    mark, titles, shown, renders = form
    rows = 0
    with written_aside(path) as file:
        file.write((mark + ",".join(map(field, titles)) + "\r\n").encode())
        for batch in batches(source, exhibit, shown):
            columns = [render(column) for render, column in zip(renders, batch, strict=True)]
            lines = [",".join(line) + "\r\n" for line in zip(*columns, strict=True)]
            file.write("".join(lines).encode())
            rows += len(lines)
    return rows
