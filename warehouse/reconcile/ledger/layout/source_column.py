"""The column of a firm's ledger that says whose a row is, read together with the portfolio's.

Two organisations may call a portfolio alike, so a firm's portfolios are told as
`organisation / portfolio`. A ledger that has the two in columns of their own is read as if it said
so in one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.words import Words
from warehouse.reconcile.terms.dimensions import of_source
from warehouse.reconcile.terms.errors import NotReconciled
from warehouse.spreadsheet.reading.grid import HEAD, Grid, OpenedFile
from warehouse.spreadsheet.reading.text import as_text, fold

TITLES = {
    *("source", "organisation", "organization", "entity", "company", "firm", "client", "customer"),
    *("legal entity", "legal unit", "business unit", "entity name", "source name"),
    *("mandant", "gesellschaft", "société", "entité", "sociedad", "entidad", "società", "entità"),
}


def with_sources(file: OpenedFile, context: ReadingContext) -> OpenedFile:
    """Return a file whose portfolios are told with their organisation, where a column says it.

    Raises `NotReconciled` where a sheet has such a column and none of portfolios.
    """
    if not context.sources:
        return file
    names: dict[str, str] = {fold(name): name for name in context.sources}
    grids = (_joined_grid(grid, names, context.words, file.path.name) for grid in file.grids)
    return replace(file, grids=tuple(grids))


def _joined_grid(grid: Grid, names: Mapping[str, str], words: Words, file: str) -> Grid:
    for number, row in enumerate(grid.rows[:HEAD]):
        titles = [as_text(cell) for cell in row]
        places = [place for place, title in enumerate(titles) if fold(title) in TITLES]
        places = [place for place in places if _has_source(grid.rows[number + 1 :], place, names)]
        portfolios = [place for place, title in enumerate(titles) if _is_portfolio(title, words)]
        if len(places) != 1:
            continue
        if not portfolios:
            raise NotReconciled(
                f"{file} {grid.sheet}".strip() + f" has the column {titles[places[0]]!r} for the "
                "organisations and none for their portfolios. Nothing was reconciled. A firm's "
                "ledger says both: add a column Portfolio."
            )
        rows = [
            _joined_row(below_row, places[0], portfolios[0], names) if below > number else below_row
            for below, below_row in enumerate(grid.rows)
        ]
        rows[number] = _with(row, {places[0]: ""})
        return replace(grid, rows=rows)
    return grid


def _is_portfolio(title: str, words: Words) -> bool:
    return words.field_of(title) == "portfolio"


def _has_source(rows: Sequence[Sequence[object]], place: int, names: Collection[str]) -> bool:
    """Return whether some cell of a column is the name of an organisation."""
    return any(len(row) > place and fold(as_text(row[place])) in names for row in rows)


def _joined_row(
    row: Sequence[object], place: int, portfolio: int, names: Mapping[str, str]
) -> Sequence[object]:
    """Return a row whose portfolio has its organisation before it; a row without one is kept."""
    if len(row) <= max(place, portfolio):
        return row
    source, name = as_text(row[place]), as_text(row[portfolio])
    if not source.strip() or not name.strip():
        return row
    joined = of_source(names.get(fold(source), source.strip()), name)
    return _with(row, {place: "", portfolio: joined})


def _with(row: Sequence[object], cells: Mapping[int, object]) -> Sequence[object]:
    return tuple(cells.get(place, cell) for place, cell in enumerate(row))
