"""Tests of the checks, which find every kind of error in a book and pass a good book."""

from collections.abc import Iterator

import duckdb
import pytest

from tests.support.books import Amount, make_macros, night, published
from warehouse.contract.book import BOOK
from warehouse.contract.lake import HOLDINGS
from warehouse.sql.checks import CheckResult, every_check, run_checks
from warehouse.storage.layout import Layout

GOOD = night("20261120T021500Z", [Amount("1.5"), Amount("1e30", asset="ETH")])


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish a warehouse with one good book."""
    layout = Layout(tmp_path_factory.mktemp("checks"))
    published(layout, [GOOD], "a")
    return layout


@pytest.fixture
def connection(layout: Layout) -> Iterator[duckdb.DuckDBPyConnection]:
    """Copy the tables of a good book into memory without constraints, so tests can spoil them."""
    with duckdb.connect() as connection:
        connection.execute(f"attach '{layout.database}' as book (read_only)")
        for table in (*BOOK, *HOLDINGS):
            connection.execute(f"create table {table.name} as from book.{table.name}")
        make_macros(connection)
        connection.execute("create schema ops")
        for name in ("snapshots", "drift", "control_totals"):
            connection.execute(f"create table ops.{name} as from book.ops.{name}")
        yield connection


def failed(connection: duckdb.DuckDBPyConnection) -> dict[str, CheckResult]:
    """Return the results of the checks that found wrong rows."""
    return {result.name: result for result in run_checks(connection) if not result.is_ok}


def test_a_good_book_passes_every_check(connection: duckdb.DuckDBPyConnection) -> None:
    """Every check runs on a good book, and the book passes them all."""
    assert failed(connection) == {}
    assert len(run_checks(connection)) == len(every_check())


def test_every_table_has_a_check_of_its_key() -> None:
    """Every table of the book has a check of its key."""
    names = {check.name for check in every_check()}
    assert {f"{table.name}_key" for table in BOOK} <= names
    assert {check.severity for check in every_check()} <= {"error", "warning"}


@pytest.mark.parametrize("name", ["portfolios", "positions", "accounts", "balances", "venues"])
def test_a_repeated_key_is_found(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """A repeated row is counted and shown as the example."""
    connection.execute(f"insert into {name} select * from {name} limit 1")
    found = failed(connection)
    assert list(found) == [f"{name}_key"]
    assert found[f"{name}_key"].wrong_rows == 1
    assert found[f"{name}_key"].stops
    assert "row_count=2" in (found[f"{name}_key"].example or "")


@pytest.mark.parametrize("name", ["portfolios", "positions", "accounts"])
def test_a_row_without_a_parent_is_found(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    """A row without a parent is found at every level."""
    connection.execute(f"delete from {name}")
    assert list(failed(connection)) == ["orphans"]


@pytest.mark.parametrize("amount", ["1.6", "null", "1.500000000000000001"])
def test_an_amount_that_differs_from_its_text_is_found(
    connection: duckdb.DuckDBPyConnection, amount: str
) -> None:
    """A number that differs from its text, even in the last digit, or is missing, is found."""
    connection.execute(f"update balances set amount = {amount} where asset_id = 'BTC'")
    found = failed(connection)
    assert list(found) == ["amounts"]
    assert "amount_text=1.5" in (found["amounts"].example or "")


@pytest.mark.parametrize("name", [table.name for table in HOLDINGS])
def test_holdings_that_differ_from_their_totals_are_found(
    connection: duckdb.DuckDBPyConnection, name: str
) -> None:
    """Holdings must equal the control totals to the last digit. A missing row is found as well."""
    connection.execute(f"update {name} set total_text = '1.499999999999999999' where total = 1.5")
    connection.execute(f"update {name} set total = 1.499999999999999999 where total = 1.5")
    assert list(failed(connection)) == ["holdings"]
    connection.execute(f"delete from {name}")
    assert list(failed(connection)) == ["holdings"]


def test_new_drift_is_only_a_warning(
    connection: duckdb.DuckDBPyConnection,
) -> None:
    """Drift fails its check, as a warning, only on the first night that has it."""
    new = "date '2026-11-20', date '2026-11-20', '\"x\"', 3"
    connection.execute(f"insert into ops.drift values ('data[].note', 'unknown field', 'n', {new})")
    found = failed(connection)
    assert list(found) == ["drift"]
    assert not found["drift"].stops
    assert "path=data[].note" in (found["drift"].example or "")
    connection.execute("update ops.drift set first_seen = date '2026-11-19'")
    assert failed(connection) == {}


def test_a_text_that_is_not_an_amount_is_found(connection: duckdb.DuckDBPyConnection) -> None:
    """A text that is not an amount, and so cannot be added up, is found."""
    connection.execute("update balances set amount = null, amount_text = 'NaN'")
    assert failed(connection)["amounts"].wrong_rows == 2
