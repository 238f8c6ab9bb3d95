"""The tables that a workbook must hold, from the stored result of its run."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.breaks.identity import display_names
from warehouse.reconcile.comments.annotations import in_cell
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.names import in_name_cell
from warehouse.reconcile.matching.totals import STEPPED, Tie
from warehouse.reconcile.store.records import Break, RunResult
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.dimensions import FIELDS, TOTALLED, display_asset
from warehouse.reconcile.terms.errors import NotReconciled
from warehouse.reconcile.workbook import positions
from warehouse.reconcile.workbook.breaks import exact_amounts
from warehouse.reconcile.workbook.content import BREAKS, POSITIONS, ROLLED, TIES, UNMATCHED
from warehouse.reconcile.workbook.readback.read_tables import SheetTable, TableRows
from warehouse.spreadsheet.reading.text import as_text
from warehouse.spreadsheet.writing.cells import Digits, number
from warehouse.spreadsheet.writing.exact_difference import fixed_point

OLDER = "the result was kept by an older nightbook, which did not keep what stands there"
_EXACT = ("Ledger, exact", "Book, exact", "Difference, exact")
_AMOUNTS = ("Ledger", "Book")
_PARTS = ("In breaks, exact", "Within tolerance, exact")
_BREAKS = SheetTable(
    sheet=BREAKS,
    marks=("Break ID", "Comment"),
    key=("Break ID",),
    values=("Result", *(name.capitalize() for name in FIELDS), *_EXACT),
    mark="Break ID",
    pattern=r"^\s*B-[0-9A-F]{8,64}\s*$",
)
_TIES = SheetTable(
    sheet=TIES,
    marks=("Level", "Name", "Asset"),
    key=("Level", "Name", "Asset"),
    values=("Positions", "Breaks", "Result", "Sums agree", *_EXACT, *_PARTS),
    mark="Level",
    pattern=rf"^\s*({'|'.join(TOTALLED)})\s*$",
)
_STEPS = tuple(f"{title}, exact" for title in STEPPED)
_ROLLED = SheetTable(
    sheet=ROLLED,
    marks=("Asset", "Adds up"),
    key=("Asset",),
    values=(*_STEPS, "Adds up"),
    mark="Adds up",
)
WITH_KEYS = (_BREAKS, _TIES, _ROLLED)
_WITH_BLANKS = 3  # the wording from which an amount that was not read is blank, not zero
# Titles of the first wording by those of today.
_FIRST_TITLES = {
    "Level": "Per",
    "Name": "Of",
    "Positions": "Keys",
    "In breaks, exact": "Of breaks, exact",
}


def pages_of(fields: Sequence[str], wording: int) -> tuple[SheetTable, ...]:
    """Return the tables of a workbook at a level, with the titles of its wording."""
    pages = (*WITH_KEYS, _positions_page(fields))
    return pages if wording > 1 else tuple(map(_in_first_wording, pages))


def _in_first_wording(page: SheetTable) -> SheetTable:
    def titles(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(_FIRST_TITLES.get(name, name.replace("Book", "Snapshot")) for name in names)

    return replace(
        page,
        marks=titles(page.marks),
        key=titles(page.key),
        values=titles(page.values),
        mark=titles([page.mark])[0],
        numbers=titles(page.numbers),
    )


def _positions_page(fields: Sequence[str]) -> SheetTable:
    """Return the table of all keys at a level."""
    exact = ("Result", "Break ID", "Ledger, exact", "Book, exact", "Ledger rows")
    return SheetTable(
        POSITIONS,
        marks=("Result", "Break ID", "Ledger rows"),
        key=tuple(name.capitalize() for name in fields),
        values=(*exact, *_AMOUNTS, "Digits"),
        mark="Result",
        adds_up=True,
        numbers=_AMOUNTS,
    )


def sheet_name(page: SheetTable, read: TableRows) -> str:
    """Return what the sheet is called there: the long table has two names, by what it lists."""
    return UNMATCHED if _lists_odd(page, read) else page.sheet


def _lists_odd(page: SheetTable, read: TableRows) -> bool:
    return page.sheet == POSITIONS and any(name.startswith(UNMATCHED) for name in read.sheets)


def stored_table(
    store: Store, page: SheetTable, read: TableRows, result: RunResult, wording: int
) -> pa.Table:
    """Return what the table must hold; raise `NotReconciled` where that is not known."""
    if page.sheet == BREAKS:
        return _table(page, (_break(break_, wording) for break_ in result.breaks))
    texts = result.workbook
    if texts is None:
        raise NotReconciled(f"{OLDER}. `nightbook reconcile run` keeps it.")
    if page.sheet == TIES:
        return _table(page, (_tie(tie, texts.names) for tie in result.ties))
    if page.sheet == ROLLED:
        return _table(page, texts.rolled)
    path = store.day_files(result.day).positions
    keys = positions.read_positions(path, result.run_id, result.fields)
    if _lists_odd(page, read):
        results = texts.left_out or (Result.MATCHED.value,)
        keys = keys.filter(pc.invert(pc.is_in(keys["result"], pa.array(results))))
    table = _position_table(page, keys, result.fields, texts.names)
    place = table.column_names.index("Result")
    shown = pc.dictionary_encode(table["Result"]).combine_chunks()
    words = [_result_words(code, wording) for code in shown.dictionary.to_pylist()]
    return table.set_column(place, "Result", pa.array(words, pa.string()).take(shown.indices))


def texts_of_positions(store: Store, page: SheetTable, result: RunResult, wording: int) -> set[str]:
    """Return every text of the sheets of all positions, besides lookup keys and break IDs.

    Raise `NotReconciled` if they are not known.
    """
    if result.workbook is None:
        raise NotReconciled(f"{OLDER}. `nightbook reconcile run` keeps it.")
    names, path = result.workbook.names, store.day_files(result.day).positions
    keys = positions.read_positions(path, result.run_id, result.fields)
    known = {*page.titles, "Key", *(f"{name.capitalize()} id" for name in result.fields)}
    known |= {_result_words(code.value, wording) for code in Result}
    known |= {digits.words for digits in Digits}
    for name in result.fields:
        for id_ in pc.unique(keys[name]).to_pylist():
            known |= {in_name_cell(id_), in_name_cell(display_asset(id_))}
            for is_unmapped in (False, True):
                shown = display_names((name,), (id_,), names, is_unmapped=is_unmapped)
                known.add(in_name_cell(shown[name]))
    return known


def _table(
    page: SheetTable, rows: Iterator[Sequence[object]] | Sequence[Sequence[object]]
) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(page.titles)
    return pa.table(
        {
            title: pa.array(map(str, cells), pa.string())
            for title, cells in zip(page.titles, columns, strict=True)
        }
    )


def _result_words(code: str, wording: int) -> str:
    """Return the text of a result; in the first wording it was the code."""
    return Result(code).words if wording > 1 else code


def _break(break_: Break, wording: int) -> list[str]:
    names = [in_name_cell(break_.names.get(field, "")) for field in FIELDS]
    exact = exact_amounts(break_)
    if wording < _WITH_BLANKS:
        exact = fixed_point(break_.ledger), fixed_point(break_.snapshot), break_.difference
    return [break_.id, _result_words(break_.result, wording), *names, *exact]


def _tie(table: Tie, names: Mapping[str, Mapping[str, str]]) -> list[object]:
    of = names.get(table.level, {}).get(table.of, table.of)
    of = display_asset(of) if table.level == "asset" else of
    figures = [table.ledger, table.snapshot, table.difference, table.broken, table.near]
    results = [table.keys, table.breaks, table.result, "yes" if table.adds_up else "NO"]
    return [table.level, in_cell(of), in_cell(display_asset(table.asset)), *results, *figures]


def _position_table(
    page: SheetTable, keys: pa.Table, fields: Sequence[str], names: Mapping[str, Mapping[str, str]]
) -> pa.Table:
    """Return the keys as their sheet shows them; each name is looked up once, not once a row."""
    unmapped = pc.is_in(keys["result"], pa.array([Result.UNMAPPED.value, Result.REJECTED.value]))
    columns = []
    for name in fields:
        coded = keys[name].combine_chunks().dictionary_encode()
        mapped, folded = (
            pa.array(
                [
                    in_name_cell(display_names((name,), (id_,), names, is_unmapped=is_one)[name])
                    for id_ in coded.dictionary.to_pylist()
                ],
                pa.string(),
            ).take(coded.indices)
            for is_one in (False, True)
        )
        columns.append(pc.if_else(unmapped.combine_chunks(), folded, mapped))
    others = ("result", "break_id", "ledger_text", "snapshot_text", "ledger_rows")
    columns += [pc.fill_null(keys[name].cast(pa.string()), "") for name in others]
    columns += _numbers(keys["ledger_text"].to_pylist(), keys["snapshot_text"].to_pylist())
    return pa.table(columns, names=list(page.titles))


def _numbers(*sides: Sequence[str | None]) -> list[pa.Array]:
    """Return the number cells of both amounts, and whether they are their texts."""
    cells = [[number(text or "") for text in side] for side in sides]
    ranks = [max(table for _, table in pair) for pair in zip(*cells, strict=True)]
    numbers = [pa.array([_figure(cell) for cell, _ in side], pa.string()) for side in cells]
    return [*numbers, pa.array([rank.words for rank in ranks], pa.string())]


def _figure(cell: str) -> str:
    return as_text(float(cell)) if cell else ""
