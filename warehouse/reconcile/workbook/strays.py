"""Text outside the yellow cells of a workbook, which is not read back."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import python_calamine
from xlsxwriter.utility import xl_rowcol_to_cell

from warehouse.contract.model import and_more, count_of
from warehouse.reconcile.book import in_name_cell
from warehouse.reconcile.model import DisplayNames, Notice, Result, WorkbookEdits
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import NotReconciled
from warehouse.reconcile.workbook import imprint, write
from warehouse.reconcile.workbook.edits import BREAK_ID
from warehouse.reconcile.workbook.imprint import Cell, SheetImprint, cell_text
from warehouse.reconcile.workbook.sheet_comparison import (
    BANNER,
    Sheets,
    paired_sheets,
    without_people,
)
from warehouse.reconcile.workbook.verify import position_table, shown_names
from warehouse.spreadsheet.writing.cells import Digits

_MAX_STRAY, _MAX_PLACES = 10, 100
_LETTERS = re.compile(r"[^\W\d_]{2}")
_ID = re.compile(rf"K-[0-9A-F]{{16}}|{BREAK_ID.pattern}")


def stray_notices(record: Record, edits: WorkbookEdits) -> Iterator[Notice]:
    """Yield notices about text outside the yellow cells, because such text is not read back."""
    written = imprint.unpack(record.imprint(edits.written))
    if written is None:
        return
    try:
        content = edits.path.read_bytes()
        texts = [
            *_stray_texts(written, imprint.read(content)),
            *_stray_near_positions(record, content, edits),
        ]
    except python_calamine.CalamineError:
        # Ignore a damaged sheet here, because the comments were already read and `verify` reports
        # the damage.
        return
    for place, text in texts[:_MAX_STRAY]:
        message = f"{text[:200]!r} is outside the yellow cells, so nightbook ignores it. Write it "
        message += "in a break's Status, Owner, Root cause or Comment cell instead"
        yield Notice("medium", message, f"{edits.name}!{place}", text[:1000])
    if len(texts) > _MAX_STRAY:
        places = and_more([place for place, _ in texts[_MAX_STRAY:]], _MAX_PLACES)
        more = count_of(len(texts) - _MAX_STRAY, "more text")
        yield Notice("medium", f"{more} outside the yellow cells: {places}", edits.name)


def _stray_texts(written: Sheets, copy: Sheets) -> Iterator[tuple[str, str]]:
    """Yield each string that a person added to our sheets, with the sheet and the cell."""
    for name, other in paired_sheets(written, copy).items():
        then, now = _texts_outside(written[name]), _texts_outside(copy[other])
        # People may have moved rows and columns, so accept each string in any cell, as often as it
        # was written. Strings that are still in their original cells do not count as moved.
        moved = Counter(text for place, text in then.items() if now.get(place) != text)
        for place, text in now.items():
            if then.get(place) == text:
                continue
            is_counted = BANNER.fullmatch(text) or text.startswith("REVIEWERMUSTDIFFER")
            if moved[text]:
                moved[text] -= 1
            elif not is_counted and place not in copy[other].formulas:
                yield f"{other}!{xl_rowcol_to_cell(*place)}", cell_text(text)


def _texts_outside(sheet: SheetImprint) -> dict[tuple[int, int], str]:
    """Return the text outside the cells that people fill in, by row and column."""
    return {
        (line, column): cell
        for line, row in enumerate(without_people(sheet.rows))
        for column, cell in enumerate(row)
        if _LETTERS.search(cell)
    }


def _stray_near_positions(
    record: Record, content: bytes, edits: WorkbookEdits
) -> Iterator[tuple[str, str]]:
    """Yield text that a person added to the sheets with all positions.

    The cells of these sheets are not stored, so compare the text with the stored positions.
    """
    result = record.result_of(edits.run_id)
    if result is None:
        return
    try:
        keys = write.read_positions(record.day_files(result.day)[1], result.run_id, result.fields)
    except NotReconciled:  # Ignore a damaged file here, because `verify` reports damage.
        return
    known = _texts_of_positions(keys, result.fields, result.workbook.names)
    # Skip numbers and known strings first, because there are millions of cells and nearly all of
    # them contain numbers or known strings.
    added = (
        (f"{name}!{xl_rowcol_to_cell(line, column)}", cell)
        for name, sheet in imprint.open_sheets(content, has_positions=True)
        for line, row in enumerate(sheet.iter_rows())
        for column, cell in enumerate(row)
        if type(cell) is str and cell not in known and not _ID.fullmatch(cell)
    )
    plain: set[str] = set()
    for place, text in added:
        plain = plain or {Cell(known_text) for known_text in known}
        if _LETTERS.search(text) and Cell(text) not in plain:
            yield place, text


def _texts_of_positions(keys: pa.Table, fields: Sequence[str], names: DisplayNames) -> set[str]:
    """Return the strings that the run wrote to the position sheets, except IDs."""
    known = {
        *position_table(fields).titles,
        "Key",
        *(f"{name.capitalize()} id" for name in fields),
    }
    known |= {code.label for code in Result}
    known |= {digits.words for digits in Digits}
    for name in fields:
        known.update(map(in_name_cell, pc.unique(keys[name]).to_pylist()))
        known.update(pc.unique(shown_names(keys, name, names)).to_pylist())
    return known
