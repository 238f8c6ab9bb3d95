"""A ledger to rehearse with: the newest book as somebody might have kept it, errors planted.

It has what ledgers have: a title, a total line, a column of its own, an error cell. What is planted
is known, so that a reader can see whether each break was found.
"""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from warehouse.exact import EXACT, exact, plain
from warehouse.query.book import OpenBook
from warehouse.reconcile import dimensions
from warehouse.reconcile.breaks import assemble
from warehouse.reconcile.dimensions import LEDGER_FIELDS
from warehouse.reconcile.matching import snapshot
from warehouse.reconcile.matching.snapshot import columns
from warehouse.reconcile.workbook.sheet import Heading, SheetWriter
from warehouse.spreadsheet.writing.format import draft, print_set_up
from warehouse.storage.layout import written_aside

_HEADINGS = (
    Heading("Fund", 24),
    Heading("Custodian", 20),
    Heading("Wallet", 28),
    Heading("Ticker", 14),
    Heading("Quantity", 34, "exact"),
    Heading("Booked by", 12),
)
_SMALLEST = Decimal("0.000000000000000001")
_LEAST_DIGITS = 6
Line = tuple[tuple[str, ...], str]


def write(source: OpenBook, path: Path) -> tuple[str, ...]:
    """Write the ledger; what was planted comes back, a sentence each."""
    rows = _rows(source)
    planted: list[str] = []
    lines = list(_with_errors(rows, assemble.book_before(source, LEDGER_FIELDS), planted))
    names = snapshot.read_reference(source, 0).shown
    made = draft(title="Ledger", made_at=source.snapshot["finished_at"], about={})
    on = SheetWriter(made, "Positions", _HEADINGS)
    on.title(f"Position ledger as of {source.day}")
    on.heads()
    for key, text in lines:
        portfolio, asset, venue, account = key
        fund = names["portfolio"].get(portfolio, portfolio)
        at = names["venue"].get(venue, venue)
        on.line([fund, at, account, dimensions.display_asset(asset), text, "ops"])
    on.text(0, "Total")
    on.text(4, f"{len(lines)} lines")
    print_set_up(on.sheet, footer="Position ledger")
    made.book.close()
    with written_aside(path) as file:
        file.write(made.file.getvalue())
    return tuple(planted)


def _rows(source: OpenBook) -> dict[tuple[str, ...], str]:
    snapshot.side(source, LEDGER_FIELDS)
    found = source.connection.execute(
        f"select {columns(LEDGER_FIELDS)}, amount from book_side order by all"  # noqa: S608 - names are ours
    ).fetchall()
    return {row[:-1]: row[-1] for row in found}


def _with_errors(
    rows: dict[tuple[str, ...], str], before: dict[tuple[str, ...], str], planted: list[str]
) -> Iterator[Line]:
    """Every row as it is but for some: each kind of error takes the next row that can have it."""
    kinds = [*_KINDS]
    for key, text in rows.items():
        made = next(
            (
                (kind, lines)
                for kind in kinds
                if (lines := _KINDS[kind](key, text, before.get(key, text))) is not None
            ),
            None,
        )
        if made is None:
            yield key, text
            continue
        kind, lines = made
        kinds.remove(kind)
        planted.append(f"{kind}: {dimensions.display_asset(key[1])}, {key[3]}")
        yield from lines


def _behind(key: tuple[str, ...], text: str, then: str) -> list[Line] | None:
    return [(key, then)] if then != text and len(text) > _LEAST_DIGITS else None


def _smallest(key: tuple[str, ...], text: str, then: str) -> list[Line] | None:
    del then
    if len(text.partition(".")[2]) < _LEAST_DIGITS:
        return None
    return [(key, plain(EXACT.add(exact(text), _SMALLEST)))]


def _flip_sign(key: tuple[str, ...], text: str, then: str) -> list[Line] | None:
    del then
    return [(key, f"-{text}")] if _is_sizeable(text) else None


def _twice(key: tuple[str, ...], text: str, then: str) -> list[Line] | None:
    del then
    return [(key, text), (key, text)] if _is_sizeable(text) else None


def _transpose_digits(key: tuple[str, ...], text: str, then: str) -> list[Line] | None:
    del then
    if not _is_sizeable(text) or text[0] == text[1] or "." in text[:2] or text[1] == "0":
        return None
    return [(key, f"{text[1]}{text[0]}{text[2:]}")]


def _unit(key: tuple[str, ...], text: str, then: str) -> list[Line] | None:
    del then
    return [(key, plain(exact(text).scaleb(3, EXACT)))] if _is_sizeable(text) else None


def _missing(key: tuple[str, ...], text: str, then: str) -> list[Line] | None:
    del key, then
    return [] if _is_sizeable(text) else None


def _rename_account(key: tuple[str, ...], text: str, then: str) -> list[Line] | None:
    del then
    return [((*key[:3], f"{key[3]} (old)"), text)] if _is_sizeable(text) else None


def _unreadable(key: tuple[str, ...], text: str, then: str) -> list[Line] | None:
    del then
    return [(key, "#N/A")] if _is_sizeable(text) else None


def _is_sizeable(text: str) -> bool:
    return len(text) > _LEAST_DIGITS and text[0] not in "-0"


_KINDS = {
    "has the amount of the day before": _behind,
    "is 0.000000000000000001 off": _smallest,
    "has the wrong sign": _flip_sign,
    "stands there twice": _twice,
    "has two digits transposed": _transpose_digits,
    "is in thousandths": _unit,
    "is missing": _missing,
    "stands under another account name": _rename_account,
    "cannot be read": _unreadable,
}
