"""A workbook held against the stored result of its run: what differs, row by row and cell by cell.

Exact texts, names, results and counts are held against the result by the keys of their rows, and
every other cell against what was written there (`imprint`, `likeness`).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import python_calamine

from warehouse.contract.wording import and_more, count_of
from warehouse.reconcile.comments import signoff
from warehouse.reconcile.comments.edits import WorkbookEdits, read_edits
from warehouse.reconcile.store.records import RunResult, Signature
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.errors import NotReconciled
from warehouse.reconcile.terms.notices import Notice
from warehouse.reconcile.workbook.content import BREAKS, POSITIONS, UNMATCHED
from warehouse.reconcile.workbook.readback import imprint
from warehouse.reconcile.workbook.readback.likeness import likeness, stray_texts, unknown_texts
from warehouse.reconcile.workbook.readback.read_tables import (
    SheetTable,
    TableRows,
    comparable,
    is_same_number,
    read_pages,
)
from warehouse.reconcile.workbook.readback.stored_tables import (
    OLDER,
    pages_of,
    sheet_name,
    stored_table,
    texts_of_positions,
)

TOLD = 200  # rows of one table: who finds more has lost the table, not a figure
_LONGEST, _STRAY, _PLACES = 60, 10, 100
_Row = tuple[dict[str, str], tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyResult:
    """What differs between a workbook and the result it shows.

    `compared` says which rows of which sheets were compared, `uncompared` why others were not.
    """

    file: Path
    run_id: str
    differences: tuple[str, ...]
    compared: tuple[str, ...]
    uncompared: tuple[str, ...]
    signatures: tuple[Signature, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether everything that was compared is as it was."""
        return not self.differences

    @property
    def words(self) -> str:
        """What may be said where it is whole."""
        rows = " and ".join(filter(None, (", ".join(self.compared[:-1]), self.compared[-1])))
        return (
            f"{self.file}: {rows} are as run {self.run_id} wrote them: numbers, texts, names and "
            "formulas. What people write was not compared."
        )


def verify_workbook(store: Store, file: Path) -> VerifyResult:
    """Hold a workbook against the stored result of its run.

    Raises `NotReconciled` where the file is no workbook of ours, its run is not known, or a sheet
    cannot be read.
    """
    if not file.is_file():
        raise NotReconciled(
            f"There is no file {file}. Nothing was verified. Give its path from here: nightbook "
            "reconcile verify FILE. Workbooks are written in the home, under reconcile/out."
        )
    content = file.read_bytes()
    edits = read_edits(file, content) if content else None
    result = store.result_of(edits.run_id) if edits else None
    if edits is None or result is None:
        raise NotReconciled(
            f"{file.name} is no workbook of a run that this folder knows. Nothing was verified."
        )
    try:
        return _compare_workbook(store, file, content, result, edits)
    except python_calamine.CalamineError as error:
        raise NotReconciled(
            f"A sheet of {file.name} cannot be read ({error}): it is damaged. Nothing was "
            "verified. Take the workbook from where it was written, or from the backup."
        ) from error


def stray_notices(store: Store, edits: WorkbookEdits) -> Iterator[Notice]:
    """Yield a notice for each text outside the fields for people, which nobody reads back."""
    written = imprint.read_imprint(store, edits.written)
    if written is None:
        return
    try:
        content = edits.path.read_bytes()
        texts = list(stray_texts(written, imprint.read(content)))
        texts += _stray_beside_positions(store, content, edits)
    except python_calamine.CalamineError:
        return  # what people wrote was read by another reader, and verify tells the damage
    for place, text in texts[:_STRAY]:
        words = f"{text[:200]!r} is outside the yellow cells, so it is not read back. Write it "
        words += "under Status, Owner, Root cause or Comment of a break"
        yield Notice("medium", words, f"{edits.name}!{place}", text[:1000])
    if len(texts) > _STRAY:
        places = and_more([place for place, _ in texts[_STRAY:]], _PLACES)
        words = f"{count_of(len(texts) - _STRAY, 'more text')} outside the yellow cells: {places}"
        yield Notice("medium", words, edits.name)


def _stray_beside_positions(
    store: Store, content: bytes, edits: WorkbookEdits
) -> Iterator[tuple[str, str]]:
    """Yield the texts on the sheets of all positions that the run did not write, with their cells.

    The imprint does not have these sheets. Their texts are those of the file with all positions.
    """
    result = store.result_of(edits.run_id)
    if result is None:
        return
    page = next(page for page in pages_of(result.fields, edits.wording) if page.sheet == POSITIONS)
    try:
        known = texts_of_positions(store, page, result, edits.wording)
    except NotReconciled:  # verify says what is wrong with that file
        return
    yield from unknown_texts(content, page, (POSITIONS, UNMATCHED), known)


