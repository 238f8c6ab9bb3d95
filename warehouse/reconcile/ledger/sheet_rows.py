"""Read the rows of one sheet: each is used, skipped or rejected, and counted."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.ledger.cells.amounts import BLANK, Amount, add_up
from warehouse.reconcile.ledger.cells.fast_rows import Whole, plain_rows
from warehouse.reconcile.ledger.header.amount_columns import Layer
from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.ledger.header.words import Words
from warehouse.reconcile.ledger.layout.amount_reader import AmountReader
from warehouse.reconcile.ledger.layout.controls import SumLine, check_totals
from warehouse.reconcile.ledger.layout.labels import RowLabels
from warehouse.reconcile.ledger.layout.merged_cells import MergedCells
from warehouse.reconcile.ledger.layout.spellings import Rename, rename_all
from warehouse.reconcile.ledger.model import (
    FilePart,
    LedgerRows,
    RejectedRow,
    Unused,
)
from warehouse.reconcile.terms.dates import is_date
from warehouse.reconcile.terms.dimensions import FIELDS, REQUIRED_NAMES
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.reading.delimited_text import Cells, Row
from warehouse.spreadsheet.reading.formats.open_document import NO_VALUE
from warehouse.spreadsheet.reading.grid import Grid
from warehouse.spreadsheet.reading.printed_tables import is_page_number, without_digits
from warehouse.spreadsheet.reading.text import as_text, first_text, fold, text_at

_OTHER_DATE = "another date"
# The errors that programs show for a name like =Hedge, =-Hedge or =@Hedge.
_UNKNOWN_NAME = ("#NAME?", "#VALUE!", "Err:508", "Err:509", "Err:510")
_ASSET = FIELDS.index("asset")


@dataclass(slots=True, kw_only=True)
class SheetReading:
    """One sheet while it is read, and what came of its rows; `days` are the dates of its rows.

    `labels` are the names that rows take from above, `totals` the lines that add up others;
    `seen_names` are all names in its cells, folded, once such a line asks for them. `headings` are
    the rows above its header, which are repeated on every page. `renames` take by field the names
    out of the text around them.
    """

    number: int
    grid: Grid
    head: Header
    fields: tuple[str, ...]
    amounts: AmountReader
    labels: RowLabels
    merged: MergedCells
    days: Sequence[date | None]
    undated: frozenset[int]
    day: date | None
    context: ReadingContext
    place: str
    lines: LedgerRows
    used: int = 0
    rejected: list[RejectedRow] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)
    totals: list[SumLine] = field(default_factory=list)
    seen_names: set[str] = field(default_factory=set)
    headings: frozenset[str] = frozenset()
    renames: Mapping[str, Rename] = field(default_factory=dict)
    notices: list[Notice] = field(default_factory=list)
    unused: list[Unused] = field(default_factory=list)


def read_rows(reading: SheetReading) -> None:
    """Read every row of a sheet, each of its amounts by itself."""
    whole = _whole_rows(reading)
    for layer in reading.head.layers:
        for row in _take_plain_rows(reading, layer, whole):
            _read_row(reading, row, layer)
    if reading.totals:
        rows = reading.lines.table
        own = rows.filter(pc.equal(rows["file"], reading.number))
        reading.notices += check_totals(reading.totals, own, reading.place)
    reading.unused += [
        Unused(
            file=reading.place,
            kind=FilePart.ROW,
            name="",
            reason=reason,
            severity="low",
            count=number,
        )
        for reason, number in sorted(reading.skipped.items())
        if reason != _OTHER_DATE
    ]


def _whole_rows(reading: SheetReading) -> Whole | None:
    """Return the rows of a text as columns, where nothing but its cells says what they mean."""
    head, rows = reading.head, reading.grid.rows
    is_plain = head.is_plain and reading.amounts.unit == 1 and not reading.labels
    return rows.whole(head.body, len(head.titles)) if isinstance(rows, Cells) and is_plain else None


def _take_plain_rows(reading: SheetReading, layer: Layer, whole: Whole | None) -> Iterable[int]:
    """Take in the rows that can be read as columns; return the others, to be read one by one."""
    head = reading.head
    numbers = range(head.body, len(reading.grid.rows))
    if whole is None:
        return numbers
    is_read = None
    if reading.day is not None or reading.undated:
        is_read = [
            day in (None, reading.day) and row not in reading.undated
            for row, day in enumerate(reading.days)
        ]
    rows, cells = plain_rows(
        whole,
        head,
        layer,
        reading.amounts.rules,
        is_read=is_read,
        is_name=lambda text: _is_name(text, head.words),
    )
    places = pc.add(rows, reading.grid.line(0))
    for name, rename in reading.renames.items():
        cells[name] = rename_all(cells[name], rename)
    file = pa.repeat(reading.number, len(rows))
    reading.lines.add_all(cells | {"file": file, "line": places})
    reading.used += len(rows)
    is_left = np.ones(len(numbers), bool)
    is_left[rows.to_numpy() - numbers.start] = False
    others: list[int] = (np.flatnonzero(is_left) + numbers.start).tolist()
    return others


def _is_name(text: str, words: Words) -> bool:
    """Return whether a text is a name and nothing else: no blank, no word for a total."""
    return bool(text.strip()) and words.total_name(text) is None


def _read_row(reading: SheetReading, row: int, layer: Layer) -> None:
    cells = reading.grid.rows[row]
    names, skipped = _names(reading, row, cells, layer)
    if skipped:
        reading.skipped[skipped] += 1
        if skipped == "total line":
            _keep_total(reading, row, cells, layer)
        return
    amount, raw = _amount(reading, row, names, layer), _raw(reading, row, layer)
    line = reading.grid.line(row)
    if isinstance(amount, str):
        if amount == BLANK and _may_be_blank(reading):
            reading.skipped["blank amount"] += 1
            return
        if amount == BLANK and not reading.grid.is_blank_sure:
            amount += ", or an error that this format does not show: save the ledger as xlsx"
        reading.rejected.append(RejectedRow(names, raw, amount, reading.number, line))
        return
    asset = names[_ASSET]
    if amount.unit and fold(amount.unit) != fold(asset):
        factor = reading.head.words.factor_of(amount.unit)
        words_ = f"the amount is written in {amount.unit} in a row of {asset}; it was "
        words_ += f"multiplied by {factor}" if factor not in ("", "1") else "used"
        reading.notices.append(Notice("medium", words_, f"{reading.place}:{line}", raw))
        amount = add_up([amount], Decimal(factor)) if factor else amount
    reading.lines.add(names, amount, reading.number, line)
    reading.used += 1


def _may_be_blank(reading: SheetReading) -> bool:
    """Return whether a blank amount is left out: where it is settled, or of one among several."""
    # Of a column for each venue most cells of a row are blank: nothing is held there.
    may_be = reading.context.config.blank == "skip" or len(reading.head.layers) > 1
    return may_be and reading.grid.is_blank_sure


def _keep_total(reading: SheetReading, row: int, cells: Row, layer: Layer) -> None:
    """Keep a line that adds up others, where its amount can be read."""
    text = next(
        (
            as_text(cell).strip()
            for cell in cells
            if reading.head.words.total_name(as_text(cell)) is not None
        ),
        "",
    )
    amount = reading.amounts.read(cells, layer)
    if isinstance(amount, Amount) and len(reading.head.layers) == 1:
        group = fold(reading.head.words.total_name(text) or "")
        line = reading.grid.line(row)
        reading.totals.append(SumLine(line=line, text=text, group=group, amount=amount))


def _names(
    reading: SheetReading, row: int, cells: Row, layer: Layer
) -> tuple[tuple[str, ...], str]:
    """Return the names of a row by field, and why it is skipped, if it is."""
    reason = _reason_of_cells(reading, row, cells)
    if reason:
        return (), reason
    head = reading.head
    stated = {**head.names, **layer.names, **reading.labels.names.get(row, {})}
    names = tuple(stated.get(name) or _name_of(reading, row, cells, name) for name in FIELDS)
    if _is_total(reading, cells):
        return names, "total line"
    if _is_of_page(reading, cells, layer, names[_ASSET]):
        return names, "page header"
    has_amount = any(
        (len(cells) > place and cells[place] != "") or (row, place) in reading.grid.errors
        for place in head.amount_places
    )
    is_named = "asset" in head.columns and bool(names[_ASSET]) and not is_date(names[_ASSET])
    if not has_amount and not is_named:
        return names, "title or note"
    if reading.day is not None and reading.days[row] not in (None, reading.day):
        return names, _OTHER_DATE
    return names, _reason_of_words(head, cells)


def _reason_of_words(head: Header, cells: Row) -> str:
    """Return the word for which recon.toml says that a row is left out, if the row has one."""
    for title, place in head.rows.items():
        word = text_at(cells, place)
        if fold(word) in map(fold, head.shape.skip_rows.get(title, ())):
            return f"{title!r} says {word!r}"
    return ""


def _reason_of_cells(reading: SheetReading, row: int, cells: Row) -> str:
    """Return why a row is skipped whatever its names are."""
    head = reading.head
    if all(cell in ("", None) for cell in cells):
        return "blank line"
    if row in reading.labels.label_rows:
        return "name of a group"
    place = head.columns["amount"]
    is_title = len(cells) > place and cells[place] == head.titles[place]
    return "header repeated" if is_title and _is_header(head, cells) else ""


def _unknown_word(head: Header, cells: Row) -> str:
    """Return the word for which recon.toml does not say whether its rows are used, if any."""
    for title, place in head.rows.items():
        word = text_at(cells, place)
        if fold(word) not in map(fold, head.shape.keep_rows.get(title, ())):
            return f"{title!r} says {word[:40]!r}"
    return ""


def _is_header(head: Header, cells: Row) -> bool:
    return [fold(as_text(cell)) for cell in cells] == [fold(title) for title in head.titles]


def heading_of(cells: Row) -> str:
    """Return the texts of a row without numbers, so that the headings of all pages are equal."""
    return without_digits(" ".join(filter(None, map(str.strip, map(as_text, cells)))))


def _is_of_page(reading: SheetReading, cells: Row, layer: Layer, asset: str) -> bool:
    """Return whether a row is the heading of a page, which a report repeats among its rows."""
    texts = [text for cell in cells if (text := as_text(cell).strip())]
    pairs = (f"{first} {second}" for first, second in pairwise(texts))
    has_number = any(map(is_page_number, (*texts, *pairs)))
    is_repeated = heading_of(cells) in reading.headings
    if not has_number and not is_repeated:
        return False
    # `Page 2` in two cells may put the 2 below the amounts, but then nothing names an asset.
    is_amount = isinstance(reading.amounts.read(cells, layer), Amount)
    return not is_amount or (has_number and (is_repeated or not asset))


def _is_total(reading: SheetReading, cells: Row) -> bool:
    """Return whether a line adds up others: by a word alone, or by one beside a name."""
    # An asset, or an account, may well be called `total`: the word must stand first, and the asset
    # be blank or that word. With a name beside it ("Total Kraken") the name must be one of the book
    # or the asset be blank, so that an asset `Total Return` stays one.
    first = first_text(cells)
    group = reading.head.words.total_name(first)
    if group is None or reading.context.known.dimension_of(first):
        return False
    asset = text_at(cells, reading.head.columns.get("asset"))
    if not asset or reading.head.words.total_name(asset) == "":
        return True
    is_known = bool(reading.context.known.dimension_of(group))
    return bool(group) and (is_known or (asset == first and _is_seen(reading, group)))


def _is_seen(reading: SheetReading, name: str) -> bool:
    """Return whether a name stands in a column of names, as rows above a total have it."""
    if not reading.seen_names:
        places = [place for field, place in reading.head.columns.items() if field in FIELDS]
        rows = reading.grid.rows[reading.head.body :]
        reading.seen_names |= {fold(text_at(row, place)) for row in rows for place in places}
    return fold(name) in reading.seen_names


def _name(reading: SheetReading, row: int, cells: Row, place: int | None) -> str:
    """Return the name in a cell; of a merged cell, what stands at its top."""
    if place is None:
        return ""
    text = as_text(cells[place]) if len(cells) > place else ""
    if text:
        return text
    top = reading.merged.top_of(row, place)
    return as_text(reading.grid.rows[top[0]][top[1]]) if top else ""


def _name_of(reading: SheetReading, row: int, cells: Row, name: str) -> str:
    """Return the name of a field in a row, without the text that is spelled around it."""
    text = _name(reading, row, cells, reading.head.columns.get(name))
    rename = reading.renames.get(name)
    return rename(text) if rename is not None and text else text


def _amount(reading: SheetReading, row: int, names: tuple[str, ...], layer: Layer) -> Amount | str:
    """Return the amount of a row, or the reason why it cannot be used."""
    grid, places, cells = reading.grid, reading.head.columns, reading.grid.rows[row]
    fields = [(name, at) for name, at in places.items() if name != "amount"]
    for name, where in (*fields, *(("amount", term.place) for term in layer.terms)):
        if (row, where) in grid.errors:
            return _reason_of_error(name, grid.errors[row, where])
    if any(as_text(extra) for extra in cells[len(reading.head.titles) :]):
        return "the row has more cells than the header"
    for name in REQUIRED_NAMES:
        if name in reading.head.fields and not names[FIELDS.index(name)].strip():
            return f"the {name} is blank"
    if word := _unknown_word(reading.head, cells):
        return f"recon.toml does not say whether a row counts if {word}"
    if row in reading.undated:
        return f"the date {text_at(cells, places['as_of'])[:40]!r} is not understood"
    return reading.amounts.read(cells, layer, names[_ASSET])


def _reason_of_error(name: str, error: str) -> str:
    """Return why a cell without a value cannot be used, and what to do about it."""
    if name in FIELDS and error.startswith((NO_VALUE, *_UNKNOWN_NAME)):
        shown = "" if error == NO_VALUE else f" ({error})"
        return (
            f"the {name} is a formula without a result{shown[:40]}. If it is a name that begins "
            "with =, +, - or @, type an apostrophe before it ('=Name). If it is a formula, let its "
            "program calculate it"
        )
    return f"the {name} is an error cell: {error}"[:200]


def _raw(reading: SheetReading, row: int, layer: Layer) -> str:
    """Return what stands in the cells of an amount."""
    cells = reading.grid.rows[row]
    texts = (
        reading.grid.errors.get((row, term.place), as_text(cells[term.place]))
        for term in layer.terms
        if len(cells) > term.place
    )
    return " | ".join(texts)
