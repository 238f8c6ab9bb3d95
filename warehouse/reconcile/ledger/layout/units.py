"""Amounts in thousands, or in wei: the unit that a title or recon.toml says."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import islice

from warehouse.exact import plain
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.ledger.unread import LedgerBody
from warehouse.reconcile.settings.shape import UNITS
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.terms.errors import Ambiguous, choices
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import as_text

_CENTS = Decimal("0.01")
_BELOW = 20  # rows at the end of a sheet that may be notes


def unit_of(grid: Grid, body: LedgerBody, place: str) -> tuple[Decimal, list[Notice]]:
    """Return by what the amounts of a sheet are multiplied, and what to say of it.

    Raises `Ambiguous` if a title says the smallest unit of one asset, and the sheet has several.
    """
    head = body.head
    unit, source = _stated_unit(grid, body)
    if head.shape.unit is None and 0 < unit < 1:
        _ask_for_unit(body, unit, source, place)
    return unit, [] if unit == 1 else [_notice(unit, source, head, place)]


def _stated_unit(grid: Grid, body: LedgerBody) -> tuple[Decimal, str]:
    """Return a unit and what says it."""
    head = body.head
    if head.shape.unit is not None:
        return head.shape.unit, "recon.toml"
    titles = [head.titles[at] for at in head.amount_places]
    above = [as_text(cell) for row in islice(grid.rows, head.row) for cell in row]
    for text in (*titles, *above, *_notes_below(grid, body)):
        if word := head.words.unit_of(text):
            return UNITS[word], repr(text[:60])
    for title in titles:
        if factor := head.words.native_factor(title):
            return Decimal(factor), repr(title[:60])
    return Decimal(1), ""


def _notes_below(grid: Grid, body: LedgerBody) -> Iterator[str]:
    """Yield the texts at the end of a sheet that are alone in their rows and name nothing."""
    for row in range(max(body.head.body, len(grid.rows) - _BELOW), len(grid.rows)):
        texts = [text for cell in grid.rows[row] if (text := as_text(cell).strip())]
        if len(texts) == 1 and not body.known.dimension_of(texts[0]):
            yield texts[0]


def _ask_for_unit(body: LedgerBody, unit: Decimal, source: str, place: str) -> None:
    head = body.head
    at = head.columns.get("asset")
    assets = [asset for asset in body.counts(at)[0] if asset] if at is not None else []
    is_cents = unit == _CENTS and all(map(head.words.is_currency, assets))
    if len(assets) > 1 and not is_cents:
        raise Ambiguous(
            f"{place}: {source} says the smallest unit of one asset, and the amounts are of "
            f"several ({', '.join(assets[:4])}).",
            choices(head.table, setting("unit", plain(unit)), setting("unit", "one")),
        )


def _notice(unit: Decimal, source: str, head: Header, place: str) -> Notice:
    return Notice(
        "medium",
        f"each amount was multiplied by {unit:,f}, as {source} says; where that is wrong, write "
        f"{setting('unit', 'one')} under {head.table} in recon.toml",
        place,
    )
