"""Functions that read a sheet's rows, and decide which rows to use, skip or reject."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache, partial, reduce
from itertools import chain, pairwise, repeat
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.ledger.amount_reader import AmountReader
from warehouse.reconcile.ledger.amounts import BLANK, add_up, is_plain, plain_amounts
from warehouse.reconcile.ledger.columns import NAMED_DIMENSIONS, LedgerBody, is_total
from warehouse.reconcile.ledger.dates import is_date
from warehouse.reconcile.ledger.header import Header, Layer
from warehouse.reconcile.ledger.labels import (
    RowLabels,
    Texts,
    cell_texts,
    merged_blocks,
    object_array,
)
from warehouse.reconcile.ledger.notes import NOTE, note_text, unused_notes
from warehouse.reconcile.ledger.spellings import Rename, rename_all
from warehouse.reconcile.ledger.totals import SumLine, check_totals
from warehouse.reconcile.model import Amount, FilePart, LedgerRows, Notice, RejectedRow, Unused
from warehouse.reconcile.settings.layout import Decimals
from warehouse.reconcile.terms import FIELDS, REQUIRED_NAMES
from warehouse.spreadsheet.reading.delimited_text import Cells, Row
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.text import as_text, first_text, fold
from warehouse.spreadsheet.reading.xml_workbooks import NO_VALUE

# A table of rows, stored as columns of objects. Do not use a data frame, because importing pandas
# takes as long as reading a small ledger.
Table = dict[str, Texts]

_NUMBERS = re.compile("[0-9]+")

_PAGE_NUMBER = re.compile(
    r"\W*(?:page|pg|seite|blatt|pagina|p\u00e1gina|\u0441\u0442\u0440\u0430\u043d\u0438\u0446\u0430"
    r"|\u0441\u0442\u0440|\u30da\u30fc\u30b8)(?:\W+(?:no|nr))?\W*[0-9]+"
    r"(?:\W*(?:of|von|van|de|di|sur|\u0438\u0437)\W*[0-9]+|\W+[0-9]+)?\W*",
    re.IGNORECASE,
)

# A figure with or without a currency, such as `EUR 250,000.00`, `$12` or `-3 BTC`.
_MONEY = re.compile(
    r"(?:[A-Z]{2,6}|[$\u20ac\u00a3\u00a5])?\s*[-+\u2212(]?\s*[$\u20ac\u00a3\u00a5]?\s*[0-9][0-9\s.,'\u2019]*"
    r"(?:\)|-)?\s*(?:[A-Z]{2,6}|[$\u20ac\u00a3\u00a5])?"
)
_BATCH = 50_000  # number of rows to read at once
_OTHER_DATE = "another date"

# Errors that spreadsheet programs show if a person types a name like =Hedge, =-Hedge or =@Hedge.
_UNKNOWN_NAME = ("#NAME?", "#VALUE!", "Err:508", "Err:509", "Err:510")

_BLANK_UNSURE = ", or is an error that this file format does not show: save the ledger as xlsx"


@dataclass(frozen=True, slots=True, kw_only=True)
class SheetReading:
    """A sheet to read, and all decisions on how to read it.

    `number` is the file's number, `days` has the date of each row in the sheet, and `undated` has
    the rows whose date cannot be read. Only rows for `day` are read, unless `day` is None.
    `headings` are the rows above the header, which a report repeats on every page. `renames` remove
    the text around each field's names.
    """

    body: LedgerBody
    fields: tuple[str, ...]
    amounts: AmountReader
    labels: RowLabels
    days: Sequence[date | None]
    undated: frozenset[int]
    day: date | None
    number: int
    headings: frozenset[str]
    renames: Mapping[str, Rename]
    notices: list[Notice]
    unused: list[Unused]

    @property
    def head(self) -> Header:
        """The sheet's header."""
        return self.body.head

    @property
    def grid(self) -> Grid:
        """The sheet's cells."""
        return self.head.grid


@dataclass(slots=True)
class BodyRows:
    """The result of reading a sheet: used and rejected rows, and skipped rows counted by reason.

    `lines` has the used rows from all sheets. `totals` are the total lines whose amount can be
    read. `notes` are the lines of text by row number.
    """

    lines: LedgerRows
    used: int = 0
    rejected: list[RejectedRow] = dataclasses.field(default_factory=list)
    skipped: Counter[str] = dataclasses.field(default_factory=Counter)
    totals: list[SumLine] = dataclasses.field(default_factory=list)
    notes: dict[int, str] = dataclasses.field(default_factory=dict)

    def use(self, columns: Mapping[str, Any]) -> None:
        """Add used rows, given as one array for each column in `LINES`."""
        self.lines.add_all(columns)
        self.used += len(columns["line"])


