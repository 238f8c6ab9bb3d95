"""The sums of the views: a short way for small decimals, a long way for the rest, one result."""

from collections.abc import Iterator

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.books import exact, fits, make_macros

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
with parts as (
    select
        internal.exact_part_where(split, kind = 'a') as a,
        internal.exact_part_where(split, kind <> 'a') as b
    from (
        select kind, internal.exact_split(internal.as_amount(amount_text), amount_text) as split
        from (select unnest($1::varchar[]) as kind, unnest($2::varchar[]) as amount_text)
    )
)

select
    coalesce(len(internal.exact_merge(a, b)['texts']), 0) > 0 as is_odd,
    internal.exact_merge(a, b)['small'] as small,
    internal.exact_sums([a, b, internal.exact_merge(a, b)]) as sums
from parts
"""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the macros of `warehouse/macros` and nothing else."""
    with duckdb.connect() as connection:
        make_macros(connection)
        yield connection


@settings(max_examples=2 * settings().max_examples, deadline=None, derandomize=True)
@given(ROWS)
@example([("a", "999999999999.5"), ("b", "1000000000000"), ("c", "-1000000000000")])
@example([("b", "1e200"), ("c", "-1e200")])
def test_both_ways_give_the_exact_sum(
    connection: duckdb.DuckDBPyConnection, rows: list[tuple[str, str]]
) -> None:
    """What the short way claims is the sum of all rows, and the long way agrees with Python."""
    kinds, texts = [kind for kind, _ in rows], [text for _, text in rows]
    found = connection.execute(QUERY, [kinds, texts]).fetchone()
    assert found is not None
    is_odd, small, sums = found
    of_a = [text for kind, text in rows if kind == "a"]
    of_b = [text for kind, text in rows if kind != "a"]
    expected = [exact(some) if some else None for some in (of_a, of_b, texts)]
    assert [one["text"] for one in sums] == expected
    assert [one["amount"] for one in sums] == [text and fits(text) for text in expected]
    if not is_odd:
        assert small == sums[2]["amount"]


@pytest.mark.parametrize(("text", "is_odd"), [("999999999999.9", False), ("1e12", True)])
def test_only_small_amounts_go_the_short_way(
    connection: duckdb.DuckDBPyConnection, text: str, *, is_odd: bool
) -> None:
    """A hundred million amounts below 1e12 cannot overflow DECIMAL(38,18); larger ones are text."""
    query = "select internal.exact_split(internal.as_amount($1), $1)"
    found = connection.execute(query, [text]).fetchone()
    assert found == (
        {"small": None, "odd": text} if is_odd else {"small": fits(text), "odd": None},
    )
