"""Find the header row, and which column is which field: by words, or by what was settled.

A ledger's shape is known by its headers, whatever their order: the first eight digits of their
digest name it in recon.toml.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from warehouse.reconcile.ledger.header.words import Words, words_of
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.shape import READ, Shape
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.terms.errors import Ambiguous, NotReconciled
from warehouse.spreadsheet.reading.delimited_text import Row
from warehouse.spreadsheet.reading.grid import HEAD, Grid
from warehouse.spreadsheet.reading.text import fold

REQUIRED = ("asset", "amount")
_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The row of the header, the shape it makes, and the column of each field, from 0."""

    row: int
    fingerprint: str
    titles: tuple[str, ...]
    columns: Mapping[str, int]
    shape: Shape
    words: Words


def fingerprint(titles: Sequence[str]) -> str:
    """Return the name of a shape: the same for the same headers in any order."""
    folded = sorted(fold(title) for title in titles if title)
    return hashlib.sha256("\x1f".join(folded).encode()).hexdigest()[:8]


def letters(place: int) -> str:
    """Return what a column without a title is called: `column C`."""
    name = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        name = chr(ord("A") + rest) + name
    return f"column {name}"


def count_fields(rows: Sequence[Row], own_words: str = "") -> int:
    """Return how many fields the best of these rows names, to compare readings of a file."""
    # A text file is tried with several letter sets and separators. That reading is right whose
    # header names most fields; one with both an asset and an amount beats any number of others.
    best = 0
    words = words_of(own_words)
    for row in rows[:HEAD]:
        fields = {words.field_of(text) or words.also_field_of(text) for text in _titles(row)} - {""}
        best = max(best, len(fields) + 10 * fields.issuperset(REQUIRED))
    return best


def _titles(row: Row) -> tuple[str, ...]:
    return tuple(" ".join(cell.split()) if isinstance(cell, str) else "" for cell in row)


def header(
    grid: Grid, config: Config, remembered: Mapping[str, Mapping[str, str]], file: str
) -> Header | None:
    """Return the header of a sheet, or None where no row can be one.

    Raises `Ambiguous` where two columns may be the same field, `NotReconciled` where a column that
    was settled is not there.
    """
    # The first row that names both an asset and an amount, by its words or by what was settled for
    # headers like these. Titles, blank lines and addresses above it name at most one of them.
    words = words_of(config.own_words)
    for row, cells in enumerate(grid.rows[:HEAD]):
        titles = _titles(cells)
        name = fingerprint(titles)
        shape = config.shapes.get(name, Shape())
        settled = dict(remembered.get(name, {})) | dict(shape.columns)
        fields = {words.field_of(title) or words.also_field_of(title) for title in titles}
        fields |= settled.keys()
        if fields.issuperset(REQUIRED):
            where = f"{file} {grid.sheet}".strip()
            return Header(
                row=row,
                fingerprint=name,
                titles=titles,
                columns=_columns(titles, words, settled, where, name),
                shape=shape,
                words=words,
            )
    return None


def _columns(
    titles: Sequence[str], words: Words, settled: Mapping[str, str], where: str, name: str
) -> dict[str, int]:
    columns: dict[str, int] = {}
    for field in READ:
        wanted = settled.get(field)
        if wanted == "":
            continue
        if wanted is None:
            # A second choice of words counts only where no column has one of the first.
            places = [
                place for place, title in enumerate(titles) if words.field_of(title) == field
            ] or [
                place for place, title in enumerate(titles) if words.also_field_of(title) == field
            ]
        else:
            places = [
                place
                for place, title in enumerate(titles)
                if fold(title or letters(place)) == fold(wanted)
            ]
            if not places:
                raise NotReconciled(
                    f"{where} has no column {wanted!r}, which was settled for {field}. Nothing was "
                    f'reconciled. Mend [ledger."{name}"] in recon.toml.'
                )
        if len(places) > 1:
            candidates = " and ".join(repr(titles[place]) for place in places)
            raise Ambiguous(
                f"{where}: the columns {candidates} may each be the {field}.",
                f'[ledger."{name}"]\n{setting(field, titles[places[0]])}',
            )
        if places:
            columns[field] = places[0]
    return columns


def question_of_columns(grids: Sequence[Grid], file: str) -> Ambiguous | NotReconciled:
    """Return the question about a file without a known header: its columns, with two values."""
    for grid in grids:
        for row, cells in enumerate(grid.rows[:HEAD]):
            titles = [title for title in _titles(cells) if title]
            if len(titles) > 1 and len(grid.rows) > row + 1:
                name = fingerprint(_titles(cells))
                samples = "; ".join(_samples(grid, row))
                lines = [f'[ledger."{name}"]'] + [f'{field} = "..."' for field in REQUIRED]
                return Ambiguous(
                    f"{file}: no row says which column is the asset and which the amount. Its "
                    f"columns and their first values: {samples[:1500]}. Columns that may be named "
                    f"besides: {', '.join(READ)}. If it is no ledger, say so under [inbox] by "
                    f"{setting(file, 'unused')} instead.",
                    "\n".join(lines),
                )
    return NotReconciled(
        f"{file} holds no table: expected a row of headers, one of them the asset and one the "
        "amount, and rows below it. Nothing was reconciled. `nightbook reconcile init` writes a "
        "template. If it is no ledger, take it out of the inbox, or say in recon.toml under "
        f"[inbox] {setting(file, 'unused')}"
    )


def _samples(grid: Grid, row: int) -> Iterator[str]:
    for place, title in list(enumerate(_titles(grid.rows[row])))[:_SHOWN]:
        below = [
            str(cells[place])[:30]
            for cells in grid.rows[row + 1 : row + 20]
            if len(cells) > place and cells[place] != ""
        ]
        if title:
            yield f"{title!r} ({', '.join(below[:2])})"