def plain_rows(
    cells: Cells, head: Header, layer: Layer, decimals: Decimals, is_read: Sequence[bool] | None
) -> tuple[pa.Array, dict[str, pa.Array]]:
    """Find the plain rows below the header. Return their row numbers and their columns.

    A row is plain if it has one cell for each title, its amount is written in plain digits, and no
    required name is blank or a word for a total. `is_read` has a flag for each row, which is true
    if the row's date is read. If it is None, all rows are read. The columns `file` and `line` are
    not returned.
    """
    rows, columns = cells.whole(head.body, len(head.titles))
    amount = columns[layer.terms[0].column]
    # Skip a header that is repeated on each page. Its amount cell contains the title.
    is_title = pc.equal(amount, head.titles[layer.terms[0].column])
    is_used = pc.and_not(is_plain(amount, decimals), is_title)
    if is_read is not None:
        is_used = pc.and_(is_used, pa.array(is_read, pa.bool_()).take(rows))
    for field in REQUIRED_NAMES:
        if field in head.columns:
            # Check each distinct name once, because a million cells may contain only a few names.
            column = columns[head.columns[field]]
            others = [
                text
                for text in pc.unique(column).to_pylist()
                if not text.strip() or head.words.total_name(text) is not None
            ]
            is_used = pc.and_not(is_used, pc.is_in(column, pa.array(others, pa.string())))
    rows = rows.filter(is_used)
    stated = {**head.names, **layer.names}
    names = {
        field: columns[head.columns[field]].filter(is_used)
        if field in head.columns
        else pa.repeat(stated.get(field, ""), len(rows))
        for field in FIELDS
    }
    texts, written = plain_amounts(amount.filter(is_used), decimals)
    is_number = pa.repeat(pa.scalar(value=False), len(rows))
    unit = pa.repeat("", len(rows))
    return rows, names | {
        "amount": texts,
        "decimals": written,
        "is_number": is_number,
        "unit": unit,
    }


def read_rows(reading: SheetReading, lines: LedgerRows) -> BodyRows:
    """Read every row in a sheet, and add an entry to `lines` for each amount in a used row.

    Also add notices and skipped rows to the lists in `reading`.
    """
    found = BodyRows(lines)
    for layer in reading.head.layers:
        numbers = _read_plain_rows(reading, layer, found)
        # Read the rows in batches, because the cells of a million rows would need a gigabyte.
        size = len(numbers) if reading.grid.merged else _BATCH
        for start in range(0, len(numbers), max(size, 1)):
            _read_rows(reading, layer, _table(reading, layer, numbers[start : start + size]), found)
    if found.totals:
        rows = lines.table
        own = rows.filter(pc.equal(rows["file"], reading.number))
        reading.notices.extend(check_totals(found.totals, own, reading.head.place))
    reading.unused.extend(
        Unused(reading.head.place, FilePart.ROW, "", reason, "low", number)
        for reason, number in sorted(found.skipped.items())
        if reason not in (_OTHER_DATE, NOTE)
    )
    reading.unused.extend(unused_notes(reading.head, found.notes))
    return found


def heading_of(cells: Row) -> str:
    """Return a row's text without digits, so that a heading is the same on every page."""
    return _NUMBERS.sub("0", " ".join(filter(None, map(str.strip, map(as_text, cells)))))


def _read_plain_rows(reading: SheetReading, layer: Layer, found: BodyRows) -> Sequence[int]:
    """Use a text file's plain rows, which need no checks. Return the numbers of the other rows."""
    head, grid = reading.head, reading.grid
    numbers = range(head.body, len(grid.rows))
    is_plain_sheet = head.is_plain and reading.amounts.unit == 1 and not reading.labels.names
    if not isinstance(grid.rows, Cells) or not is_plain_sheet:
        return numbers
    is_read = None
    if reading.day is not None or reading.undated:
        is_read = [
            day in (None, reading.day) and row not in reading.undated
            for row, day in enumerate(reading.days)
        ]
    decimals = reading.amounts.rules.decimals or Decimals.POINT
    rows, columns = plain_rows(grid.rows, head, layer, decimals, is_read)
    for name in FIELDS:
        columns[name] = rename_all(columns[name], reading.renames.get(name))
    columns["file"] = pa.repeat(reading.number, len(rows))
    columns["line"] = pc.add(rows, grid.line(0))
    found.use(columns)
    others: list[int] = np.setdiff1d(numbers, rows, assume_unique=True).tolist()
    return others


