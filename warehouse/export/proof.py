"""The last witness of the control totals: the workbook itself, read again before it is given out.

The JSON, the Parquet files and the database were compared before; here the finished file is, so
that no figure reaches finance that the API did not state.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import IO

from warehouse.exact import EXACT, plain
from warehouse.export.sheets import FLAG, TOTAL, yes
from warehouse.export.totals import ExpectedTotals
from warehouse.query.book import NotExported
from warehouse.spreadsheet.writing.cells import string
from warehouse.spreadsheet.writing.layout import SheetColumnKind, TableSheet
from warehouse.spreadsheet.writing.readback import SumColumns, add_up


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
