"""The ledger template, and a sample ledger with planted errors for practice.

The template lists the book's keys with empty amounts, so that all names match. If a name does not
resolve to its key, for example because two portfolios share it, the template has the ID instead.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from warehouse.exact import EXACT, exact, plain
from warehouse.query.book import OpenBook
from warehouse.reconcile import book
from warehouse.reconcile.book import Names, Reference, in_name_cell
from warehouse.reconcile.model import Key
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.terms import DIMENSIONS, LEDGER_FIELDS, display_asset
from warehouse.reconcile.workbook.sheet import Heading, SheetWriter, help_lines
from warehouse.spreadsheet.writing.format import Draft, draft, print_set_up
from warehouse.spreadsheet.writing.layout import SheetColumnKind
from warehouse.spreadsheet.writing.splice import splice
from warehouse.storage.layout import written_aside

_AMOUNT = Heading("Amount", 26, "amount")
_HELP = help_lines("template_help.txt")

_HEADINGS = (
    Heading("Fund", 24),
    Heading("Custodian", 20),
    Heading("Wallet", 28),
    Heading("Ticker", 14),
    Heading("Quantity", 34, "exact"),
    Heading("Booked by", 12),
)

_SMALLEST = Decimal("0.000000000000000001")

# Plant errors only in longer amounts, because people overlook errors in short amounts.
_MIN_DIGITS = 6

Line = tuple[Key, str]
_Change = Callable[[Key, str, str], list[Line] | None]


@dataclass(frozen=True, slots=True)
class PlantedError:
    """A kind of planted error: a readable description, and how it changes a row.

    It occurs only in the ledgers of `nights`, which are counted from the first ledger.
    """

    description: str
    change: _Change
    nights: Collection[int] = (0,)


def write_template(source: OpenBook, path: Path) -> int:
    """Write the template, and return the number of keys."""
    keys = list(book.amounts_of(source.connection, source.day, LEDGER_FIELDS))
    rows = sorted(template_rows(keys, book.read_reference(source, Config())))
    file_draft = draft(title="Ledger", made_at=source.snapshot["finished_at"], about={})
    headings = [
        Heading(name.capitalize(), DIMENSIONS[name].template_width) for name in LEDGER_FIELDS
    ]
    sheet = SheetWriter(file_draft, "Ledger", [*headings, _AMOUNT])
    number = file_draft.formats.cells[SheetColumnKind.NUMBER]
    sheet.worksheet.set_column(len(headings), len(headings), _AMOUNT.width, number)
    sheet.table([[*row, None] for row in rows], "Ledger template")
    help_ = SheetWriter(file_draft, "Help", (Heading("How to fill in the ledger", 110),))
    help_.table([[text] for text in _HELP], "Ledger template", frozen=0)
    _save(file_draft, path)
    return len(rows)


def plant(source: OpenBook) -> dict[Key, PlantedError]:
    """Choose the first row in the book that is suitable for each kind of planted error."""
    before = book.amounts_before(source, LEDGER_FIELDS)
    kinds = list(_ERRORS)
    planted: dict[Key, PlantedError] = {}
    for key, text in _rows(source).items():
        then = before.get(key, text)
        kind = next((kind for kind in kinds if kind.change(key, text, then) is not None), None)
        if kind is not None:
            kinds.remove(kind)
            planted[key] = kind
    return planted


def write_sample(
    source: OpenBook, path: Path, planted: Mapping[Key, PlantedError], night: int = 0
) -> tuple[str, ...]:
    """Write a sample ledger for night number `night` (from 0), and return its planted errors.

    Each kind of error appears in the ledgers of certain nights: one persists, some are corrected,
    and some return.
    """
    before = book.amounts_before(source, LEDGER_FIELDS)
    lines: list[Line] = []
    errors: list[str] = []
    for key, text in _rows(source).items():
        kind = planted.get(key)
        wrong = None
        if kind and night in kind.nights:
            wrong = kind.change(key, text, before.get(key, text))
        lines += [(key, text)] if wrong is None else wrong
        if kind and wrong is not None:
            errors.append(f"{kind.description}: {display_asset(key[1])}, {key[3]}")
    _write_lines(source, path, lines)
    return tuple(errors)


def _save(file_draft: Draft, path: Path) -> None:
    file_draft.book.close()
    with written_aside(path) as file:
        splice(file_draft, file)


def template_rows(keys: Sequence[Key], reference: Reference) -> Iterator[Key]:
    """Yield the keys with display names, or with IDs for names that would resolve differently."""
    texts: list[dict[str, str]] = []
    for column, field in enumerate(LEDGER_FIELDS):
        names = Names(field, reference.names.get(field, {}), {})
        shown = reference.display_names.get(field, {})
        ids = {key[column] for key in keys}
        texts.append({id_: _name(field, id_, shown.get(id_, id_), names) for id_ in ids})
    for key in keys:
        yield tuple(names[id_] for names, id_ in zip(texts, key, strict=True))


def _name(field: str, id_: str, name: str, names: Names) -> str:
    if field == "account":
        return in_name_cell(id_)
    for text in (display_asset(name) if field == "asset" else name, id_):
        written = in_name_cell(text)
        if written.strip() and names.resolve(written).id == id_:
            return written
    return id_


def _write_lines(source: OpenBook, path: Path, lines: Sequence[Line]) -> None:
    names = book.read_reference(source, Config()).display_names
    file_draft = draft(title="Ledger", made_at=source.snapshot["finished_at"], about={})
    sheet = SheetWriter(file_draft, "Positions", _HEADINGS)
    sheet.title(f"Position ledger as of {source.day}")
    sheet.heads()
    rows = []
    for (portfolio, asset, venue, account), text in lines:
        fund = names["portfolio"].get(portfolio, portfolio)
        custodian = names["venue"].get(venue, venue)
        rows.append([fund, custodian, account, display_asset(asset), text, "ops"])
    sheet.rows(rows)
    sheet.add("Total", None, None, None, f"{len(lines)} lines")
    print_set_up(sheet.worksheet, footer="Position ledger")
    _save(file_draft, path)


def _rows(source: OpenBook) -> dict[Key, str]:
    return dict(sorted(book.amounts_of(source.connection, source.day, LEDGER_FIELDS).items()))


def _if_large(change: Callable[[Key, str], list[Line]]) -> _Change:
    """Return a change that applies only to large amounts, so that people notice the error."""

    def error(key: Key, text: str, _then: str) -> list[Line] | None:
        is_large = len(text) > _MIN_DIGITS and text[0] not in "-0"
        return change(key, text) if is_large else None

    return error


def _day_before(key: Key, text: str, then: str) -> list[Line] | None:
    return [(key, then)] if then != text and len(text) > _MIN_DIGITS else None


def _smallest(key: Key, text: str, _then: str) -> list[Line] | None:
    has_decimals = len(text.partition(".")[2]) >= _MIN_DIGITS
    return [(key, plain(EXACT.add(exact(text), _SMALLEST)))] if has_decimals else None


def _transposed_digits(key: Key, text: str, then: str) -> list[Line] | None:
    if text[0] == text[1:2] or "." in text[:2] or text[1:2] == "0":
        return None
    return _if_large(lambda key, text: [(key, f"{text[1]}{text[0]}{text[2:]}")])(key, text, then)


_ERRORS = (
    PlantedError("has the amount of the day before", _day_before),
    PlantedError("is 0.000000000000000001 off", _smallest, range(4)),
    PlantedError(
        "has the wrong sign", _if_large(lambda key, text: [(key, f"-{text}")]), range(1000)
    ),
    PlantedError(
        "is in the ledger twice", _if_large(lambda key, text: [(key, text)] * 2), (0, 1, 4, 5, 6)
    ),
    PlantedError("has two digits transposed", _transposed_digits),
    PlantedError(
        "is a thousand times too large",
        _if_large(lambda key, text: [(key, plain(exact(text).scaleb(3, EXACT)))]),
        (0, 2, 3),
    ),
    PlantedError("is missing", _if_large(lambda _key, _text: []), range(3)),
    PlantedError(
        "has a different account name",
        _if_large(lambda key, text: [((*key[:3], f"{key[3]} (old)"), text)]),
        range(2),
    ),
    PlantedError("cannot be read", _if_large(lambda key, _text: [(key, "#N/A")])),
)