def _table(reading: SheetReading, layer: Layer, numbers: Sequence[int]) -> Table:
    """Return rows as a table with `number`, `line`, `cells`, and one column of names per field.

    `number` counts from 0, and `line` is the row number that programs show.
    """
    cells = [reading.grid.rows[row] for row in numbers]
    columns = {
        "number": object_array(numbers),
        "line": object_array(map(reading.grid.line, numbers)),
        "cells": object_array(cells),
    }
    return columns | {name: _names_of(reading, layer, numbers, cells, name) for name in FIELDS}


def _keep(rows: Table, is_kept: npt.NDArray[np.bool_]) -> Table:
    return {name: column[is_kept] for name, column in rows.items()}


def _names_of(
    reading: SheetReading, layer: Layer, numbers: Sequence[int], cells: Sequence[Row], field: str
) -> Texts:
    """Return each row's name in a field, without any other text in the cell."""
    head = reading.head
    column = head.columns.get(field)
    names = np.full(len(cells), layer.names.get(field) or head.names.get(field) or "", object)
    if column is not None and not names.any():
        names = object_array(as_text(row[column]) if len(row) > column else "" for row in cells)
        # The row numbers of a merged block are also indexes into `names`, because a sheet with
        # merged cells is read in a single batch.
        for block, text in merged_blocks(head, column):
            names[block] = np.where(names[block] == "", text, names[block])
        names = rename_all(pa.array(names, pa.string()), reading.renames.get(field)).to_numpy(False)
    if field not in reading.labels.names:
        return names
    above = reading.labels.names[field][np.array(numbers, int) - head.body]
    return np.where(above != "", above, names)


def _read_rows(reading: SheetReading, layer: Layer, rows: Table, found: BodyRows) -> None:
    """Use, skip or reject each of these rows, depending on the first reason that applies."""
    read = partial(reading.amounts.read_all, layer)
    rows["amount"] = object_array(read(rows["cells"], repeat("")))
    rows["reason"] = _first_reasons(rows, _skip_reasons(reading, rows))
    found.skipped.update(rows["reason"][rows["reason"] != ""])
    notes = _keep(rows, rows["reason"] == NOTE)
    found.notes.update(zip(notes["line"], map(note_text, notes["cells"]), strict=True))
    if len(reading.head.layers) == 1:
        found.totals += _total_lines(reading, _keep(rows, rows["reason"] == "total line"))
    rows = _keep(rows, rows["reason"] == "")
    if reading.head.unit is not None:
        # Read the amounts again, now with each row's asset. If the unit is the asset's own name,
        # the factor is 1.
        rows["amount"] = object_array(read(rows["cells"], rows["asset"]))
    rows["reason"] = _first_reasons(rows, _faults(reading, layer, rows))
    is_blank = rows["reason"] == BLANK
    # If a sheet has a column for each venue, most cells are blank, because no venue has all assets.
    may_be_blank = reading.head.context.config.blank == "skip" or len(reading.head.layers) > 1
    if not reading.grid.is_blank_sure:
        rows["reason"] = np.where(is_blank, BLANK + _BLANK_UNSURE, rows["reason"])
    elif may_be_blank:
        found.skipped.update(repeat("blank amount", is_blank.sum()))
        rows = _keep(rows, ~is_blank)
    is_used = rows["reason"] == ""
    found.rejected += [
        RejectedRow(
            tuple(rows[name][index] for name in FIELDS),
            _raw(reading, layer, rows, index),
            rows["reason"][index],
            reading.number,
            rows["line"][index],
        )
        for index in np.flatnonzero(~is_used).tolist()
    ]
    _use_rows(reading, layer, _keep(rows, is_used), found)


def _first_reasons(rows: Table, reasons: Iterable[Texts]) -> Texts:
    """Return the first non-empty reason for each row."""
    return reduce(
        lambda first, reason: np.where(first == "", reason, first),
        reasons,
        np.full(len(rows["cells"]), "", object),
    )


