"""A workbook held against the stored result of its run: what differs, row by row and cell by cell.

Exact texts, names, results and counts are held against the result by the keys of their rows, and
every other cell against what was written there (`imprint`, `likeness`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from warehouse.reconcile.breaks.identity import shown_names
from warehouse.reconcile.comments.annotations import in_cell
from warehouse.reconcile.dimensions import FIELDS, TOTALLED, display_asset
from warehouse.reconcile.errors import NotReconciled
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.names import in_name_cell
from warehouse.reconcile.matching.totals import STEPPED, Tie
from warehouse.reconcile.store.archive import Folder, Json
from warehouse.reconcile.workbook import positions
from warehouse.reconcile.workbook.content import BREAKS, POSITIONS, ROLLED, TIES, UNMATCHED
from warehouse.reconcile.workbook.readback import imprint
from warehouse.reconcile.workbook.readback.likeness import likeness
from warehouse.reconcile.workbook.readback.read_tables import Found, Page, plainly, read_pages
from warehouse.reconcile.workbook.sheet import fixed_point
from warehouse.spreadsheet.reading.text import as_text
from warehouse.spreadsheet.writing.cells import number

TOLD = 200  # rows of one table: who finds more has lost the table, not a figure
_LONGEST = 60
_EXACT = ("Ledger, exact", "Snapshot, exact", "Difference, exact")
_PARTS = ("Of breaks, exact", "Within tolerance, exact")
_BREAKS = Page(
    BREAKS,
    ("Break ID", "Comment"),
    ("Break ID",),
    ("Result", *(name.capitalize() for name in FIELDS), *_EXACT),
    "Break ID",
    r"^\s*B-[0-9A-F]{8,64}\s*$",
)
_TIES = Page(
    TIES,
    ("Per", "Of", "Asset"),
    ("Per", "Of", "Asset"),
    ("Keys", "Breaks", "Result", "Sums agree", *_EXACT, *_PARTS),
    "Per",
    rf"^\s*({'|'.join(TOTALLED)})\s*$",
)
_ROLLED = Page(ROLLED, ("Asset", "Adds up"), ("Asset",), (*STEPPED, "Adds up"), "Adds up")
WITH_KEYS = (_BREAKS, _TIES, _ROLLED)
_Row = tuple[dict[str, str], tuple[int, int]]
_OLDER = "the result was kept by an older nightbook, which did not keep what stands there"


@dataclass(frozen=True, slots=True)
class Held:
    """What came of it: `compared` are the tables that were, `uncompared` why others were not."""

    differences: tuple[str, ...]
    compared: tuple[str, ...]
    uncompared: tuple[str, ...]


def compare_workbook(folder: Folder, content: bytes, result: Json, written: str = "") -> Held:
    """Hold every table of a workbook against the stored result, and every cell that was written.

    `written` is what the workbook calls the writing that it shows.

    Raises `CalamineError` where a sheet cannot be read.
    """
    pages = (_BREAKS, _TIES, _ROLLED, _positions(result["fields"]))
    read = read_pages(content, pages)
    differences: list[str] = []
    compared: list[str] = []
    uncompared: list[str] = []
    for page in pages:
        table = read[page.sheet]
        try:
            stored = _stored_table(folder, page, table, result)
        except NotReconciled as error:
            uncompared.append(f"{_name(page, table)} was not compared: {error}")
            continue
        differences += _differences(page, table, stored)
        rows = "row" if stored.num_rows == 1 else "rows"
        compared.append(f"{stored.num_rows} {rows} of {_name(page, table)}")
    kept = imprint.read_imprint(folder, written) or imprint.read_imprint(
        folder, result.get("written", "")
    )
    if kept is None:
        others = "number cells, Summary and the sheets of words"
        uncompared.append(f"{others} were not compared: {_OLDER}.")
    else:
        left = {page.sheet: page for page in WITH_KEYS}
        like = likeness(kept, imprint.read(content, read[POSITIONS].sheets), left)
        differences += like.differences
        compared.append(f"every other cell of {', '.join(kept)}")
        uncompared += [f"the sheet {name!r} is none of the run" for name in like.others]
    return Held(tuple(differences), tuple(compared), tuple(uncompared))


def _positions(fields: Sequence[str]) -> Page:
    return Page(
        POSITIONS,
        ("Result", "Break ID", "Ledger rows"),
        tuple(name.capitalize() for name in fields),
        (
            *("Result", "Break ID", "Ledger, exact", "Snapshot, exact", "Ledger rows"),
            *("Ledger", "Snapshot", "Digits"),
        ),
        "Result",
        adds_up=True,
    )


def _name(page: Page, read: Found) -> str:
    """The sheet as it is called there; that of the long table depends on how many keys it lists."""
    return UNMATCHED if _lists_odd(page, read) else page.sheet


def _lists_odd(page: Page, read: Found) -> bool:
    return page.sheet == POSITIONS and any(name.startswith(UNMATCHED) for name in read.sheets)


def _stored_table(folder: Folder, page: Page, read: Found, result: Json) -> pa.Table:
    """What the table must hold; raises `NotReconciled` where that is not known."""
    if page.sheet == BREAKS:
        return _table(page, map(_break, result["breaks"]))
    written = result.get("workbook")
    if written is None:
        raise NotReconciled(f"{_OLDER}. `nightbook reconcile run` keeps it.")
    if page.sheet == TIES:
        return _table(page, (_tie(Tie(**tie), written["names"]) for tie in result["ties"]))
    if page.sheet == ROLLED:
        return _table(page, written["rolled"])
    place = folder.out / result["day"] / positions.name(date.fromisoformat(result["day"]))
    kept = positions.read_positions(place, result["run_id"], result["fields"])
    if _lists_odd(page, read):
        kept = kept.filter(pc.not_equal(kept["result"], Result.MATCHED.value))
    return _position_table(page, kept, result["fields"], written["names"])


def _table(page: Page, rows: Iterator[Sequence[object]] | Sequence[Sequence[object]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(page.titles)
    return pa.table(
        {
            title: pa.array(map(str, cells), pa.string())
            for title, cells in zip(page.titles, columns, strict=True)
        }
    )


def _break(break_: Json) -> list[str]:
    names = [in_name_cell(break_["names"].get(field, "")) for field in FIELDS]
    exact = [fixed_point(break_["ledger"]), fixed_point(break_["snapshot"]), break_["difference"]]
    return [break_["id"], break_["result"], *names, *exact]


def _tie(table: Tie, names: Mapping[str, Mapping[str, str]]) -> list[object]:
    of = names.get(table.level, {}).get(table.of, table.of)
    of = display_asset(of) if table.level == "asset" else of
    figures = [table.ledger, table.snapshot, table.difference, table.broken, table.near]
    told = [table.keys, table.breaks, table.result, "yes" if table.adds_up else "NO"]
    return [table.level, in_cell(of), in_cell(display_asset(table.asset)), *told, *figures]


def _position_table(
    page: Page, kept: pa.Table, fields: Sequence[str], names: Mapping[str, Mapping[str, str]]
) -> pa.Table:
    """The keys as their sheet shows them; each name is looked up once, not once a row."""
    unmapped = pc.is_in(kept["result"], pa.array([Result.UNMAPPED.value, Result.REJECTED.value]))
    columns = []
    for name in fields:
        coded = kept[name].combine_chunks().dictionary_encode()
        mapped, folded = (
            pa.array(
                [
                    in_name_cell(shown_names((name,), (id_,), names, is_unmapped=is_one)[name])
                    for id_ in coded.dictionary.to_pylist()
                ],
                pa.string(),
            ).take(coded.indices)
            for is_one in (False, True)
        )
        columns.append(pc.if_else(unmapped.combine_chunks(), folded, mapped))
    others = ("result", "break_id", "ledger_text", "snapshot_text", "ledger_rows")
    columns += [pc.fill_null(kept[name].cast(pa.string()), "") for name in others]
    columns += _numbers(kept["ledger_text"].to_pylist(), kept["snapshot_text"].to_pylist())
    return pa.table(columns, names=list(page.titles))


def _numbers(*sides: Sequence[str | None]) -> list[pa.Array]:
    """The number cells of both amounts, and whether they are their texts."""
    shown = [[number(text or "") for text in side] for side in sides]
    ranks = [max(table for _, table in pair) for pair in zip(*shown, strict=True)]
    numbers = [pa.array([_figure(cell) for cell, _ in side], pa.string()) for side in shown]
    return [*numbers, pa.array([rank.words for rank in ranks], pa.string())]


def _figure(cell: str) -> str:
    return as_text(float(cell)) if cell else ""


def _differences(page: Page, read: Found, stored: pa.Table) -> Iterator[str]:
    if not read.sheets:
        marks = ", ".join(page.marks)
        yield f"{page.sheet} is missing: no sheet has a row with the headers {marks}"
        return
    for title, count in read.odd.items():
        what = "stands there more than once" if count else "is missing"
        yield f"{_name(page, read)}: the column {title!r} {what}; its cells were not compared"
    titles = [title for title in page.titles if title not in read.odd]
    key = [title for title in page.key if title in titles]
    seen = pa.concat_tables([stored.slice(0, 0), *read.tables]).select(titles)
    odd = _odd(stored.select(titles), seen, adds_up=page.adds_up)
    by_key: dict[tuple[str, ...], tuple[list[_Row], list[_Row]]] = {}
    for row, often in odd:
        sides = by_key.setdefault(tuple(row[title].strip() for title in key), ([], []))
        sides[often[0] < often[1]].append((row, often))
    for names, (then, now) in sorted(by_key.items())[:TOLD]:
        at = " / ".join(name[:_LONGEST] for name in names)
        where = at if page.sheet == BREAKS else f"{_name(page, read)}, {at}"
        yield from _words(where, then, now)
    if len(by_key) > TOLD:
        yield f"{_name(page, read)}: {len(by_key) - TOLD} more rows differ"


def _odd(stored: pa.Table, seen: pa.Table, *, adds_up: bool) -> Iterator[_Row]:
    """The rows that only one side has, or more often, with how often each has them."""
    sides = [stored, seen]
    plain = [
        pa.table([plainly(column) for column in side.columns], names=side.column_names)
        for side in sides
    ]
    if plain[0].equals(plain[1]):
        return
    signed = [
        side.append_column("stored", pa.repeat(int(not number), side.num_rows))
        .append_column("seen", pa.repeat(number, side.num_rows))
        .append_column("place", pa.array(range(start, start + side.num_rows), pa.int64()))
        for number, (side, start) in enumerate(zip(plain, (0, stored.num_rows), strict=True))
    ]
    how = "sum" if adds_up else "max"
    counted = (
        pa.concat_tables(signed)
        .group_by(stored.column_names)
        .aggregate([("stored", how), ("seen", how), ("place", "min")])
    )
    odd = counted.filter(pc.not_equal(counted[f"stored_{how}"], counted[f"seen_{how}"]))
    rows = pa.concat_tables(sides).take(odd["place_min"]).to_pylist()
    often = zip(odd[f"stored_{how}"].to_pylist(), odd[f"seen_{how}"].to_pylist(), strict=True)
    yield from zip(rows, often, strict=True)


def _words(where: str, then: Sequence[_Row], now: Sequence[_Row]) -> Iterator[str]:
    """What became of one key, of which each side has none, one or several rows."""
    if len(then) == len(now) == 1:
        for title, was in then[0][0].items():
            given = now[0][0][title]
            if len(plainly(pa.chunked_array([[was, given]])).unique()) > 1:
                name = title.removesuffix(", exact").lower()
                yield f"{where}: {name} was {was[:_LONGEST]} and is now {given[:_LONGEST]!r}"
        return
    for _, (stored, seen) in (*then, *now):
        if not seen:
            yield f"{where} is missing"
        elif not stored:
            yield f"{where} is in no such row of the run"
        else:
            yield f"{where} stands there {seen} times and not {stored}"
