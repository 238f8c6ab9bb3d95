"""Laws of whole nights, from landing to publishing, for any document that the API may send."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from assets.publishing import publish
from assets.publishing.publish import rebuild
from tests.crash.nights import Clock, nightbook
from tests.pipelines.records.test_fast_reader_laws import books, expected
from tests.support import nights, oracle
from warehouse.contract.book import BOOK
from warehouse.contract.states import ACCEPTED
from warehouse.storage.layout import Layout

LATER = nights.STARTED + timedelta(days=1)
Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def many(pytestconfig: pytest.Config) -> Callable[[int, int], settings]:
    """Return settings with the first number of examples, or the second if `--torture` is set."""
    whole = bool(pytestconfig.getoption("--torture"))
    return lambda few, more: settings(
        max_examples=more if whole else few,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def published(*taken: nights.Book) -> Iterator[Layout]:
    """Create a home with these nights, one per day, and publish them."""
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(Path(folder))
        for days, book in enumerate(taken):
            nights.take(layout, book, nights.STARTED + timedelta(days=days))
        publish.refresh(nightbook(layout.home, Clock(LATER)))
        yield layout


def told(layout: Layout, query: str) -> list[dict[str, Any]]:
    """Return the rows of a query of the published file, with the columns as keys."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        found = connection.execute(query)
        names = [one[0] for one in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def everything(layout: Layout) -> dict[str, list[str]]:
    """Return all rows of all tables except `build`, which contains the time of the build."""
    listed = told(
        layout,
        "select schema_name || '.' || table_name as name from duckdb_tables() "
        "where not internal and table_name <> 'build' order by all",
    )
    return {
        one["name"]: [repr(row) for row in told(layout, f"from {one['name']} order by all")]
        for one in listed
    }


def in_lake(layout: Layout) -> Rows:
    """Return the rows of the Parquet files that other engines read."""
    return {
        table.name: [
            row
            for path in sorted((layout.lake / table.name).rglob("*.parquet"))
            for row in nights.rows_of(path)
        ]
        for table in BOOK
    }


@pytest.mark.torture
def test_parquet_and_duckdb_return_exactly_the_written_rows(
    many: Callable[[int, int], settings],
) -> None:
    """For any night, both contain exactly the rows that an independent JSON reader returns."""

    @many(5, 100)
    @given(books(strange=True))
    def law(book: nights.Book) -> None:
        # The guards hold a night if its key sees nothing (see their tests), so the book has rows.
        assume(expected(book).get("positions") and book.venues)
        with published(book) as layout:
            [state] = told(layout, "select state, reason from ops.snapshots")
            assert state["state"] == ACCEPTED, state
            oracle.require_equal(in_lake(layout), expected(book))
            for schema in ("main", "history"):
                rows = {one.name: told(layout, f"from {schema}.{one.name}") for one in BOOK}
                oracle.require_equal(rows, expected(book))

    law()


@pytest.mark.torture
def test_a_rebuild_returns_the_same_rows(many: Callable[[int, int], settings]) -> None:
    """A rebuild of two nights, from the lake or from the landing zone, returns the same rows."""

    @many(3, 50)
    @given(books(strange=True), books(strange=True), st.booleans())
    def law(first: nights.Book, second: nights.Book, from_landing: bool) -> None:  # noqa: FBT001 - hypothesis gives it
        with published(first, second) as layout:
            before = everything(layout)
            keeper = nightbook(layout.home, Clock(LATER + timedelta(hours=1)))
            rebuild(keeper, from_landing=from_landing)
            after = everything(layout)
            assert after.keys() == before.keys()
            assert [name for name in before if after[name] != before[name]] == []

    law()