def _if(conditions: Iterable[bool], reason: str) -> Texts:
    """Return an array with `reason` for each true condition, and "" for each false condition."""
    return np.where(np.fromiter(conditions, bool), reason, "")


def _skip_reasons(reading: SheetReading, rows: Table) -> Iterator[Texts]:
    """Yield arrays of reasons to skip rows. Each array covers all rows."""
    head, cells, assets = reading.head, rows["cells"], rows["asset"]
    yield _if((all(cell in ("", None) for cell in row) for row in cells), "blank line")
    if reading.labels.is_label is not None:
        is_label = reading.labels.is_label[rows["number"].astype(int) - head.body]
        yield _if(is_label, "group name")
    yield _if(map(partial(_repeats_header, head), cells), "header repeated")
    is_sum = partial(is_total, head, is_name=reading.body.has_name)
    yield _if(
        map(cache(is_sum), map(first_text, cells), cell_texts(cells, head.columns.get("asset"))),
        "total line",
    )
    is_heading = partial(_is_page_heading, reading.headings)
    yield _if(map(is_heading, cells, rows["amount"], assets), "page header")
    is_name = map(cache(lambda name: name != "" and not is_date(name)), assets)
    is_named = np.fromiter(is_name, bool) & ("asset" in head.columns)
    has_amount = map(partial(_has_amount_cell, reading), rows["number"], cells)
    holds = map(partial(_holds_position, reading), cells)
    is_note = ~np.fromiter(has_amount, bool) & ~is_named & ~np.fromiter(holds, bool)
    yield _if(is_note, NOTE)
    if reading.day is not None:
        days = (reading.days[row] for row in rows["number"])
        yield _if((day not in (None, reading.day) for day in days), _OTHER_DATE)
    yield from _row_words(head, cells, head.shape.skip_rows, is_listed=True)


def _repeats_header(head: Header, cells: Row) -> bool:
    column = head.columns["amount"]
    is_title = len(cells) > column and cells[column] == head.titles[column]
    return is_title and [fold(as_text(cell)) for cell in cells] == [*map(fold, head.titles)]


def _has_amount_cell(reading: SheetReading, row: int, cells: Row) -> bool:
    """Return whether any amount cell in a row has content or an error."""
    return any(
        (len(cells) > column and cells[column] != "") or (row, column) in reading.grid.errors
        for column in reading.head.amount_columns
    )


def _holds_position(reading: SheetReading, cells: Row) -> bool:
    """Return whether a row without an asset and amount may still state a position.

    It has an amount in another column, or the name of a portfolio, venue or account of the book.
    """
    head, known = reading.head, reading.head.context.known
    texts = {column: text for column, cell in enumerate(cells) if (text := as_text(cell).strip())}
    names = {at: name for name, at in head.columns.items() if name in NAMED_DIMENSIONS}
    if any(known.has(names[at], text) for at, text in texts.items() if at in names):
        return True
    figures = (
        text
        for column, text in texts.items()
        if column < len(head.titles) and head.titles[column] and column not in head.columns.values()
    )
    # A single cell is a line of text, such as `Rates of 20.11.2026`.
    return len(texts) > 1 and any(_MONEY.fullmatch(t) and not is_date(t) for t in figures)


def _is_page_heading(
    headings: Collection[str], cells: Row, amount: Amount | str, asset: str
) -> bool:
    """Return whether a row is a page heading that a report repeats on every page."""
    texts = [text for cell in cells if (text := as_text(cell).strip())]
    has_number = any(map(_PAGE_NUMBER.fullmatch, chain(texts, map(" ".join, pairwise(texts)))))
    is_repeated = heading_of(cells) in headings
    if isinstance(amount, str):
        return has_number or is_repeated
    # A heading like `Page 2` may be split into two cells, with the 2 in the amount column. Such a
    # row does not have an asset.
    return has_number and (is_repeated or not asset)


def _row_words(
    head: Header, cells: Iterable[Row], words: Mapping[str, Sequence[str]], *, is_listed: bool
) -> Iterator[Texts]:
    """Yield reasons to skip the rows with listed words, or to reject the rows with other words."""
    before = "" if is_listed else "recon.toml does not say whether a row counts if "
    for title, column in head.rows.items():
        listed = {*map(fold, words.get(title, ()))}
        yield object_array(
            f"{before}the {title!r} column contains {(word if is_listed else word[:40])!r}"
            if (fold(word) in listed) == is_listed
            else ""
            for word in cell_texts(cells, column)
        )


