"""What of a ledger's file is not used: tabs, columns and rows, each with its reason or a question.

What is left out may make the comparison coarser, or hold amounts of its own: then it is a question
and not a remark. Whoever answers it is not asked again.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice

import pyarrow.compute as pc

from warehouse.contract.wording import count_of
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.ledger.header.words import Words
from warehouse.reconcile.ledger.model import FilePart, Unused
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.terms.dates import is_date
from warehouse.reconcile.terms.dimensions import FIELDS, LEDGER_FIELDS
from warehouse.reconcile.terms.errors import Ambiguous
from warehouse.spreadsheet.reading.delimited_text import Cells
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import as_text, first_text, fold

_WANTED = tuple(name for name in LEDGER_FIELDS if name != "asset")
_SAMPLE = 2000  # different values of a column that are looked at
_FEW = 0.1  # the part of the keys that may stand under other dates only
_NUMBER = re.compile(
    r"[(+\-\u2212]?[\s$\u20ac\u00a3]*[0-9][0-9\s.,'\u2019\u00a0\u202f]*(e[+-]?[0-9]+)?[\s%)-]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class UnknownColumn:
    """A column that no field takes: its title, what most of its values are, and different ones."""

    place: int
    title: str
    kind: str
    values: tuple[str, ...] = ()

    @property
    def examples(self) -> str:
        """Its first values, for a question."""
        return ", ".join(value[:30] for value in self.values[:2])


def holds_amounts(rows: Iterable[Sequence[object]]) -> bool:
    """Return whether some row has a text and a number beside it."""
    for row in rows:
        kinds = {_kind(cell) for cell in row}
        if "number" in kinds and "text" in kinds:
            return True
    return False


def rows_above(grid: Grid, head: Header, where: str) -> Iterator[Unused]:
    """Yield the rows above the header, louder where amounts stand in them."""
    filled = [row for row in range(head.row) if first_text(grid.rows[row])]
    if filled:
        rows = [grid.rows[row] for row in filled]
        severity = "medium" if holds_amounts(rows) else "low"
        first, last = (grid.line(row) for row in (filled[0], filled[-1]))
        name = f"row {first}" if first == last else f"rows {first} to {last}"
        stands = "it stands above the header and is not read"
        words = stands if first == last else "they stand above the header and are not read"
        words += f": {' | '.join(filter(None, map(as_text, rows[0])))[:60]}"
        yield Unused(
            file=where,
            kind=FilePart.ROW,
            name=name,
            reason=words,
            severity=severity,
            count=len(rows),
        )


def lacking_fields(head: Header, config: Config, covers: Collection[str] = ()) -> list[str]:
    """Return the parts of the key that nothing in a ledger says and nobody decided about."""
    wanted = _WANTED if config.level is None else config.level
    settled = {*head.fields, *covers, *(name for name, at in head.shape.columns.items() if not at)}
    return [field for field in wanted if field not in settled]


def unused_columns(
    grid: Grid, head: Header, lacking: Sequence[str], where: str
) -> tuple[list[Unused], list[UnknownColumn]]:
    """Return the columns that are not used, and those that a person must say something about.

    It must be said where one is of words and the ledger has no column for a part of the key, and
    where one is of figures that may be amounts.
    """
    asked: list[UnknownColumn] = []
    unused: list[Unused] = []
    for place, title in enumerate(head.titles):
        if place in head.places:
            continue
        column = _column(grid, head, place)
        reason = _reason(column, head, lacking)
        if not reason:
            asked.append(column)
        elif title or column.kind:
            unused.append(Unused(where, FilePart.COLUMN, repr(column.title), reason))
    return unused, asked


def _unused_by(title: str, head: Header) -> str:
    profile = head.profile
    if profile and fold(title) in map(fold, profile.shape.unused):
        return f"it is no part of what is held, as is known of {profile.name}"
    return "recon.toml says that it is unused"


def _reason(column: UnknownColumn, head: Header, lacking: Sequence[str]) -> str:
    """Return why a column is not needed; nothing where it may be."""
    field = head.words.field_of(column.title) or head.words.also_field_of(column.title)
    if fold(column.title) in map(fold, head.shape.unused):
        return _unused_by(column.title, head)
    if head.shape.sign is None and is_sign(column, head.words):
        return ""
    if field and head.shape.columns.get(field) == "":
        return f"recon.toml says {setting(field, '')}"
    if field in head.columns:
        return f"the {field} is read from {head.title_of(head.columns[field])!r}"
    kinds = {"": "it is empty", "date": "it holds dates", "index": "it numbers the rows"}
    if column.kind in kinds:
        return kinds[column.kind]
    of_kind = _reason_of_words if column.kind == "text" else _reason_of_figures
    return of_kind(column, head, lacking)


def is_sign(column: UnknownColumn, words: Words) -> bool:
    """Return whether a column says of each amount whether it is debit or credit."""
    is_word = [words.is_debit(value) or words.is_credit(value) for value in column.values]
    return bool(is_word) and all(is_word)


def _reason_of_words(column: UnknownColumn, head: Header, lacking: Sequence[str]) -> str:
    if head.words.is_remark(column.title):
        return "it holds remarks, or describes the asset"
    return "" if lacking else "it is no part of the key"


def _reason_of_figures(column: UnknownColumn, head: Header, lacking: Sequence[str]) -> str:
    if head.words.is_figure(column.title):
        return "it holds prices, values or other figures"
    if column.place in head.days:
        return f"it holds the amounts of another day, {head.days[column.place]}"
    if "amount" in head.shape.columns:
        return f"recon.toml says {setting('amount', head.shape.columns['amount'])}"
    return (
        "it holds numbers of things" if head.words.is_number(column.title) and not lacking else ""
    )


def _column(grid: Grid, head: Header, place: int) -> UnknownColumn:
    title = head.title_of(place)
    values = list(_values(grid, head, place))
    if not values:
        return UnknownColumn(place, title, "")
    texts = tuple(as_text(value).strip() for value in values)
    if _is_index(values) and not head.titles[place]:
        return UnknownColumn(place, title, "index", texts)
    kinds = [_kind(value) for value in values]
    return UnknownColumn(place, title, max(("text", "number", "date"), key=kinds.count), texts)


def _values(grid: Grid, head: Header, place: int) -> Iterable[object]:
    """Return different values of a column that are not blank, not all of very many."""
    start = head.body
    if isinstance(grid.rows, Cells):
        texts = pc.unique(grid.rows.column(place).slice(start)).slice(0, _SAMPLE).to_pylist()
        return [text for text in texts if text.strip()]
    cells = (row[place] for row in islice(grid.rows, start, None) if len(row) > place)
    seen: dict[object, None] = {}
    for cell in cells:
        if as_text(cell).strip():
            seen[cell] = None
        if len(seen) == _SAMPLE:
            break
    return list(seen)


def _kind(cell: object) -> str:
    """Return `number`, `date` or `text`; nothing of a blank cell."""
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        return "number"
    text = as_text(cell).strip()
    if not text or text in ("-", "--"):
        return ""
    if is_date(cell):
        return "date"
    return "number" if _NUMBER.fullmatch(text) else "text"


def _is_index(values: Sequence[object]) -> bool:
    texts = [as_text(value).strip() for value in values]
    start = int(texts[0]) if texts[0] in ("0", "1") else -1
    return start >= 0 and texts == [str(start + place) for place in range(len(texts))]


def rows_of_other_dates(
    grid: Grid, head: Header, days: Sequence[date | None], day: date | None, where: str
) -> Iterator[Unused]:
    """Yield the rows of other dates; raise `Ambiguous` where the column may state no such thing.

    A ledger of many days repeats its keys day by day. The date of the last movement does not: its
    keys would have no row at all.
    """
    stated = {row_day for row_day in days[head.body :] if row_day is not None}
    if day is None or not stated - {day}:
        return
    places = [head.columns[field] for field in FIELDS if field in head.columns]
    now: set[tuple[str, ...]] = set()
    then: set[tuple[str, ...]] = set()
    number = 0
    for row, cells in islice(enumerate(grid.rows), head.body, None):
        key = tuple(as_text(cells[place]) if len(cells) > place else "" for place in places)
        is_other = days[row] not in (None, day)
        number += is_other
        (then if is_other else now).add(key)
    gone = len(then - now)
    title = head.titles[head.columns["as_of"]]
    repeats = 2 * len(now & then) > len(now)
    if gone > _FEW * len(now | then) and not repeats and "as_of" not in head.shape.columns:
        raise Ambiguous(
            f"{where}: by the column {title!r} {number} of {len(days) - head.body} rows would "
            f"be of other days than {day} and be left out, and {gone} of {len(now | then)} keys "
            "with them. It may be the date of the last movement.",
            f'{head.table}\nas_of = ""'
            f"   # or {setting('as_of', title)}, where the rows of other days are to be left out",
        )
    words = f"another date than {day} in {title!r}"
    words += (
        f"; {count_of(gone, 'key')} {'has' if gone == 1 else 'have'} no other row" if gone else ""
    )
    yield Unused(
        file=where,
        kind=FilePart.ROW,
        name="",
        reason=words,
        severity="medium" if gone else "low",
        count=number,
    )
