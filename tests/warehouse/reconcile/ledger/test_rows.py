"""Tests of ledgers read in columns: the result is the same as if they were read row by row."""

from datetime import date
from pathlib import Path

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.shared import tries
from warehouse.reconcile.ledger.amounts import Rules, is_plain, plain_amounts, read
from warehouse.reconcile.ledger.header import find_header
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.read import read_ledger
from warehouse.reconcile.ledger.rows import plain_rows
from warehouse.reconcile.model import LINES as SCHEMA
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import Decimals
from warehouse.reconcile.terms import Ambiguous, NotReconciled
from warehouse.spreadsheet.reading.delimited_text import Cells, cells_of, rows_of
from warehouse.spreadsheet.reading.grid import Grid, OpenedFile

DAY = date(2026, 11, 20)
HEADER = "portfolio;asset;venue;account;amount;date;remark"
NAMES = st.sampled_from(
    ["p", "BTC", "btc ", "", " ", "Total", "summe", "x y", "\u00a0", '"', '"q"']
)
PLAIN = st.sampled_from(["0", "1", "-1", "1.5", "0.10", "-0.00", "12.345", "1234.567", "007"])
ODD = st.sampled_from(["1,5", "-0,10", "1.234,5", "1,234", "", "-", "#N/A", "(2)", "1e3", "2 BTC"])
DAYS = st.sampled_from(["", "2026-11-20", "2026-11-19", "20.11.2026", "n/a"])
ROWS = st.tuples(NAMES, NAMES, NAMES, NAMES, PLAIN | ODD, DAYS, st.sampled_from(["", "r"]))
LINES = st.one_of(
    ROWS.map(";".join),
    ROWS.map(lambda row: ";".join(f'"{cell}"' for cell in row)),
    st.sampled_from(
        ["", HEADER, "Total;;;;3", "a note", "p;BTC;v;a;1;;;", 'a"b;c', '"two\nlines";']
    ),
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def rows(text: str) -> list[list[object]]:
    """Return the rows as the csv module reads them. A row with one empty cell has no cells."""
    return [[] if row == [""] else list(row) for row, _ in rows_of(text, ";")]


@given(st.text('a;"\r\n\u00e9 ', max_size=30))
@example('a;"b;c"\n')
@example('"a"\n\n"b";c\r\n')
@example('a"b;c\n')
@example('"a";b"\n')
def test_splitting_at_line_ends_gives_the_same_rows_as_csv(text: str) -> None:
    """If `cells_of` splits a text at its line ends, the csv module reads the same rows."""
    cells = cells_of(text, ";")
    if cells is not None:
        assert [list(row) for row in cells] == rows(text)
        assert [line for _, line in rows_of(text, ";")] == list(range(1, len(cells) + 1))


def test_an_ordinary_file_is_split_at_its_line_ends() -> None:
    """Ordinary files, with or without quotes, are split at their line ends."""
    for text in ("a;b\n1;2\n", 'a;b\r\n"1";"2"\r\n', "a;b\n\n1;2", '"";b\n'):
        assert isinstance(cells_of(text, ";"), Cells)


@given(st.lists(st.from_regex(r"-?[0-9]{0,4}([.,][0-9]{0,4})?[ e]?", fullmatch=True), max_size=9))
def test_plain_amounts_are_the_same_when_read_as_a_column(texts: list[str]) -> None:
    """Plain amounts parsed as a column are the same as if each cell were parsed separately.

    This includes the number of decimal places.
    """
    for decimals in Decimals:
        cells = pa.array(texts, pa.string())
        plain = is_plain(cells, decimals).to_pylist()
        found, written = plain_amounts(cells.filter(pa.array(plain, pa.bool_())), decimals)
        chosen = [text for text, is_one in zip(texts, plain, strict=True) if is_one]
        told = [read(text, Rules(decimals)) for text in chosen]
        assert [(one.text, one.decimals) for one in told if not isinstance(one, str)] == list(
            zip(found.to_pylist(), written.to_pylist(), strict=True)
        )
        assert len(found) == len(chosen)


def _context() -> ReadingContext:
    return ReadingContext(config=Config(), day=DAY)


def told(grid: Grid) -> object:
    """Return everything that reading a grid yields, or the type and message of its error."""
    try:
        found = read_ledger(
            [OpenedFile(path=Path("l.csv"), sha256="digest", grids=(grid,))], _context()
        )
    except (Ambiguous, NotReconciled) as error:
        return type(error), str(error)
    return (
        found.fields,
        list(found.lines),
        found.rejected,
        found.sources,
        found.notices,
        found.remembered,
    )


@settings(max_examples=tries(30, 1500))
@given(st.lists(LINES, max_size=12), ENDS)
def test_reading_in_columns_gives_the_same_ledger_as_row_by_row(lines: list[str], end: str) -> None:
    """A ledger read in columns has the same rows, locations, decimals and questions.

    The rows include the skipped and the rejected ones.
    """
    text = end.join(["A title", HEADER, *lines])
    cells = cells_of(text, ";")
    if cells is None:
        return
    one_by_one = Grid(sheet="", rows=rows(text), lines=[line for _, line in rows_of(text, ";")])
    together = Grid(sheet="", rows=cells, lines=range(1, len(cells) + 1))
    assert told(together) == told(one_by_one)


def test_most_of_a_large_ledger_is_read_in_columns() -> None:
    """Only rows that need checks are read one by one, and all rows keep their order."""
    body = [f"p;BTC;v;a{number};{number}.5;2026-11-20;" for number in range(1000)]
    body[500] = "p;BTC;v;a500;(7);2026-11-20;"
    cells = cells_of("\n".join([HEADER, *body]), ";")
    assert cells is not None
    grid = Grid(sheet="", rows=cells, lines=range(1, len(cells) + 1))
    head = find_header(grid, _context(), "l.csv")
    assert head is not None
    taken, _ = plain_rows(cells, head, head.layers[0], Decimals.POINT, None)
    assert taken.to_pylist() == [row for row in range(1, 1001) if row != 501]
    found = read_ledger(
        [OpenedFile(path=Path("l.csv"), sha256="digest", grids=(grid,))], _context()
    )
    assert [line.line for line in found.lines] == list(range(2, 1002))
    assert found.lines[500].amount.text == "-7"
    assert found.lines[-1] == found.lines[999]
    assert found.lines.table.schema == SCHEMA
