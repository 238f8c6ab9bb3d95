"""The unit of a sheet's amounts, as stated in recon.toml or in the sheet."""

from collections.abc import Iterator
from decimal import Decimal
from itertools import islice

from warehouse.exact import plain
from warehouse.reconcile.ledger.columns import LedgerBody
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.model import Notice
from warehouse.reconcile.settings.layout import UNITS
from warehouse.reconcile.settings.toml import setting
from warehouse.reconcile.terms import Ambiguous, choices
from warehouse.spreadsheet.reading.text import as_text

_CENTS = Decimal("0.01")
_BELOW = 20  # number of rows to search for notes at the end of a sheet


def unit_of(body: LedgerBody) -> tuple[Decimal, list[Notice]]:
    """Return the factor by which a sheet's amounts are multiplied, and notices about the factor.

    Raises `Ambiguous` if a title specifies the smallest unit of one asset, but the sheet contains
    several assets.
    """
    head = body.head
    unit, source = _stated_unit(body)
    if head.shape.unit is None and 0 < unit < 1:
        _ask_for_unit(body, unit, source)
    return unit, [] if unit == 1 else [_notice(unit, source, head)]


def _stated_unit(body: LedgerBody) -> tuple[Decimal, str]:
    """Return a sheet's unit and where it was found: recon.toml or a string in the sheet."""
    head = body.head
    if head.shape.unit is not None:
        return head.shape.unit, "recon.toml"
    titles = [head.titles[at] for at in head.amount_columns]
    above = [as_text(cell) for row in islice(head.grid.rows, head.row) for cell in row]
    for text in (*titles, *above, *_notes_below(body)):
        if word := head.words.unit_of(text):
            return UNITS[word], repr(text[:60])
    for title in titles:
        if factor := head.words.native_factor(title):
            return Decimal(factor), repr(title[:60])
    return Decimal(1), ""


def _notes_below(body: LedgerBody) -> Iterator[str]:
    """Yield likely notes at the end of a sheet: rows with a single string that is not a name."""
    rows = body.head.grid.rows
    for row in range(max(body.head.body, len(rows) - _BELOW), len(rows)):
        texts = [text for cell in rows[row] if (text := as_text(cell).strip())]
        if len(texts) == 1 and not body.known_names.dimension_of(texts[0]):
            yield texts[0]


def _ask_for_unit(body: LedgerBody, unit: Decimal, source: str) -> None:
    head = body.head
    at = head.columns.get("asset")
    assets = [asset for asset in body.counts(at)[0] if asset] if at is not None else []
    is_cents = unit == _CENTS and all(head.words.is_cell(asset, "currency") for asset in assets)
    if len(assets) > 1 and not is_cents:
        raise Ambiguous(
            f"{head.place}: {source} gives the smallest unit of one asset, but the ledger has "
            f"several assets ({', '.join(assets[:4])}).",
            choices(head.table, setting("unit", plain(unit)), setting("unit", "one")),
        )


def _notice(unit: Decimal, source: str, head: Header) -> Notice:
    return Notice(
        "medium",
        f"each amount was multiplied by {unit:,f}, as specified by {source}. If that is wrong, add "
        f"{setting('unit', 'one')} under {head.table} to recon.toml",
        head.place,
    )
