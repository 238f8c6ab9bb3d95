"""The positions workbook: written, then read back to check the totals in the finished file."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import IO

from warehouse.exact import EXACT, plain
from warehouse.export.sheets import (
    FLAG,
    TOTAL,
    TextTable,
    evidence_sheet,
    fill_sheet,
    fill_texts,
    long_text_sheet,
    shown_columns,
    yes,
)
from warehouse.export.staged_tables import texts_over
from warehouse.export.summary import Figures, write_summary
from warehouse.export.totals import ExpectedTotals, control_totals, expect_totals
from warehouse.query.book import NotExported, OpenBook
from warehouse.spreadsheet.writing.cells import CELL_LIMIT, LONG_TEXTS, shorten_texts, string
from warehouse.spreadsheet.writing.format import define_names, draft, long_table
from warehouse.spreadsheet.writing.layout import ROWS_PER_SHEET, SheetColumnKind, TableSheet, parts
from warehouse.spreadsheet.writing.rows import RowsXml, Styles
from warehouse.spreadsheet.writing.splice import add_up, splice
from warehouse.storage.layout import written_aside


def verify_sheets(
    file: IO[bytes],
    expected: ExpectedTotals,
    sheets: Iterable[tuple[int, TableSheet]],
    shortened: Mapping[str, str],
) -> None:
    """Read an exhibit's sheets from the finished file, and check row counts and totals.

    `sheets` contains the number and layout of each sheet. Raises `NotExported` if the row count or
    any digit differs from DuckDB's figures.
    """
    # A string that is too long for a cell is shortened, so group the sums by the shortened string.
    whole = {short: text for text, short in shortened.items()}
    rows, sums = 0, dict[tuple[str, str], Decimal]()
    for number, sheet in sheets:
        letters = (
            sheet.letter("asset_id", SheetColumnKind.TEXT),
            sheet.letter(FLAG, SheetColumnKind.TEXT),
            sheet.letter(TOTAL, SheetColumnKind.EXACT),
        )
        try:
            count, found_sums = add_up(file, f"xl/worksheets/sheet{number}.xml", letters, whole)
        except ValueError as error:
            raise _mismatch_error(expected, str(error)) from None
        rows += count
        for key, total in found_sums.items():
            sums[key] = EXACT.add(sums.get(key, Decimal(0)), total)
    wanted = {
        (_escape_in_cell(shortened.get(asset, asset)), yes(is_custom)): total
        for (asset, is_custom), total in expected.sums.items()
    }
    found = {key: plain(total) for key, total in sums.items()}
    if rows != expected.rows or found != wanted:
        differences = sorted(set(found.items()) ^ set(wanted.items()))[:3]
        raise _mismatch_error(
            expected, f"{rows} rows instead of {expected.rows}; totals: {differences}"
        )


def _escape_in_cell(text: str) -> str:
    """Return a string escaped in the same way as in the XML of a text cell."""
    return string(text).partition("<t")[2].partition(">")[2].rpartition("</t>")[0]


def _mismatch_error(expected: ExpectedTotals, difference: str) -> NotExported:
    return NotExported(
        f"The {expected.exhibit.title} sheet in the finished workbook differs from the warehouse: "
        f"{difference}. The new workbook was deleted, and the previous workbook is unchanged. The "
        "cause is a bug in nightbook or a disk error. Run the export again."
    )


EVIDENCE = "Evidence"
FIRST = 2  # number of the first sheet with a long table (the summary is sheet 1)
# A sheet with many rows, and the function that returns the rows as XML.
_Plan = tuple[TableSheet, Callable[[Styles], Iterable[RowsXml]]]


def write(
    source: OpenBook, path: Path, *, program_version: str, rows_per_sheet: int = ROWS_PER_SHEET
) -> tuple[str, ...]:
    """Write the positions workbook atomically. Return the notices for its readers.

    Raises `NotExported` if a digit of the finished file differs from the warehouse.
    """
    expected = tuple(expect_totals(source, exhibit) for exhibit in source.exhibits)
    lines = control_totals(source, expected)
    evidence = evidence_sheet(source, lines, program_version)
    shortened = shorten_texts(_long_texts(source, evidence))
    plans = _plans(source, rows_per_sheet)
    notices = (
        *source.notices,
        *_left_out_notices(source),
        *_split_notices(plans),
        *_long_text_notices(shortened),
    )
    workbook = draft(
        title=f"{source.title} as of {source.day}",
        made_at=source.snapshot["finished_at"],
        about={"as_of": source.day.isoformat(), "snapshot_id": source.snapshot_id},
    )
    write_summary(
        workbook,
        Figures(source=source, sheets=plans, expected=expected, lines=lines, notices=notices),
        program_version,
    )
    planned = list(_plan_tables(source, plans, shortened))
    planned.append(_plan_texts(EVIDENCE, evidence, shortened))
    if shortened:
        planned.append(_plan_texts(LONG_TEXTS, long_text_sheet(shortened), {}))
    footer = f"{source.title} as of {source.day}, book {source.snapshot_id}"
    for sheet, fill in planned:
        long_table(workbook, sheet, fill, footer=footer)
        if sheet.table in plans:
            define_names(workbook, sheet)
    workbook.book.close()
    with written_aside(path) as file:
        splice(workbook, file)
        sheets = [(number, sheet) for number, (sheet, _) in enumerate(planned, FIRST)]
        for totals in expected:
            own = [item for item in sheets if item[1].table == totals.exhibit.title]
            verify_sheets(file, totals, own, shortened)
    return notices


def _plans(source: OpenBook, rows_per_sheet: int) -> dict[str, tuple[TableSheet, ...]]:
    """Return the sheets of each exhibit, by its title."""
    return {
        exhibit.title: parts(
            exhibit.title,
            shown_columns(source, exhibit),
            source.rows[exhibit.title],
            rows_per_sheet,
        )
        for exhibit in source.exhibits
    }


def _long_texts(source: OpenBook, evidence: TextTable) -> Iterator[str]:
    for exhibit in source.exhibits:
        yield from texts_over(source, exhibit, CELL_LIMIT)
    for row in evidence.rows:
        yield from filter(None, row.values())


def _left_out_notices(source: OpenBook) -> list[str]:
    if not source.left_out:
        return []
    titles = " and ".join(f"{title} ({rows:,} rows)" for title, rows in source.left_out.items())
    notice = (
        f"This workbook leaves out {titles}, because NIGHTBOOK_WORKBOOK_ROWS limits the sheets of "
        "a nightly workbook. `nightbook export` writes the workbook with all sheets."
    )
    return [notice]


def _split_notices(plans: Mapping[str, tuple[TableSheet, ...]]) -> list[str]:
    return [
        f"{table} has more rows than fit on one sheet, so it continues over {len(sheets)} sheets, "
        f"{sheets[0].name} to {sheets[-1].name}."
        for table, sheets in plans.items()
        if len(sheets) > 1
    ]


def _long_text_notices(shortened: Mapping[str, str]) -> list[str]:
    if not shortened:
        return []
    notice = (
        f"Some values exceed the limit of {CELL_LIMIT:,} characters per cell. Their cells contain "
        f"the beginning and a number, and the {LONG_TEXTS} sheet contains the full values."
    )
    return [notice]


def _plan_tables(
    source: OpenBook, plans: Mapping[str, tuple[TableSheet, ...]], shortened: Mapping[str, str]
) -> Iterator[_Plan]:
    for exhibit in source.exhibits:
        for sheet in plans[exhibit.title]:
            yield sheet, partial(fill_sheet, source, exhibit, sheet, shortened)


def _plan_texts(name: str, table: TextTable, shortened: Mapping[str, str]) -> _Plan:
    (sheet,) = parts(name, table.columns, len(table.rows))
    return sheet, partial(fill_texts, table, sheet, shortened)
