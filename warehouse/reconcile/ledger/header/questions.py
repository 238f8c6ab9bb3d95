"""Questions about a file whose header is not known: what its columns may be, by what is in them."""

import re
from collections.abc import Sequence
from itertools import islice

from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.profiles import profile_of
from warehouse.reconcile.ledger.header.titles import (
    REQUIRED,
    fingerprint,
    letters,
    samples,
    titles_of,
)
from warehouse.reconcile.settings.shape import READ
from warehouse.reconcile.settings.toml_table import heading, setting
from warehouse.reconcile.terms.errors import Ambiguous, NotReconciled
from warehouse.reconcile.terms.file_names import day_in, name_pattern
from warehouse.spreadsheet.reading.grid import HEAD, Grid
from warehouse.spreadsheet.reading.text import text_at

_TICKER = re.compile("[A-Z][A-Z0-9]{1,9}")
_SHOWN, _ROWS = 12, 200


def unknown_header(
    grids: Sequence[Grid], file: str, context: ReadingContext
) -> Ambiguous | NotReconciled:
    """Return the question about a file without a known header: its columns, with two values."""
    for grid in grids:
        if refusal := refusal_of(grid):
            line = f"[inbox]\n{setting(file, 'unused')}"
            return Ambiguous(f"{file}: {refusal}, and take this file out of the inbox.", line)
        for row, cells in enumerate(islice(grid.rows, HEAD)):
            titles = [title for title in titles_of(cells) if title]
            if len(titles) > 1 and len(grid.rows) > row + 1:
                return _question(grid, row, file, context)
    return NotReconciled(
        f"{file} holds no table: expected a row of headers, one of them the asset and one the "
        "amount, and rows below it. Nothing was reconciled. `nightbook reconcile init` writes a "
        "template. If it is no ledger, take it out of the inbox, or say in recon.toml under "
        f"[inbox] {setting(file, 'unused')}"
    )


def refusal_of(grid: Grid) -> str:
    """Return why a sheet of a known export is no ledger; nothing where it is none of them."""
    profiles = (profile_of(titles_of(cells)) for cells in islice(grid.rows, HEAD))
    return next((profile.refusal for profile in profiles if profile and profile.refusal), "")


def _question(grid: Grid, row: int, file: str, context: ReadingContext) -> Ambiguous:
    titles = titles_of(grid.rows[row])
    shown = "; ".join(samples(grid, row, _SHOWN))
    dimension = context.known.shared_dimension([title for title in titles if title])
    words = (
        f"{file}: no row says which column is the asset and which the amount. Its columns and "
        f"their first values: {shown[:1500]}."
    )
    if dimension:
        return Ambiguous(
            f"{words} The titles are names of a {dimension}, so that each column seems to be the "
            f"amounts of one {dimension}.",
            f'{heading("file", name_pattern(file))}\ncolumns_are = "{dimension}"',
        )
    guesses = {name: _likely_column(grid, row, name, context) for name in REQUIRED}
    also = f" Columns that may be named besides: {', '.join(READ)}. If it is no ledger, say so "
    also += f"under [inbox] by {setting(file, 'unused')} instead."
    if not all(guesses.values()):
        return Ambiguous(words + also, f"[inbox]\n{setting(file, 'unused')}")
    lines = [heading("ledger", fingerprint(titles))]
    lines += [setting(name, title) for name, title in guesses.items()]
    return Ambiguous(words + also, "\n".join(lines))


def _likely_column(grid: Grid, row: int, field: str, context: ReadingContext) -> str:
    """Return the title of the column that is most like a field by what stands in it, or nothing."""
    best, title = 0.5, ""
    for place, text in enumerate(titles_of(grid.rows[row])):
        rows = islice(grid.rows, row + 1, row + _ROWS)
        filled = [cell for cells in rows if (cell := text_at(cells, place))]
        share = sum(_is_like(cell, field, context) for cell in filled) / (len(filled) or 1)
        if share > best:
            best, title = share, text or letters(place)
    return title


def _is_like(cell: str, field: str, context: ReadingContext) -> bool:
    if field == "asset":
        return context.known.has("asset", cell) or bool(_TICKER.fullmatch(cell))
    digits = sum(letter.isdigit() for letter in cell)
    return 2 * digits >= len(cell) and day_in(cell) is None
