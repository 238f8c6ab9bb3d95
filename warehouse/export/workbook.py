"""The positions workbook, and the proof of its sums."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO

from warehouse.exact import EXACT, plain
from warehouse.export.sheets import (
    FLAG,
    SOURCES,
    TOTAL,
    TextTable,
    evidence,
    fill_sheet,
    filled_texts,
    long_texts,
    shown_columns,
    source_sheet,
    yes,
)
from warehouse.export.staged_tables import texts_over
from warehouse.export.summary import Figures, summary
from warehouse.export.totals import ExpectedTotals, promise, totals
from warehouse.query.book import EXHIBITS, NotExported, OpenBook
from warehouse.spreadsheet.writing.cells import CELL_LIMIT, LONG_TEXTS, shorten_texts, string
from warehouse.spreadsheet.writing.format import Draft, define_names, draft, long_table
from warehouse.spreadsheet.writing.layout import ROWS_PER_SHEET, SheetColumnKind, TableSheet, parts
from warehouse.spreadsheet.writing.rows import RowsXml, Styles
from warehouse.spreadsheet.writing.splice import SumColumns, add_up, splice
from warehouse.storage.layout import written_aside


def prove(
    file: IO[bytes],
    promised: ExpectedTotals,
    sheets: Iterable[tuple[int, TableSheet]],
    shortened: Mapping[str, str],
) -> None:
    """Add up the sheets of an exhibit, given with their numbers, as a reader will find them.

    Raises `NotExported` where a row or a digit is not what DuckDB counted.
    """
    # Texts that no cell holds stand there shortened: the sums are compared by the shortened text.
    whole = {short: text for text, short in shortened.items()}
    rows, sums = 0, dict[tuple[str, str], Decimal]()
    for number, sheet in sheets:
        cells = SumColumns(
            f"xl/worksheets/sheet{number}.xml",
            sheet.letter("asset_id", SheetColumnKind.TEXT),
            sheet.letter(FLAG, SheetColumnKind.TEXT),
            sheet.letter(TOTAL, SheetColumnKind.EXACT),
        )
        try:
            read_back = add_up(file, cells, whole, EXACT)
        except ValueError as error:
            raise _mismatch_error(promised, str(error)) from None
        rows += read_back.rows
        for key, total in read_back.sums.items():
            sums[key] = EXACT.add(sums.get(key, Decimal(0)), total)
    expected = {
        (_inside(shortened.get(asset, asset)), yes(is_custom)): total
        for (asset, is_custom), total in promised.sums.items()
    }
    stated = {key: plain(total) for key, total in sums.items()}
    if rows != promised.rows or stated != expected:
        differences = sorted(set(stated.items()) ^ set(expected.items()))[:3]
        raise _mismatch_error(
            promised, f"{rows} rows instead of {promised.rows}; totals: {differences}"
        )


def _inside(text: str) -> str:
    """Return a text with the escapes that a cell of it has."""
    return string(text).partition("<t")[2].partition(">")[2].rpartition("</t>")[0]


def _mismatch_error(promised: ExpectedTotals, difference: str) -> NotExported:
    return NotExported(
        f"The finished workbook was read again and sheet {promised.exhibit.title} is not what the "
        f"warehouse holds: {difference}. It was thrown away and the one before it stands. This is "
        "a fault of the program or of the disk: run it again."
    )


EVIDENCE = "Evidence"
FIRST = 2  # the number of the first long sheet: the summary stands before it
_CELL_BYTES = 130


@dataclass(frozen=True, slots=True)
class _Planned:
    """One long sheet and what fills it."""

    sheet: TableSheet
    fill: Callable[[Styles], Iterable[RowsXml]]


def write(
    source: OpenBook, path: Path, *, program_version: str, rows_per_sheet: int = ROWS_PER_SHEET
) -> tuple[str, ...]:
    """Write the workbook whole or not at all; what its reader must know comes back in words.

    Raises `NotExported` where what was written is not, to the last digit, what was to be.
    """
    promises = tuple(promise(source, exhibit) for exhibit in source.exhibits)
    lines = totals(source, promises)
    proof = evidence(source, lines, program_version)
    shortened = shorten_texts(chain(*_long(source, proof)))
    plans = {
        exhibit.title: parts(
            exhibit.title,
            shown_columns(source, exhibit),
            source.rows[exhibit.title],
            rows_per_sheet,
        )
        for exhibit in source.exhibits
    }
    notices = (*source.notices, *_split(plans), *_cut(shortened))
    workbook = draft(
        title=f"Positions as of {source.day}",
        made_at=source.snapshot["finished_at"],
        about={"as_of": source.day.isoformat(), "snapshot_id": source.snapshot_id},
    )
    summary(
        workbook,
        Figures(source=source, sheets=plans, promises=promises, lines=lines, notices=notices),
        program_version,
    )
    planned = [*_tables(source, plans, shortened), _texts(EVIDENCE, proof, shortened)]
    if source.is_firm:
        planned.append(_texts(SOURCES, source_sheet(source), {}))
    if shortened:
        planned.append(_texts(LONG_TEXTS, long_texts(shortened), {}))
    footer = f"Positions as of {source.day}, book {source.snapshot_id}"
    _save(
        workbook, planned, path, footer=footer, proof=partial(_prove, planned, promises, shortened)
    )
    return notices


def _long(source: OpenBook, proof: TextTable) -> Iterable[list[str]]:
    for exhibit in source.exhibits:
        yield texts_over(source, exhibit, CELL_LIMIT)
    for values in proof.values.values():
        yield [text for text in values if text is not None]


def _split(plans: dict[str, tuple[TableSheet, ...]]) -> list[str]:
    return [
        f"{table} has more rows than one sheet holds: it goes on over {len(sheets)} sheets, "
        f"{sheets[0].name} to {sheets[-1].name}."
        for table, sheets in plans.items()
        if len(sheets) > 1
    ]


def _cut(shortened: Mapping[str, str]) -> list[str]:
    if not shortened:
        return []
    notice = (
        f"Some texts are longer than the {CELL_LIMIT:,} letters of a cell: their cells have the "
        f"beginning and a number, and sheet {LONG_TEXTS} has them whole."
    )
    return [notice]


def _tables(
    source: OpenBook, plans: Mapping[str, tuple[TableSheet, ...]], shortened: Mapping[str, str]
) -> Iterable[_Planned]:
    for exhibit in source.exhibits:
        for sheet in plans[exhibit.title]:
            yield _Planned(sheet, partial(fill_sheet, source, exhibit, sheet, shortened))


def _texts(name: str, table: TextTable, shortened: Mapping[str, str]) -> _Planned:
    (sheet,) = parts(name, table.columns, table.rows)
    return _Planned(sheet, partial(filled_texts, table, sheet, shortened))


def _prove(
    planned: Iterable[_Planned],
    promises: Iterable[ExpectedTotals],
    shortened: Mapping[str, str],
    file: IO[bytes],
) -> None:
    """See that the finished file says what was promised, table by table."""
    sheets = [(number, plan.sheet) for number, plan in enumerate(planned, FIRST)]
    for promised in promises:
        own = [(number, sheet) for number, sheet in sheets if sheet.table == promised.exhibit.title]
        prove(file, promised, own, shortened)


def _save(
    workbook: Draft,
    planned: list[_Planned],
    path: Path,
    *,
    footer: str,
    proof: Callable[[IO[bytes]], None],
) -> None:
    fillings = {}
    for number, plan in enumerate(planned, FIRST):
        sheet = plan.sheet
        long_table(workbook, sheet, footer=footer)
        if sheet.table in {exhibit.title for exhibit in EXHIBITS}:
            define_names(workbook, sheet)
        last = sheet.letter(sheet.columns[-1].source, sheet.columns[-1].kind)
        size = sheet.rows * len(sheet.columns) * _CELL_BYTES
        fillings[number] = (f"A1:{last}{sheet.last_row}", size, plan.fill)
    workbook.book.close()
    with written_aside(path) as file:
        splice(workbook.file, file, fillings)
        proof(file)
