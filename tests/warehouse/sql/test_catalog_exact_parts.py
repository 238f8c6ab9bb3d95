"""Tests of sums in views: integers and fractions apart, and texts for what no decimal holds."""

from collections.abc import Iterator
from decimal import Decimal

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.books import exact, fits, make_macros
from tests.support.shared import tries

SMALL = st.decimals(-(10**11), 10**11, places=18).map(lambda value: format(value, "f"))
EDGES = st.sampled_from(
    (
        "9999999999.999999999999999999",
        "10000000000",
        "-10000000000.000000000000000001",
        "0.5",
        "-0.5",
        "99999999999999999999.999999999999999999",
        "100000000000000000000",
        "-100000000000000000000.000000000000000001",
        "9999999999999999999999999999.999999999999999999",
        "-10000000000000000000000000000",
        "-1e-19",
        "1e200",
        "-0",
    )
)
ROWS = st.lists(st.tuples(st.sampled_from("abc"), SMALL | EDGES), min_size=1, max_size=8)
QUERY = """
with by_kind as (
    select kind, internal.exact_part(internal.as_amount(amount_text), amount_text) as sums
    from (select unnest($1::varchar[]) as kind, unnest($2::varchar[]) as amount_text)
    group by kind
)

select
    internal.exact_sums(
        [
            internal.exact_part_of_parts(case when kind = 'a' then sums end),
            internal.exact_part_of_parts(case when kind = 'b' then sums end),
            internal.exact_part_of_parts(sums)
        ]
    )
from by_kind
"""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an empty database with the macros that need no tables."""
    with duckdb.connect() as connection:
        make_macros(connection)
        yield connection


@settings(max_examples=tries(30, 2000), deadline=None, derandomize=True)
@given(ROWS)
@example([("a", "9999999999.5"), ("b", "10000000000"), ("c", "-10000000000")])
@example([("a", "10000000000"), ("a", "-0.5"), ("b", "-10000000000"), ("b", "0.5")])
@example([("a", "10000000000"), ("a", "-10000000000.5")])
@example([("b", "1e200"), ("c", "-1e200")])
def test_the_sums_of_parts_are_exact(
    connection: duckdb.DuckDBPyConnection, rows: list[tuple[str, str]]
) -> None:
    """The sum of each kind and of all kinds agrees with Python, whatever the size of amounts."""
    kinds, texts = [kind for kind, _ in rows], [text for _, text in rows]
    found = connection.execute(QUERY, [kinds, texts]).fetchone()
    assert found is not None
    [sums] = found
    by_kind = [[text for kind, text in rows if kind == chosen] for chosen in "ab"]
    expected = [exact(some) if some else None for some in (*by_kind, texts)]
    assert [total["text"] for total in sums] == expected
    assert [total["amount"] for total in sums] == [text and fits(text) for text in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9999999999.9", {"whole": None, "rest": Decimal("9999999999.9"), "texts": None}),
        ("-1e10", {"whole": Decimal(-(10**10)), "rest": Decimal(0), "texts": None}),
        (
            "-100000000000000000000.25",
            {"whole": Decimal(-(10**20)), "rest": Decimal("-0.25"), "texts": None},
        ),
        (f"{10**28}", {"whole": None, "rest": None, "texts": [f"{10**28}"]}),
        ("1e-19", {"whole": None, "rest": None, "texts": ["1e-19"]}),
    ],
)
def test_only_amounts_that_two_decimals_cannot_hold_stay_text(
    connection: duckdb.DuckDBPyConnection, text: str, expected: object
) -> None:
    """Integers from 1e10 are added apart from fractions, so neither sum can overflow."""
    query = """
        select internal.exact_part(internal.as_amount(amount_text), amount_text)
        from (select $1 as amount_text)
    """
    assert connection.execute(query, [text]).fetchone() == (expected,)
