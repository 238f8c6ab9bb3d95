"""Amounts in thousands: what a title says of them, or recon.toml."""

from decimal import Decimal
from itertools import islice

from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.settings.shape import UNITS
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import as_text


def unit_of(grid: Grid, head: Header, place: str) -> tuple[Decimal, list[Notice]]:
    """Return by what the amounts of a sheet are multiplied, and what to say of it."""
    unit, source = _stated_unit(grid, head)
    return unit, [] if unit == 1 else [_notice(unit, source, head, place)]


def _stated_unit(grid: Grid, head: Header) -> tuple[Decimal, str]:
    """Return a unit and what says it."""
    if head.shape.unit is not None:
        return head.shape.unit, "recon.toml"
    titles = [head.titles[at] for at in head.amount_places]
    above = [as_text(cell) for row in islice(grid.rows, head.row) for cell in row]
    for text in (*titles, *above):
        if word := head.words.unit_of(text):
            return UNITS[word], repr(text[:60])
    return Decimal(1), ""


def _notice(unit: Decimal, source: str, head: Header, place: str) -> Notice:
    return Notice(
        "medium",
        f"each amount was multiplied by {unit:,}, as {source} says; where that is wrong, write "
        f"{setting('unit', 'one')} under {head.table} in recon.toml",
        place,
    )
