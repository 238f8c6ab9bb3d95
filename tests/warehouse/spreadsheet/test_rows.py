"""Tests of rows that DuckDB writes as XML: they are identical to rows that Python writes."""

import re
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.shared import tries
from tests.warehouse.export.cell_by_cell import Rows
from tests.warehouse.export.test_workbook import HOSTILE, LONG
from warehouse.spreadsheet.writing.layout import SheetColumn, SheetColumnKind
from warehouse.spreadsheet.writing.rows import RowsQuery, Styles, render_rows, stream_rows

KINDS = {
    "A": ("name", SheetColumnKind.TEXT, True),
    "B": ("other", SheetColumnKind.TEXT, False),
    "C": ("amount", SheetColumnKind.NUMBER, True),
    "D": ("part", SheetColumnKind.NUMBER, False),
    "E": ("digits", SheetColumnKind.DIGITS, True),
    "F": ("amount", SheetColumnKind.EXACT, True),
    "G": ("claim", SheetColumnKind.EXACT, True),
    "H": ("count", SheetColumnKind.COUNT, True),
}
COLUMNS = tuple(
    SheetColumn(source, source, "", kind, is_printed=is_printed)
    for source, kind, is_printed in KINDS.values()
)
STYLES = Styles(
    {letter: f"{place}" for place, letter in enumerate(KINDS)},
    {letter: f"{place + 10}" for place, letter in enumerate(KINDS)},
    [f"{20 + place}" for place in range(10)],
)
SHORTENED = {LONG: "=long ...", "9" * 40_000: "999 ..."}
DIGITS = st.text("0123456789", min_size=1, max_size=24)
AMOUNTS = st.builds("{}{}{}".format, st.sampled_from(["", "-"]), DIGITS, st.just("")) | st.builds(
    "{}{}.{}".format, st.sampled_from(["", "-", "0", "-0", "9" * 310]), DIGITS, DIGITS
)
TEXTS = (
    st.sampled_from(HOSTILE)
    | st.text(max_size=12)
    | st.text("_x0F41\x00\ufffe<&\n\r =-", max_size=12)
    | st.text("aZ09 .:/-_", max_size=12)
).filter(lambda text: not any("\ud800" <= letter <= "\udfff" for letter in text))
ROWS = st.tuples(
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.none() | AMOUNTS,
    st.none() | AMOUNTS,
    st.none() | AMOUNTS | st.sampled_from(["NaN", "=1+1", "9" * 40_000, ""]),
    st.none() | st.integers(0, 10**9),
)
NAMES = ("name", "other", "amount", "part", "claim", "count")


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a database with an empty table."""
    with duckdb.connect() as made:
        kinds = ", ".join(f"{name} {'int' if name == 'count' else 'varchar'}" for name in NAMES)
        made.execute(f"create table given ({kinds})")
        yield made


def rendered(connection: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]]) -> bytes:
    """Return the XML that DuckDB writes for these rows."""
    connection.execute("delete from given")
    connection.executemany(f"insert into given values ({', '.join('?' * len(NAMES))})", rows)
    query = RowsQuery(
        columns=COLUMNS,
        values={name: name for name in NAMES},
        number="row_number() over () + 4",
        rows="given",
    )
    return b"".join(stream_rows(connection, query, STYLES, SHORTENED))


@settings(max_examples=tries(15, 750), deadline=None, derandomize=True)
@given(st.lists(ROWS, min_size=1, max_size=6))
@example([(text, text, None, "1", None, None) for text in HOSTILE])
@example([("a\nb", "c\r\n\nd", "9" * 301, "-0", "9" * 40_000, 7)])
def test_rows_are_written_exactly_as_python_writes_them(
    connection: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]]
) -> None:
    """Texts, numbers, styles and row heights are byte for byte as Python writes them."""
    # Render each row on its own, because Python chooses a column's style by all of its texts.
    values = dict(zip(NAMES, map(list, zip(*rows, strict=True)), strict=True))
    one_by_one = b"".join(
        Rows(COLUMNS, STYLES, SHORTENED).render(
            {name: [column[place]] for name, column in values.items()}, place + 5
        )
        for place in range(len(rows))
    )
    assert rendered(connection, rows).decode() == one_by_one.decode()
    in_memory = b"".join(render_rows(COLUMNS, [values], STYLES, SHORTENED))
    assert in_memory == b"".join(
        Rows(COLUMNS, STYLES, SHORTENED).render(
            {name: [column[place]] for name, column in values.items()}, place + 2
        )
        for place in range(len(rows))
    )


def test_a_number_is_the_double_nearest_to_its_text(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Each number is the double nearest to its text, even if DuckDB 2.0.0 writes it wrong.

    DuckDB 2.0.0 writes 2 to the power of 81, 91 and 807 as twice the value.
    """
    texts = [str(2**power + step) for power in range(50, 990) for step in (-1, 0, 1)]
    written = rendered(connection, [(None, None, text, None, None, None) for text in texts])
    numbers = re.findall(r"<v>([^<]*)</v>", written.decode())
    assert [float(number) for number in numbers] == [float(text) for text in texts]


@pytest.mark.parametrize("amount", ["1e5", "NaN", "", "1.", "+1", "1\n", "<v>", "\u0661"])
def test_an_invalid_amount_is_never_written(
    connection: duckdb.DuckDBPyConnection, amount: str
) -> None:
    """A text that is not an amount in plain digits is never written into a number cell."""
    with pytest.raises(ValueError, match="not an amount in plain digits, so no file was written"):
        rendered(connection, [("a", "b", amount, None, None, None)])


def test_an_abandoned_sheet_leaves_the_connection_free(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """If reading stops after the first rows, the connection can run other queries."""
    query = RowsQuery(
        columns=COLUMNS[:1], values={"name": "'a_' || i"}, number="i", rows="range(9999) r(i)"
    )
    rows = stream_rows(connection, query, STYLES, {})
    assert bytes(next(rows)).startswith(b'<row r="0"><c r="A0"')
    rows.close()  # type: ignore[attr-defined]  # it is a generator
    assert connection.execute("select 42").fetchall() == [(42,)]