def _compare_workbook(
    store: Store, file: Path, content: bytes, result: RunResult, edits: WorkbookEdits
) -> VerifyResult:
    """Hold every table of a workbook against the stored result, and every cell that was written.

    `edits` names the writing and the wording that the workbook shows.

    Raises `CalamineError` where a sheet cannot be read.
    """
    pages = pages_of(result.fields, edits.wording)
    read = read_pages(content, pages)
    differences: list[str] = []
    compared: list[str] = []
    uncompared: list[str] = []
    for page in pages:
        table = read[page.sheet]
        try:
            stored = stored_table(store, page, table, result, edits.wording)
        except NotReconciled as error:
            uncompared.append(f"{sheet_name(page, table)} was not compared: {error}")
            continue
        differences += _differences(page, table, stored)
        rows = "row" if stored.num_rows == 1 else "rows"
        compared.append(f"{stored.num_rows} {rows} of {sheet_name(page, table)}")
    written_cells = imprint.read_imprint(store, edits.written) or imprint.read_imprint(
        store, result.written
    )
    if written_cells is None:
        uncompared.append(
            f"number cells, Summary and the sheets of words were not compared: {OLDER}."
        )
    else:
        copy = imprint.read(content, read[POSITIONS].sheets)
        like = likeness(
            written_cells, copy, {page.sheet: page for page in pages if page.sheet != POSITIONS}
        )
        differences += like.differences
        compared.append(f"every other cell of {', '.join(written_cells)}")
        uncompared += [f"the sheet {name!r} is none of the run" for name in like.others]
    return VerifyResult(
        file=file,
        run_id=result.run_id,
        differences=tuple(differences),
        compared=tuple(compared),
        uncompared=tuple(uncompared),
        signatures=tuple(signoff.valid(store, result.digest).values()),
    )


def _differences(page: SheetTable, read: TableRows, stored: pa.Table) -> Iterator[str]:
    if not read.sheets:
        marks = ", ".join(page.marks)
        yield f"{page.sheet} is missing: no sheet has a row with the headers {marks}"
        return
    for title, count in read.faulty_titles.items():
        what = "stands there more than once" if count else "is missing"
        yield f"{sheet_name(page, read)}: the column {title!r} {what}; its cells were not compared"
    titles = [title for title in page.titles if title not in read.faulty_titles]
    key = [title for title in page.key if title in titles]
    seen = pa.concat_tables([stored.slice(0, 0), *read.tables]).select(titles)
    odd = _row_differences(stored.select(titles), seen, adds_up=page.adds_up)
    by_key: dict[tuple[str, ...], tuple[list[_Row], list[_Row]]] = {}
    for row, often in odd:
        sides = by_key.setdefault(tuple(row[title].strip() for title in key), ([], []))
        sides[often[0] < often[1]].append((row, often))
    changed = [(names, sides) for names, sides in by_key.items() if _differ(*sides, page.numbers)]
    for names, (then, now) in sorted(changed, key=itemgetter(0))[:TOLD]:
        at = " / ".join(name[:_LONGEST] for name in names)
        where = at if page.sheet == BREAKS else f"{sheet_name(page, read)}, {at}"
        yield from _difference_words(where, then, now, page.numbers)
    if len(changed) > TOLD:
        yield f"{sheet_name(page, read)}: {len(changed) - TOLD} more rows differ"


def _row_differences(stored: pa.Table, seen: pa.Table, *, adds_up: bool) -> Iterator[_Row]:
    """Yield the rows that only one side has, or more often, with how often each has them."""
    # Both sides are stacked, marked with whose they are, and grouped by all their cells: a million
    # rows are compared without one of them becoming an object, and in any order.
    sides = [stored, seen]
    plain = [
        pa.table([comparable(column) for column in side.columns], names=side.column_names)
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


def _differ(then: list[_Row], now: list[_Row], numbers: Collection[str]) -> bool:
    """Return whether rows of one key differ by more than the last digit of `numbers`.

    Remove the rows that do not.
    """
    for row, (stored, seen) in list(then):
        same = next(
            (
                other
                for other in now
                if other[1] == (seen, stored) and not any(_changes(row, other[0], numbers))
            ),
            None,
        )
        if same is not None:
            now.remove(same)
            then.remove((row, (stored, seen)))
    return bool(then or now)


def _changes(
    row: Mapping[str, str], other: Mapping[str, str], numbers: Collection[str]
) -> Iterator[str]:
    """Yield the titles of the cells that differ."""
    for title, was in row.items():
        is_now = other[title]
        if was == is_now or (title in numbers and is_same_number(was, is_now)):
            continue
        if len(comparable(pa.chunked_array([[was, is_now]])).unique()) > 1:
            yield title


def _difference_words(
    where: str, then: Sequence[_Row], now: Sequence[_Row], numbers: Collection[str]
) -> Iterator[str]:
    """Say what became of one key, of which each side has none, one or several rows."""
    if len(then) == len(now) == 1:
        for title in _changes(then[0][0], now[0][0], numbers):
            was, is_now = then[0][0][title], now[0][0][title]
            name = title.removesuffix(", exact").lower()
            yield f"{where}: {name} was {was[:_LONGEST]} and is now {is_now[:_LONGEST]!r}"
        return
    for _, (stored, seen) in (*then, *now):
        if not seen:
            yield f"{where} is missing"
        elif not stored:
            yield f"{where} is in no such row of the run"
        else:
            yield f"{where} stands there {seen} times and not {stored}"