def _faults(reading: SheetReading, layer: Layer, rows: Table) -> Iterator[Texts]:
    """Yield arrays of reasons to reject rows. Each array covers all rows."""
    head, grid, cells = reading.head, reading.grid, rows["cells"]
    columns = [(name, column) for name, column in head.columns.items() if name != "amount"]
    columns += [("amount", term.column) for term in layer.terms]
    for name, column in columns if grid.errors else ():
        errors = (grid.errors.get((row, column), "") for row in rows["number"])
        yield object_array(error and _reason_of_error(name, error) for error in errors)
    is_long = (any(map(as_text, row[len(head.titles) :])) for row in cells)
    yield _if(is_long, "the row has more cells than the header")
    for name in REQUIRED_NAMES:
        if name in head.fields:
            yield _if((not text.strip() for text in rows[name]), f"the {name} is blank")
    yield from _row_words(head, cells, head.shape.keep_rows, is_listed=False)
    if reading.undated:
        yield object_array(
            f"the date {text[:40]!r} cannot be read" if row in reading.undated else ""
            for row, text in zip(
                rows["number"], cell_texts(cells, head.columns["as_of"]), strict=True
            )
        )
    yield object_array(amount if isinstance(amount, str) else "" for amount in rows["amount"])


def _reason_of_error(name: str, error: str) -> str:
    """Return why a cell without a value cannot be used, and what to do about it."""
    if name in FIELDS and error.startswith((NO_VALUE, *_UNKNOWN_NAME)):
        shown = "" if error == NO_VALUE else f" ({error})"
        return (
            f"the {name} is a formula without a result{shown[:40]}. If it is a name that begins "
            "with =, +, - or @, type an apostrophe before it ('=Name). If it is a formula, "
            "recalculate it in your spreadsheet program"
        )
    return f"the cell with the {name} contains an error: {error}"[:200]


def _total_lines(reading: SheetReading, rows: Table) -> Iterator[SumLine]:
    """Yield the total lines whose amount can be read."""
    total_name = reading.head.words.total_name
    for line, cells, amount in zip(rows["line"], rows["cells"], rows["amount"], strict=True):
        texts = (as_text(cell).strip() for cell in cells)
        text = next((t for t in texts if total_name(t) is not None), "")
        if isinstance(amount, Amount):
            group = fold(total_name(text) or "")
            yield SumLine(line=line, text=text, group=group, amount=amount)


def _raw(reading: SheetReading, layer: Layer, rows: Table, index: int) -> str:
    """Return the unparsed content of the cells that make up a row's amount."""
    number, cells, errors = rows["number"][index], rows["cells"][index], reading.grid.errors
    places = [term.column for term in layer.terms if len(cells) > term.column]
    return " | ".join(errors.get((number, at), as_text(cells[at])) for at in places)


def _use_rows(reading: SheetReading, layer: Layer, rows: Table, found: BodyRows) -> None:
    """Add used rows to the result. Convert amounts in other units, and add a notice for each."""
    amounts: list[Amount] = rows["amount"].tolist()
    for index, (amount, asset) in enumerate(zip(amounts, rows["asset"], strict=True)):
        if not amount.unit or fold(amount.unit) == fold(asset):
            continue
        factor = reading.head.words.factor_of(amount.unit)
        used = f"multiplied by {factor}" if factor not in ("", "1") else "used unchanged"
        message = (
            f"the amount is in {amount.unit}, but the row's asset is {asset}. The amount was {used}"
        )
        location = f"{reading.head.place}:{rows['line'][index]}"
        raw = _raw(reading, layer, rows, index)
        reading.notices.append(Notice("medium", message, location, raw))
        if factor:
            amounts[index] = add_up([amount], Decimal(factor))
    columns: dict[str, Any] = {name: rows[name].tolist() for name in (*FIELDS, "line")}
    parts = ("decimals", "is_number", "unit")
    columns |= {part: [getattr(amount, part) for amount in amounts] for part in parts}
    columns["amount"] = [amount.text for amount in amounts]
    found.use({**columns, "file": [reading.number] * len(amounts)})
