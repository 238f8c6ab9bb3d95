"""A ledger, read whole: every row is used, skipped or rejected, and counted."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.config import Config
from warehouse.reconcile.dimensions import FIELDS, REQUIRED_NAMES
from warehouse.reconcile.ledger.amounts import Rules, read
from warehouse.reconcile.ledger.conventions import dates_of, rules_of
from warehouse.reconcile.ledger.dating import title_day
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.ledger.model import (
    Kind,
    Ledger,
    LedgerRows,
    LedgerSource,
    RejectedRow,
    Remembered,
    Unused,
)
from warehouse.reconcile.ledger.rows_vectorised import plain_rows
from warehouse.reconcile.ledger.tabs import chosen_tabs, level_of, other_tabs
from warehouse.reconcile.ledger.unread import above, columns, other_dates
from warehouse.reconcile.notices import Notice
from warehouse.spreadsheet.reading.delimited_text import Cells, Row
from warehouse.spreadsheet.reading.grid import Grid, OpenedFile
from warehouse.spreadsheet.reading.text import as_text, fold

_TOTAL = re.compile(
    "(grand |sub|sub-)?(total|sum)s?|(end|gesamt|zwischen)?summe|gesamt|somme|sous-total"
    "|total g\u00e9n\u00e9ral|suma|totale|subtotale|soma"
    "|\u0438\u0442\u043e\u0433\u043e|\u5408\u8a08"
)


_OTHER_DATE = "another date"


@dataclass(slots=True)
class _Reading:
    """What is being read of one sheet."""

    number: int
    grid: Grid
    head: Header
    fields: tuple[str, ...]
    rules: Rules
    days: Sequence[date | None]
    undated: frozenset[int]
    day: date | None
    book_day: date
    config: Config
    file: str
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
    known = {name: dict(shape) for name, shape in remembered.items()}
    readings: list[_Reading] = []
    sources: list[LedgerSource] = []
    lines = LedgerRows()
    unused: list[Unused] = []
    for file in files:
        chosen = chosen_tabs(file, config, known)
        unused += other_tabs(file, chosen)
        for sheet in chosen:
            reading = _read_sheet(len(sources), file, sheet, (config, known), (day, lines))
            readings.append(reading)
            sources.append(_source(file, reading))
            unused += reading.unused
    fields = tuple(name for name in FIELDS if any(name in source_.fields for source_ in sources))
    return Ledger(
        fields,
        lines,
        [row for reading_ in readings for row in reading_.rejected],
        tuple(sources),
        tuple(notice for reading_ in readings for notice in reading_.notices),
        known,
        tuple(unused),
    )


def _read_sheet(
    number: int,
    file: OpenedFile,
    sheet: tuple[Grid, Header],
    settled: tuple[Config, Remembered],
    into: tuple[date, LedgerRows],
) -> _Reading:
    grid, head = sheet
    day, lines = into
    config, known = settled
    where = f"{file.path.name} {grid.sheet}".strip()
    fields = level_of(head, config, where)
    place = f"{file.path.name}!{grid.sheet}" if grid.sheet else file.path.name
    unused = [*above(grid, head, place), *columns(grid, head, config, place)]
    rules = rules_of(grid, head, known, where)
    days, undated = dates_of(grid, head, known, where)
    stated = sorted({day_ for day_ in days if day_ is not None})
    chosen = day if day in stated else (stated[-1] if stated else None)
    unused += other_dates(grid, head, days, chosen, place)
    about = (day, config, file.path.name, lines)
    reading = _Reading(number, grid, head, fields, rules, days, undated, chosen, *about)
    known[head.print] = known.get(head.print, {}) | {
        name: head.titles[place] for name, place in head.columns.items()
    }
    for words in file.notices:
        reading.notices.append(Notice("low", words, file.path.name))
    reading.notices += _hidden(grid, head, where)
    for row in _others(reading):
        _read_row(reading, row)
    unused += [
        Unused(place, Kind.ROW, f"({number})", reason, "low", number)
        for reason, number in sorted(reading.skipped.items())
        if reason != _OTHER_DATE
    ]
    reading.unused = unused
    return reading


def _hidden(grid: Grid, head: Header, where: str) -> Iterator[Notice]:
    """Yield what was read though its program does not show it."""
    if not grid.is_visible:
        yield Notice("medium", "the sheet is hidden, and it was read", where)
    if grid.hidden_rows:
        told = f"{grid.hidden_rows} hidden or filtered rows were read like the others"
        yield Notice("medium", told, where)
    names = [
        head.titles[column] for column in head.columns.values() if column in grid.hidden_columns
    ]
    if names:
        told = f"the hidden column {' and '.join(map(repr, names))} was read like the others"
        yield Notice("medium", told, where)


def _others(on: _Reading) -> Iterable[int]:
    """Take in the rows that can be read together; the others are to be read one by one."""
    rest = range(on.head.row + 1, len(on.grid.rows))
    if not isinstance(on.grid.rows, Cells):
        return rest
    is_read = None
    if on.day is not None or on.undated:
        is_read = [
            day in (None, on.day) and row not in on.undated for row, day in enumerate(on.days)
        ]
    rows, columns = plain_rows(on.grid.rows, on.head, on.rules, is_read, _is_name)
    places = pc.add(rows, on.grid.line(0))
    on.lines.add_all(columns | {"file": pa.repeat(on.number, len(rows)), "line": places})
    on.used += len(rows)
    every = pa.array(rest, pa.int64())
    others: list[int] = every.filter(pc.invert(pc.is_in(every, rows))).to_pylist()
    return others


def _is_name(field: str, text: str) -> bool:
    """Whether a text is a name and nothing else: no blank, no word for a total."""
    return bool(text.strip()) and not (field == "asset" and _TOTAL.fullmatch(fold(text)))


def _read_row(on: _Reading, row: int) -> None:
    cells = on.grid.rows[row]
    names, skipped = _names(on, row, cells)
    if skipped:
        on.skipped[skipped] += 1
        return
    reason, raw = _unreadable(on, row, cells, names)
    line = on.grid.line(row)
    if reason:
        if reason == "the amount is blank" and on.config.blank == "skip":
            if on.grid.is_blank_sure:
                on.skipped["blank amount"] += 1
                return
            reason += ", or an error that this format does not show: save the ledger as xlsx"
        on.rejected.append(RejectedRow(names, raw, reason, on.number, line))
        return
    amount = read(cells[on.head.columns["amount"]], on.rules)
    if isinstance(amount, str):
        raise TypeError(amount)
    asset = names[FIELDS.index("asset")]
    if amount.unit and fold(amount.unit) != fold(asset):
        words = f"the amount is written in {amount.unit} in a row of {asset}; it was used"
        on.notices.append(Notice("medium", words, _place(on, line), raw))
    on.lines.add(names, amount, on.number, line)
    on.used += 1


def _names(on: _Reading, row: int, cells: Row) -> tuple[tuple[str, ...], str]:
    """The names of a row by field, and why it is skipped, if it is."""
    if all(cell in ("", None) for cell in cells):
        return (), "blank line"
    place = on.head.columns["amount"]
    if len(cells) > place and cells[place] == on.head.titles[place] and _is_header(on, cells):
        return (), "header repeated"
    names = tuple(_name(on, row, cells, on.head.columns.get(name)) for name in FIELDS)
    asset = names[FIELDS.index("asset")]
    if (not asset or _TOTAL.fullmatch(fold(asset))) and _is_total(cells):
        return names, "total line"
    has_amount = (len(cells) > place and cells[place] != "") or (row, place) in on.grid.errors
    if not asset and not has_amount:
        return names, "title or note"
    if on.day is not None and on.days[row] not in (None, on.day):
        return names, _OTHER_DATE
    return names, ""


def _is_header(on: _Reading, cells: Row) -> bool:
    return [fold(as_text(cell)) for cell in cells] == [fold(title) for title in on.head.titles]


def _is_total(cells: Row) -> bool:
    texts = (text for cell in cells if (text := as_text(cell).strip().rstrip(":").strip()))
    return bool(_TOTAL.fullmatch(fold(next(texts, ""))))


def _name(on: _Reading, row: int, cells: Row, place: int | None) -> str:
    if place is None:
        return ""
    text = as_text(cells[place]) if len(cells) > place else ""
    if text:
        return text
    for (top, left), (bottom, right) in on.grid.merged:
        if top < row <= bottom and left <= place <= right and top > on.head.row:
            return as_text(on.grid.rows[top][left])
    return text


def _unreadable(on: _Reading, row: int, cells: Row, names: tuple[str, ...]) -> tuple[str, str]:
    """Why a row cannot be used, and what stood in its amount; no reason where it can."""
    columns = on.head.columns
    place = columns["amount"]
    cell = cells[place] if len(cells) > place else ""
    raw = on.grid.errors.get((row, place), as_text(cell))
    for name, where in columns.items():
        if (row, where) in on.grid.errors:
            return f"the {name} is an error cell: {on.grid.errors[row, where]}"[:200], raw
    if any(as_text(extra) for extra in cells[len(on.head.titles) :]):
        return "the row has more cells than the header", raw
    for name in REQUIRED_NAMES:
        if name in columns and not names[FIELDS.index(name)].strip():
            return f"the {name} is blank", raw
    if row in on.undated:
        said = as_text(cells[columns["as_of"]]).strip()
        return f"the date {said[:40]!r} is not understood", raw
    amount = read(cell, on.rules)
    return (amount, raw) if isinstance(amount, str) else ("", raw)


def _place(on: _Reading, line: int) -> str:
    return f"{on.file}!{on.grid.sheet}:{line}" if on.grid.sheet else f"{on.file}:{line}"


def _source(file: OpenedFile, on: _Reading) -> LedgerSource:
    return LedgerSource(
        file.path.name,
        on.grid.sheet,
        file.sha256,
        on.day or title_day(on.grid.rows[: on.head.row], on.book_day),
        len(on.grid.rows) - on.head.row - 1,
        on.used,
        dict(sorted(on.skipped.items())),
        len(on.rejected),
        on.head.print,
        on.fields,
    )
