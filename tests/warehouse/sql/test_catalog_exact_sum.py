"""Tests of the exact sums in plain SQL, which are exact for any amounts from the API."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support import environments
from tests.support.books import exact, fits, make_macros
from tests.support.shared import tries
from warehouse.storage.layout import STORAGE_VERSION

DIGITS = st.text("0123456789", min_size=1, max_size=60)
EXPONENTS = st.integers(-200, 200).map(str) | st.sampled_from(["+5", "-0", "007", "+000000200"])
NUMBERS = st.one_of(
    DIGITS,
    DIGITS.map(lambda digits: f"{digits}."),
    DIGITS.map(lambda digits: f".{digits}"),
    st.tuples(DIGITS, DIGITS).map(".".join),
)
TEXTS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "+", "-"]),
    NUMBERS,
    st.just("") | st.builds("{}{}".format, st.sampled_from("eE"), EXPONENTS),
)
EDGES = (
    "99999999999999999999.999999999999999999",
    "-99999999999999999999.999999999999999999",
    "9999999999.999999999999999999",
    "-10000000000",
    "0.000000000000000001",
    "-0.0000000000000000001",
    "1e200",
    "-1e-200",
    "-0",
    "999999999999999999999999999999",
    "0" * 300 + "1",
)
ILLEGAL = ("", "-", ".", "e5", "1e", "1e201", "1_000", " 1", "1 ", "1\n", "NaN", "Infinity", "1,5")
ILLEGAL_TOO = ("\u0661", "\uff11", "0x10", "1e+-5", "--1", "1.2.3", "1\x00", "\u22121", "1e0000201")


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an empty database with the macros that need no tables."""
    with duckdb.connect() as connection:
        make_macros(connection)
        yield connection


def summed(connection: duckdb.DuckDBPyConnection, texts: Sequence[str | None]) -> object:
    """Return the result of `exact_sum` for these amounts."""
    query = "select exact_sum(amount_text) from unnest(?::varchar[]) as given(amount_text)"
    found = connection.execute(query, [list(texts)]).fetchone()
    assert found is not None
    return found[0]


@settings(max_examples=tries(20, 1200), deadline=None, derandomize=True)
@given(st.lists(TEXTS | st.sampled_from(EDGES), min_size=1, max_size=12))
@example(["1e200", "-1e200", "1e-200"])
@example(["99999999999999999999.5", "-99999999999999999998.5"])
@example(["999999999999999", "0.000000000000001", "1e15"])
@example(["-1000000000000000", "-1e30"])
def test_the_sum_equals_the_sum_of_python_decimals(
    connection: duckdb.DuckDBPyConnection, texts: list[str]
) -> None:
    """The sum of any valid amounts is equal to the sum of Python decimals with enough digits."""
    assert summed(connection, texts) == exact(texts)


@settings(max_examples=tries(40, 2250), deadline=None, derandomize=True)
@given(TEXTS | st.sampled_from(EDGES))
def test_no_conversion_rounds_an_amount(connection: duckdb.DuckDBPyConnection, text: str) -> None:
    """`plain_digits` keeps every digit. `as_amount` returns NULL rather than a rounded number."""
    found = connection.execute(
        "select internal.plain_digits($1), internal.as_amount($1)", [text]
    ).fetchone()
    assert found == (exact([text]), fits(text))


@pytest.mark.parametrize("text", ILLEGAL + ILLEGAL_TOO)
def test_a_text_that_is_not_an_amount_is_rejected(
    connection: duckdb.DuckDBPyConnection, text: str
) -> None:
    """If a string is not an amount, the sum fails with a message, and `as_amount` returns NULL."""
    with pytest.raises(duckdb.Error, match="is no amount; nothing was added up"):
        summed(connection, ["1", text])
    found = connection.execute(
        "select internal.plain_digits($1), internal.as_amount($1)", [text]
    ).fetchone()
    assert found == (None, None)


def test_a_sum_without_amounts_is_null(connection: duckdb.DuckDBPyConnection) -> None:
    """The sum of no rows or only NULLs is NULL. NULLs among amounts are skipped."""
    assert summed(connection, []) is None
    assert summed(connection, [None]) is None
    assert summed(connection, [None, "1.50"]) == "1.5"


def test_exact_sum_works_next_to_other_aggregates(connection: duckdb.DuckDBPyConnection) -> None:
    """`exact_sum` works next to other aggregates in GROUP BY ALL, and in HAVING."""
    query = """
        select kind, count(*) as n, exact_sum(t) as total
        from (values ('a', '1'), ('a', '1e30'), ('b', '0.5'), ('c', null)) as given(kind, t)
        group by all
        having exact_sum(t) <> '7' or exact_sum(t) is null
        order by all
    """
    assert connection.execute(query).fetchall() == [
        ("a", 2, "1000000000000000000000000000001"),
        ("b", 1, "0.5"),
        ("c", 1, None),
    ]


def test_many_large_amounts_do_not_overflow(connection: duckdb.DuckDBPyConnection) -> None:
    """The sum of 100,000 of the largest decimals is far beyond DECIMAL(38,18), but exact."""
    query = """
        select internal.exact_sums([internal.exact_part(x, x::varchar)])[1]
        from (
            select 99999999999999999999.999999999999999999::decimal(38, 18) as x
            from range(100000)
        )
    """
    found = connection.execute(query).fetchone()
    assert found == ({"amount": None, "text": "9999999999999999999999999.9999999999999"},)


def test_a_sum_that_fits_a_decimal_is_a_decimal(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """If a sum fits a decimal, it is returned as a decimal, even if its amounts do not fit one."""
    query = """
        select internal.exact_sums([internal.exact_part(null::decimal(38, 18), t)])[1]
        from (values ('1e30'), ('-999999999999999999999999999999.5')) as given(t)
    """
    assert connection.execute(query).fetchone() == ({"amount": Decimal("0.5"), "text": "0.5"},)


OLD_CLIENT = """
import json, sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print(json.dumps(connection.execute(
    "select g, exact_sum(t) from given group by g order by g").fetchall()))
"""


@pytest.mark.parametrize("older", ["duckdb12", "duckdb14", "duckdb15"])
def test_older_clients_compute_the_same_sums(tmp_path: Path, older: str) -> None:
    """The macros give the same sums from DuckDB 1.2 on, the oldest client that reads the file."""
    file = tmp_path / "old.duckdb"
    groups = [list(EDGES), ["1.5", "2"], ["-1e30", "1"], [*EDGES[:3], "7.25e-3"]]
    with duckdb.connect(
        str(file), config={"storage_compatibility_version": STORAGE_VERSION}
    ) as connection:
        make_macros(connection)
        connection.execute("create table given (g integer, t varchar)")
        for number, texts in enumerate(groups):
            connection.executemany("insert into given values (?, ?)", [[number, t] for t in texts])
    command = [str(environments.python(older)), "-c", OLD_CLIENT, str(file)]
    answer = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    assert json.loads(answer.stdout) == [[n, exact(texts)] for n, texts in enumerate(groups)]
