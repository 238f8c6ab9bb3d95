"""Read a ledger whole: every row is used, skipped or rejected, and counted."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.ledger.cells.amounts import BLANK, Amount, Rules, read
from warehouse.reconcile.ledger.cells.conventions import dates_of, rules_of
from warehouse.reconcile.ledger.cells.fast_rows import plain_rows
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.ledger.inbox.dating import title_day
from warehouse.reconcile.ledger.model import (
    FilePart,
    Ledger,
    LedgerRows,
    LedgerSource,
    RejectedRow,
    Remembered,
    Unused,
)
from warehouse.reconcile.ledger.tabs import chosen_tabs, level_of, other_tabs
from warehouse.reconcile.ledger.unread import rows_above, rows_of_other_dates, unused_columns
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.terms.dimensions import FIELDS, REQUIRED_NAMES
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.reading.delimited_text import Cells, Row
from warehouse.spreadsheet.reading.grid import Grid, OpenedFile
from warehouse.spreadsheet.reading.text import as_text, fold

_TOTAL = re.compile(
    "(grand |sub|sub-)?(total|sum)s?|(end|gesamt|zwischen)?summe|gesamt|somme|sous-total"
    "|total g\u00e9n\u00e9ral|suma|totale|subtotale|soma"
    "|\u0438\u0442\u043e\u0433\u043e|\u5408\u8a08"
)
_OTHER_DATE = "another date"


@dataclass(slots=True, kw_only=True)
class _SheetReading:
    """One sheet while it is read, and what came of its rows; `days` are the dates of its rows."""

    number: int
    grid: Grid
    head: Header
    fields: tuple[str, ...]
    rules: Rules
    days: Sequence[date | None]
    undated: frozenset[int]
    day: date | None
    config: Config
    place: str
    lines: LedgerRows
    used: int = 0
    rejected: list[RejectedRow] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    notices: list[Notice] = field(default_factory=list)
    unused: list[Unused] = field(default_factory=list)


def read_ledger(
    files: Sequence[OpenedFile], config: Config, remembered: Remembered, day: date
) -> Ledger:
    """Read the chosen files for the book of a day; nothing is resolved or matched yet.

    Raises `Ambiguous` where a person must settle something, `NotReconciled` where a file cannot be
    read at all.
    """
    shapes = {name: dict(shape) for name, shape in remembered.items()}
    readings: list[_SheetReading] = []
    sources: list[LedgerSource] = []
    lines = LedgerRows()
    unused: list[Unused] = []
    for file in files:
        tabs = chosen_tabs(file, config, shapes)
        unused += other_tabs(file, tabs)
        for grid, head in tabs:
            reading = _start_reading(file, grid, head, config=config, shapes=shapes, day=day)
            reading.number, reading.lines = len(sources), lines
            _read_rows(reading)
            readings.append(reading)
            sources.append(_source(file, reading, day))
            unused += reading.unused
    return Ledger(
        fields=tuple(name for name in FIELDS if any(name in source.fields for source in sources)),
        lines=lines,
        rejected=[row for reading in readings for row in reading.rejected],
        sources=tuple(sources),
        notices=tuple(notice for reading in readings for notice in reading.notices),
        remembered=shapes,
        unused=tuple(unused),
    )


def _start_reading(
    file: OpenedFile, grid: Grid, head: Header, *, config: Config, shapes: Remembered, day: date
) -> _SheetReading:
    """Settle what a sheet says as a whole: its level, its conventions, and its unused parts."""
    where = f"{file.path.name} {grid.sheet}".strip()
    place = f"{file.path.name}!{grid.sheet}" if grid.sheet else file.path.name
    fields = level_of(head, config, where)
    unused = [*rows_above(grid, head, place), *unused_columns(grid, head, config, place)]
    rules = rules_of(grid, head, shapes, where)
    days, undated = dates_of(grid, head, shapes, where)
    # Of a ledger of several days the rows of the book's day count, else those of its newest one;
    # whether another day is used at all is decided later (`dating.require_days`).
    stated = sorted({row_day for row_day in days if row_day is not None})
    chosen = day if day in stated else (stated[-1] if stated else None)
    unused += rows_of_other_dates(grid, head, days, chosen, place)
    shapes[head.fingerprint] = shapes.get(head.fingerprint, {}) | {
        name: head.titles[column] for name, column in head.columns.items()
    }
    notices = [Notice("low", words, file.path.name) for words in file.notices]
    return _SheetReading(
        number=0,
        grid=grid,
        head=head,
        fields=fields,
        rules=rules,
        days=days,
        undated=undated,
        day=chosen,
        config=config,
        place=place,
        lines=LedgerRows(),
        notices=[*notices, *_hidden(grid, head, where)],
        unused=unused,
    )


def _hidden(grid: Grid, head: Header, where: str) -> Iterator[Notice]:
    """Yield what was read though its program does not show it."""
    if not grid.is_visible:
        yield Notice("medium", "the sheet is hidden, and it was read", where)
    if grid.hidden_rows:
        words = f"{grid.hidden_rows} hidden or filtered rows were read like the others"
        yield Notice("medium", words, where)
    hidden = [column for column in head.columns.values() if column in grid.hidden_columns]
    if hidden:
        names = " and ".join(repr(head.titles[column]) for column in hidden)
        yield Notice("medium", f"the hidden column {names} was read like the others", where)


def _read_rows(reading: _SheetReading) -> None:
    for row in _take_plain_rows(reading):
        _read_row(reading, row)
    reading.unused += [
        Unused(reading.place, FilePart.ROW, f"({number})", reason, "low", number)
        for reason, number in sorted(reading.skipped.items())
        if reason != _OTHER_DATE
    ]


def _take_plain_rows(reading: _SheetReading) -> Iterable[int]:
    """Take in the rows that can be read as columns; return the others, to be read one by one."""
    rest = range(reading.head.row + 1, len(reading.grid.rows))
    if not isinstance(reading.grid.rows, Cells):
        return rest
    is_read = None
    if reading.day is not None or reading.undated:
        is_read = [
            day in (None, reading.day) and row not in reading.undated
            for row, day in enumerate(reading.days)
        ]
    rows, cells = plain_rows(reading.grid.rows, reading.head, reading.rules, is_read, _is_name)
    places = pc.add(rows, reading.grid.line(0))
    file = pa.repeat(reading.number, len(rows))
    reading.lines.add_all(cells | {"file": file, "line": places})
    reading.used += len(rows)
    every = pa.array(rest, pa.int64())
    others: list[int] = every.filter(pc.invert(pc.is_in(every, rows))).to_pylist()
    return others


def _is_name(field_: str, text: str) -> bool:
    """Return whether a text is a name and nothing else: no blank, no word for a total."""
    return bool(text.strip()) and not (field_ == "asset" and _TOTAL.fullmatch(fold(text)))


def _read_row(reading: _SheetReading, row: int) -> None:
    cells = reading.grid.rows[row]
    names, skipped = _names(reading, row, cells)
    if skipped:
        reading.skipped[skipped] += 1
        return
    amount, raw = _amount(reading, row, cells, names)
    line = reading.grid.line(row)
    if isinstance(amount, str):
        if amount == BLANK and reading.config.blank == "skip":
            if reading.grid.is_blank_sure:
                reading.skipped["blank amount"] += 1
                return
            amount += ", or an error that this format does not show: save the ledger as xlsx"
        reading.rejected.append(RejectedRow(names, raw, amount, reading.number, line))
        return
    asset = names[FIELDS.index("asset")]
    if amount.unit and fold(amount.unit) != fold(asset):
        words = f"the amount is written in {amount.unit} in a row of {asset}; it was used"
        reading.notices.append(Notice("medium", words, f"{reading.place}:{line}", raw))
    reading.lines.add(names, amount, reading.number, line)
    reading.used += 1


def _names(reading: _SheetReading, row: int, cells: Row) -> tuple[tuple[str, ...], str]:
    """Return the names of a row by field, and why it is skipped, if it is."""
    head = reading.head
    if all(cell in ("", None) for cell in cells):
        return (), "blank line"
    place = head.columns["amount"]
    if len(cells) > place and cells[place] == head.titles[place] and _is_header(head, cells):
        return (), "header repeated"
    names = tuple(_name(reading, row, cells, head.columns.get(name)) for name in FIELDS)
    asset = names[FIELDS.index("asset")]
    # A total line has its word where the asset stands, or in its first cell; an asset may well be
    # called `total`, so both must be so.
    if (not asset or _TOTAL.fullmatch(fold(asset))) and _is_total(cells):
        return names, "total line"
    has_amount = (len(cells) > place and cells[place] != "") or (row, place) in reading.grid.errors
    if not asset and not has_amount:
        return names, "title or note"
    if reading.day is not None and reading.days[row] not in (None, reading.day):
        return names, _OTHER_DATE
    return names, ""


def _is_header(head: Header, cells: Row) -> bool:
    return [fold(as_text(cell)) for cell in cells] == [fold(title) for title in head.titles]


def _is_total(cells: Row) -> bool:
    texts = (text for cell in cells if (text := as_text(cell).strip().rstrip(":").strip()))
    return bool(_TOTAL.fullmatch(fold(next(texts, ""))))


def _name(reading: _SheetReading, row: int, cells: Row, place: int | None) -> str:
    """Return the name in a cell; of a merged cell, what stands at its top."""
    if place is None:
        return ""
    text = as_text(cells[place]) if len(cells) > place else ""
    if text:
        return text
    for (top, left), (bottom, right) in reading.grid.merged:
        if top < row <= bottom and left <= place <= right and top > reading.head.row:
            return as_text(reading.grid.rows[top][left])
    return text


def _amount(
    reading: _SheetReading, row: int, cells: Row, names: tuple[str, ...]
) -> tuple[Amount | str, str]:
    """Return the amount of a row, or the reason why it cannot be used, and what stood there."""
    grid, places = reading.grid, reading.head.columns
    place = places["amount"]
    cell = cells[place] if len(cells) > place else ""
    raw = grid.errors.get((row, place), as_text(cell))
    for name, where in places.items():
        if (row, where) in grid.errors:
            return f"the {name} is an error cell: {grid.errors[row, where]}"[:200], raw
    if any(as_text(extra) for extra in cells[len(reading.head.titles) :]):
        return "the row has more cells than the header", raw
    for name in REQUIRED_NAMES:
        if name in places and not names[FIELDS.index(name)].strip():
            return f"the {name} is blank", raw
    if row in reading.undated:
        stated = as_text(cells[places["as_of"]]).strip()
        return f"the date {stated[:40]!r} is not understood", raw
    return read(cell, reading.rules), raw


def _source(file: OpenedFile, reading: _SheetReading, day: date) -> LedgerSource:
    head, grid = reading.head, reading.grid
    return LedgerSource(
        name=file.path.name,
        sheet=grid.sheet,
        sha256=file.sha256,
        as_of=reading.day or title_day(grid.rows[: head.row], day),
        rows=len(grid.rows) - head.row - 1,
        used=reading.used,
        skipped=dict(sorted(reading.skipped.items())),
        rejected=len(reading.rejected),
        fingerprint=head.fingerprint,
        fields=reading.fields,
    )
