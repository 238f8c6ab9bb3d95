"""Questions about a file whose header is not known: what its columns may be, by what is in them."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.profiles import profile_of
from warehouse.reconcile.ledger.header.titles import (
    fingerprint,
    letters,
    samples,
    titles_of,
)
from warehouse.reconcile.settings.shape import READ, UNUSED
from warehouse.reconcile.settings.toml_table import heading, quote, setting
from warehouse.reconcile.terms.dates import is_date
from warehouse.reconcile.terms.errors import CHOICE, Ambiguous, NotReconciled, choices
from warehouse.reconcile.terms.file_names import day_in, name_pattern
from warehouse.spreadsheet.reading.grid import HEAD, Grid
from warehouse.spreadsheet.reading.text import text_at

_TICKER = re.compile("[A-Z][A-Z0-9]{1,9}")
_NUMBER = re.compile(
    r"[(+\-\u2212]?[^\w\s(]{0,2}[0-9][0-9\s.,'\u2019]*(e[+-]?[0-9]+)?[\s)-]*", re.IGNORECASE
)
_SHOWN, _ROWS = 12, 200
_MOST = 0.5  # of the cells of a column that must be like the field it is taken for


@dataclass(frozen=True, slots=True, kw_only=True)
class _TitledColumn:
    """A column below a row of titles: its name in recon.toml, and what its title and cells say.

    `field` is the field that its title names, `second` the one that it may name if no other title
    does, and `names` is the field whose names its cells are.
    """

    name: str
    title: str
    field: str
    second: str
    names: str
    is_number: bool
    is_ticker: bool


def unknown_header(
    grids: Sequence[Grid], file: str, context: ReadingContext
) -> Ambiguous | NotReconciled:
    """Return the question about a file without a known header: its columns, with two values."""
    for grid in grids:
        if refusal := refusal_of(grid):
            line = f"[inbox]\n{setting(file, UNUSED)}"
            return Ambiguous(f"{file}: {refusal}, and take this file out of the inbox.", line)
        if grid.likely_starts:
            return _question_of_starts(grid, file)
        row = _likely_header(grid)
        if row is not None:
            return _question(grid, row, file, context)
    return NotReconciled(
        f"{file} holds no table: expected a row of headers, one of them the asset and one the "
        "amount, and rows below it. Nothing was reconciled. `nightbook reconcile init` writes a "
        "template. If it is no ledger, take it out of the inbox, or say in recon.toml under "
        f"[inbox] {setting(file, UNUSED)}"
    )


def refusal_of(grid: Grid) -> str:
    """Return why a sheet of a known export is no ledger; nothing where it is none of them."""
    profiles = (profile_of(titles_of(cells)) for cells in islice(grid.rows, HEAD))
    return next((profile.refusal for profile in profiles if profile and profile.refusal), "")


def _question_of_starts(grid: Grid, file: str) -> Ambiguous:
    starts = ", ".join(map(str, grid.likely_starts))
    return Ambiguous(
        f"{file} is a table in columns made of spaces, and some lines do not keep to the columns, "
        "or the columns could have other edges. With this setting, a column begins at each of "
        "these characters of a line, counted from 1. Each line with a word across an edge is "
        "rejected.",
        f"{heading('file', name_pattern(file))}\ncolumn_starts = [{starts}]",
    )


def _likely_header(grid: Grid) -> int | None:
    """Return the first of the rows with most titles, if it has two at least and a row below it."""
    titles = [
        sum(bool(title) and not _NUMBER.fullmatch(title) for title in titles_of(cells))
        for cells in islice(grid.rows, min(HEAD, len(grid.rows) - 1))
    ]
    most = max(titles, default=0)
    return titles.index(most) if most > 1 else None


def _question(grid: Grid, row: int, file: str, context: ReadingContext) -> Ambiguous:
    titles = titles_of(grid.rows[row])
    columns = [_column(grid, row, place, context) for place in range(len(titles))]
    table = heading("ledger", fingerprint(titles))
    shown = "; ".join(samples(grid, row, _SHOWN))
    words = (
        f"{file}: no row says which column is the asset and which the amount. Its columns and "
        f"their first values: {shown[:1500]}."
    )
    dimension = context.known.shared_dimension([title for title in titles if title])
    labels = [
        item for item in columns if item.is_number and context.known.has(dimension, item.title)
    ]
    if len(labels) > 1:
        words += f" The titles are names of a {dimension}, so that each column seems to be the "
        words += f"amounts of one {dimension}."
        return Ambiguous(
            words, _answer_of_pivot(columns, labels, dimension, table=table, file=file)
        )
    also = f" Columns that may be named besides: {', '.join(READ)}. If it is no ledger, say so "
    also += f"under [inbox] by {setting(file, UNUSED)} instead."
    return Ambiguous(words + also, _answer(columns, table, file))


def _answer_of_pivot(
    columns: Sequence[_TitledColumn],
    labels: Sequence[_TitledColumn],
    dimension: str,
    *,
    table: str,
    file: str,
) -> str:
    """Return the lines for a table in which each column has the amounts of one name."""
    lines = [heading("file", name_pattern(file)), setting("columns_are", dimension)]
    rest = [item for item in columns if item not in labels]
    # A venue may be called like the title of another field, and there may be other figures.
    if any(item.is_number for item in rest) or any(item.field or item.second for item in labels):
        lines.append(f"label_columns = [{', '.join(quote(item.title) for item in labels)}]")
    is_said = dimension == "asset" or any("asset" in (item.field, item.names) for item in rest)
    named = [] if is_said else _lines_of("asset", [item for item in rest if item.is_ticker])
    named += _named_by_cells(rest, dimension)
    return "\n".join([*lines, *([table, *named] if named else [])])


def _answer(columns: Sequence[_TitledColumn], table: str, file: str) -> str:
    """Return the lines that name the asset, the amount, and other columns by their cells."""
    assets = (
        [item for item in columns if item.field == "asset"]
        or [item for item in columns if item.names == "asset"]
        or [item for item in columns if item.is_ticker and not item.names]
    )
    amounts = [item for item in columns if item.field == "amount"] or [
        item for item in columns if item.is_number
    ]
    lines = [table, *_lines_of("asset", assets), *_lines_of("amount", amounts)]
    if assets and amounts:
        return "\n".join([*lines, *_named_by_cells(columns, "asset")])
    return "\n".join([*lines, choices("[inbox]", setting(file, UNUSED))])


def _lines_of(field: str, columns: Sequence[_TitledColumn]) -> list[str]:
    """Return the line that names the column of a field, or a choice of lines."""
    if len(columns) == 1:
        return [setting(field, columns[0].name)]
    return [f"{CHOICE}{setting(field, item.name)}" for item in columns] or [
        f'{CHOICE}{field} = "..."'
    ]


def _named_by_cells(columns: Sequence[_TitledColumn], taken: str) -> list[str]:
    """Return lines for columns with unknown titles whose cells are the names of a field."""
    said = {taken, *(item.field for item in columns)}
    named: dict[str, str] = {}
    for item in columns:
        if item.names and item.names not in said and not item.field:
            named.setdefault(item.names, item.name)
    return [setting(field, name) for field, name in named.items()]


def _column(grid: Grid, row: int, place: int, context: ReadingContext) -> _TitledColumn:
    title = titles_of(grid.rows[row])[place]
    rows = islice(grid.rows, row + 1, row + _ROWS)
    cells = [cell for below in rows if (cell := text_at(below, place))]
    names = Counter(context.known.dimension_of(cell) for cell in cells)
    dimension = max(names, key=lambda name: names[name], default="")
    words = context.words
    is_other = words.is_figure(title) or words.is_number(title)
    return _TitledColumn(
        name=title or letters(place),
        title=title,
        field=words.field_of(title),
        second=words.also_field_of(title),
        names=dimension if names[dimension] > _MOST * len(cells) else "",
        is_number=not is_other and _are_most(cells, _is_number),
        is_ticker=_are_most(cells, lambda cell: bool(_TICKER.fullmatch(cell))),
    )


def _are_most(cells: Sequence[str], is_like: Callable[[str], bool]) -> bool:
    return sum(map(is_like, cells)) > _MOST * len(cells)


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell)) and day_in(cell) is None and not is_date(cell)
