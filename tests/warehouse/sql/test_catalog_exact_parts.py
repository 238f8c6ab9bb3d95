"""Tests of sums in views, with a fast path for small decimals and a slow path for the others."""

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.books import exact, fits, make_macros
from tests.support.shared import tries

SMALL = st.decimals(-(10**11), 10**11, places=18).map(lambda value: format(value, "f"))
EDGES = st.sampled_from(
    (
        "999999999999.999999999999999999",
        "-999999999999.999999999999999999",
        "1000000000000",
        "-1000000000000",
        "99999999999999999999.999999999999999999",
        "100000000000000000000",
        "-1e-19",
        "1e200",
        "-0",
    )
)
ROWS = st.lists(st.tuples(st.sampled_from("abc"), SMALL | EDGES), min_size=1, max_size=8)
QUERY = """
with split as (
    select kind, internal.exact_split(internal.as_amount(amount_text), amount_text) as split
    from (select unnest($1::varchar[]) as kind, unnest($2::varchar[]) as amount_text)
)

select
    list(split['odd']) filter (where split['odd'] is not null) is not null as is_odd,
    sum(split['small']) as small,
    internal.exact_sums_by_part(
        [
            {'part': 'a', 'small': sum(split['small']) filter (where kind = 'a')},
            {'part': 'b', 'small': sum(split['small']) filter (where kind = 'b')},
            {'part': null, 'small': sum(split['small'])}
        ],
        list({'part': kind, 'text': split['odd']}) filter (where split['odd'] is not null)
    ) as sums
from split
"""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an empty database with the macros that need no tables."""
    with duckdb.connect() as connection:
        make_macros(connection)
        yield connection


@settings(max_examples=tries(10, 600), deadline=None, derandomize=True)
@given(ROWS)
@example([("a", "999999999999.5"), ("b", "1000000000000"), ("c", "-1000000000000")])
@example([("b", "1e200"), ("c", "-1e200")])
def test_the_fast_and_slow_paths_give_the_exact_sum(
    connection: duckdb.DuckDBPyConnection, rows: list[tuple[str, str]]
) -> None:
    """The slow path agrees with Python, and so does the fast path if all amounts are small."""
    kinds, texts = [kind for kind, _ in rows], [text for _, text in rows]
    found = connection.execute(QUERY, [kinds, texts]).fetchone()
    assert found is not None
    is_odd, small, sums = found
    by_kind = [[text for kind, text in rows if kind == chosen] for chosen in "ab"]
    expected = [exact(some) if some else None for some in (*by_kind, texts)]
    assert [one["text"] for one in sums] == expected
    assert [one["amount"] for one in sums] == [text and fits(text) for text in expected]
    if not is_odd:
        assert small == sums[2]["amount"]


@settings(max_examples=tries(10, 600), deadline=None, derandomize=True)
@given(st.lists(SMALL | EDGES, max_size=8))
def test_the_sum_of_one_night_is_exact(
    connection: duckdb.DuckDBPyConnection, texts: list[str]
) -> None:
    """`exact_night_part` gives the exact sum of any amounts, and NULL if there are none."""
    query = """
        select internal.exact_sums(
            [internal.exact_night_part(internal.as_amount(amount_text), amount_text)]
        )[1]['text']
        from (select unnest($1::varchar[]) as amount_text)
    """
    assert connection.execute(query, [texts]).fetchone() == (exact(texts) if texts else None,)


@pytest.mark.parametrize(("text", "is_odd"), [("999999999999.9", False), ("1e12", True)])
def test_only_small_amounts_use_the_fast_path(
    connection: duckdb.DuckDBPyConnection, text: str, *, is_odd: bool
) -> None:
    """Only amounts below 1e12 use the fast path. Larger amounts stay text.

    The sum of a hundred million amounts below 1e12 cannot overflow DECIMAL(38,18).
    """
    query = "select internal.exact_split(internal.as_amount($1), $1)"
    found = connection.execute(query, [text]).fetchone()
    assert found == (
        {"small": None, "odd": text} if is_odd else {"small": fits(text), "odd": None},
    )
