"""The ledger template: today's keys with an empty amount beside each, so that names match.

Every name is written so that reading it back finds its key: one that two portfolios share, or that
means something else, gives way to the id.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from pathlib import Path

from warehouse.exact import EXACT, exact, plain
from warehouse.query.book import OpenBook
from warehouse.reconcile import book
from warehouse.reconcile.book import Names, Reference, in_name_cell
from warehouse.reconcile.terms import DIMENSIONS, LEDGER_FIELDS, display_asset
from warehouse.reconcile.workbook.sheet import Heading, SheetWriter
from warehouse.spreadsheet.writing.format import draft, print_set_up
from warehouse.spreadsheet.writing.layout import SheetColumnKind
from warehouse.storage.layout import written_aside

_AMOUNT = Heading("Amount", 26, "amount")

_PLACE = len(LEDGER_FIELDS)

_HELP = """
Write what your ledger holds beside each key, as a number or as a text; add rows for what the book \
does not have; columns of your own may stand beside these.
A number cell keeps 15 digits. An amount with more of them matches as "Ledger precision", which is \
no break; written as text (with an apostrophe before it) all its digits are compared.
A blank amount is not a zero: its row is rejected, unless recon.toml says blank = "skip". Write 0 \
for nothing, or delete the row: a key that is nowhere in the ledger and 0 in the book is matched.
Save it under any name into the folder inbox beside recon.toml, as xlsx, ods or CSV; a date in the \
name, like ledger-2026-11-20.xlsx, says which day it is for. Then: nightbook reconcile run
""".strip().splitlines()


def write_template(source: OpenBook, path: Path) -> int:
    """Write the template; returns how many keys it has."""
    keys = list(book.amounts_of(source.connection, source.day, LEDGER_FIELDS))
    rows = sorted(_template_rows(keys, book.read_reference(source, 0)))
    file_draft = draft(title="Ledger", made_at=source.snapshot["finished_at"], about={})
    headings = [
        Heading(name.capitalize(), DIMENSIONS[name].template_width) for name in LEDGER_FIELDS
    ]
    sheet = SheetWriter(file_draft, "Ledger", [*headings, _AMOUNT])
    sheet.worksheet.set_column(
        _PLACE, _PLACE, _AMOUNT.width, file_draft.formats.cells[SheetColumnKind.NUMBER]
    )
    sheet.table([[*row, None] for row in rows], "Ledger template")
    help_ = SheetWriter(file_draft, "Help", (Heading("How to fill in the ledger", 110),))
    help_.table([[text] for text in _HELP], "Ledger template", frozen=0)
    file_draft.book.close()
    with written_aside(path) as file:
        file.write(file_draft.file.getvalue())
    return len(rows)


def _template_rows(
    keys: Sequence[tuple[str, ...]], reference: Reference
) -> Iterator[tuple[str, ...]]:
    """Yield the keys as they are written: the name that people use, where it is found again."""
    words: list[dict[str, str]] = []
    for place, field in enumerate(LEDGER_FIELDS):
        names = Names(field, reference.names.get(field, {}), {})
        ids = {key[place] for key in keys}
        names_of = reference.display_names.get(field, {})
        words.append({id_: _word(field, id_, names_of.get(id_, id_), names) for id_ in ids})
    for key in keys:
        yield tuple(names[id_] for names, id_ in zip(words, key, strict=True))


def _word(field: str, id_: str, name: str, names: Names) -> str:
    if field == "account":
        return in_name_cell(id_)
    # The name that people use if it leads back to this id alone, else the id itself.
    for word in (display_asset(name) if field == "asset" else name, id_):
        written = in_name_cell(word)
        if written.strip() and names.resolve(written).id == id_:
            return written
    return id_


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

Key = tuple[str, ...]

Line = tuple[Key, str]

_Change = Callable[[Key, str, str], list[Line] | None]


class PlantedError(Enum):
    """A kind of planted error, with what a reader is told about it."""

    DAY_BEFORE = "has the amount of the day before"
    SMALLEST = "is 0.000000000000000001 off"
    SIGN = "has the wrong sign"
    TWICE = "is there twice"
    TRANSPOSED = "has two digits transposed"
    UNIT = "is a thousand times too large"
    MISSING = "is missing"
    ACCOUNT = "has another account name"
    UNREADABLE = "cannot be read"


def plant(source: OpenBook) -> dict[Key, PlantedError]:
    """Return the rows of a book in which each kind of error is, the first that can have it."""
    before = book.amounts_before(source, LEDGER_FIELDS)
    kinds = dict(_ERRORS)
    planted: dict[Key, PlantedError] = {}
    for key, text in _rows(source).items():
        kind = next((k for k, error in kinds.items() if _has(error, key, text, before)), None)
        if kind is not None:
            del kinds[kind]
            planted[key] = kind
    return planted


def write_sample(
    source: OpenBook, path: Path, planted: Mapping[Key, PlantedError], night: int = 0
) -> tuple[str, ...]:
    """Write the ledger of a book, so many nights after the first one; return what is wrong in it.

    Each error lasts for some nights: one stays, some are mended, and some come back.
    """
    before = book.amounts_before(source, LEDGER_FIELDS)
    lines: list[Line] = []
    errors: list[str] = []
    for key, text in _rows(source).items():
        kind = planted.get(key)
        error = _ERRORS[kind] if kind and night in _NIGHTS.get(kind, _FIRST) else None
        wrong = error(key, text, before.get(key, text)) if error else None
        lines += [(key, text)] if wrong is None else wrong
        if kind and wrong is not None:
            errors.append(f"{kind.value}: {display_asset(key[1])}, {key[3]}")
    _write_lines(source, path, lines)
    return tuple(errors)


def _has(error: _Change, key: Key, text: str, before: Mapping[Key, str]) -> bool:
    return error(key, text, before.get(key, text)) is not None


def _write_lines(source: OpenBook, path: Path, lines: Sequence[Line]) -> None:
    names = book.read_reference(source, 0).display_names
    file_draft = draft(title="Ledger", made_at=source.snapshot["finished_at"], about={})
    sheet = SheetWriter(file_draft, "Positions", _HEADINGS)
    sheet.title(f"Position ledger as of {source.day}")
    sheet.heads()
    for key, text in lines:
        portfolio, asset, venue, account = key
        fund = names["portfolio"].get(portfolio, portfolio)
        at = names["venue"].get(venue, venue)
        sheet.line([fund, at, account, display_asset(asset), text, "ops"])
    sheet.text(0, "Total")
    sheet.text(4, f"{len(lines)} lines")
    print_set_up(sheet.worksheet, footer="Position ledger")
    file_draft.book.close()
    with written_aside(path) as file:
        file.write(file_draft.file.getvalue())


def _rows(source: OpenBook) -> dict[Key, str]:
    return dict(sorted(book.amounts_of(source.connection, source.day, LEDGER_FIELDS).items()))


def _on_sizeable(change: Callable[[Key, str], list[Line]]) -> _Change:
    """Return an error for amounts that are large enough for it to be seen."""

    def error(key: Key, text: str, then: str) -> list[Line] | None:
        del then
        is_sizeable = len(text) > _LEAST_DIGITS and text[0] not in "-0"
        return change(key, text) if is_sizeable else None

    return error


def _day_before(key: Key, text: str, then: str) -> list[Line] | None:
    return [(key, then)] if then != text and len(text) > _LEAST_DIGITS else None


def _smallest(key: Key, text: str, then: str) -> list[Line] | None:
    del then
    has_decimals = len(text.partition(".")[2]) >= _LEAST_DIGITS
    return [(key, plain(EXACT.add(exact(text), _SMALLEST)))] if has_decimals else None


def _transposed_digits(key: Key, text: str, then: str) -> list[Line] | None:
    if text[0] == text[1:2] or "." in text[:2] or text[1:2] == "0":
        return None
    return _on_sizeable(lambda key, text: [(key, f"{text[1]}{text[0]}{text[2:]}")])(key, text, then)


_ERRORS: dict[PlantedError, _Change] = {
    PlantedError.DAY_BEFORE: _day_before,
    PlantedError.SMALLEST: _smallest,
    PlantedError.SIGN: _on_sizeable(lambda key, text: [(key, f"-{text}")]),
    PlantedError.TWICE: _on_sizeable(lambda key, text: [(key, text), (key, text)]),
    PlantedError.TRANSPOSED: _transposed_digits,
    PlantedError.UNIT: _on_sizeable(lambda key, text: [(key, plain(exact(text).scaleb(3, EXACT)))]),
    PlantedError.MISSING: _on_sizeable(lambda _key, _text: []),
    PlantedError.ACCOUNT: _on_sizeable(lambda key, text: [((*key[:3], f"{key[3]} (old)"), text)]),
    PlantedError.UNREADABLE: _on_sizeable(lambda key, _text: [(key, "#N/A")]),
}

# The nights, counted from the first ledger, in which an error is: the others are in the first only.
_FIRST = frozenset((0,))

_NIGHTS: dict[PlantedError, Collection[int]] = {
    PlantedError.SIGN: range(1000),
    PlantedError.SMALLEST: range(4),
    PlantedError.MISSING: range(3),
    PlantedError.TWICE: (0, 1, 4, 5, 6),
    PlantedError.UNIT: (0, 2, 3),
    PlantedError.ACCOUNT: range(2),
}
