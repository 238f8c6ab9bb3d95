"""Tests of loading reference files into the schema `reference`."""

from pathlib import Path

from tests.support.books import Amount
from tests.support.priced_books import ask, drop, publish, read_at
from warehouse.contract.reference import CONTRACTED
from warehouse.reference.inbox import kept_rows, received_files

NIGHTS = [read_at("20261120T021500Z", [Amount("2")])]
BTC = "BTC,,USD,1,2026-11-20,manual"


def test_a_folder_without_a_contract_becomes_a_table_of_text(tmp_path: Path) -> None:
    """Files of a folder are one table of text columns. A later file can add a column."""
    drop(tmp_path, "desks/a.csv", "portfolio_id,desk", "p1,Rates")
    publish(tmp_path, NIGHTS)
    drop(tmp_path, "desks/b.csv", "portfolio_id,region", "p2,EU")
    layout = publish(tmp_path, NIGHTS, "b")
    rows = ask(layout, "select portfolio_id, desk, region, file from reference.desks order by all")
    assert rows == [("p1", "Rates", None, "a.csv"), ("p2", None, "EU", "b.csv")]
    columns = ask(layout, "describe select portfolio_id, desk, region from reference.desks")
    assert {row[1] for row in columns} == {"VARCHAR"}


def test_a_rebuild_has_the_same_rows(tmp_path: Path) -> None:
    """A rebuild from scratch loads the same rows from the archive."""
    drop(tmp_path, "desks/a.csv", "portfolio_id,desk", "p1,Rates")
    drop(tmp_path, "a.csv", BTC)
    layout = publish(tmp_path, NIGHTS)
    queries = ("from reference.desks", "from reference.prices", "from ops.reference_files")
    before = [ask(layout, query) for query in queries]
    (tmp_path / "warehouse" / "current").unlink()
    publish(tmp_path, NIGHTS, "b")
    assert [ask(layout, query) for query in queries] == before


def test_tables_disappear_with_their_archive(tmp_path: Path) -> None:
    """If the archive was removed, the rows of prices and the other tables are removed as well."""
    drop(tmp_path, "desks/a.csv", "portfolio_id,desk", "p1,Rates")
    drop(tmp_path, "a.csv", BTC)
    publish(tmp_path, NIGHTS)
    (tmp_path / "reference").rename(tmp_path / "elsewhere")
    layout = publish(tmp_path, NIGHTS, "b")
    assert ask(layout, "select count(*) from reference.prices") == [(0,)]
    tables = "select count(*) from duckdb_tables() where schema_name = 'reference'"
    assert ask(layout, tables) == [(len(CONTRACTED),)]


def test_a_damaged_archive_does_not_stop_a_night(tmp_path: Path) -> None:
    """If the rows of a file are damaged, the night is published with the earlier rows."""
    drop(tmp_path, "a.csv", BTC)
    publish(tmp_path, NIGHTS)
    drop(tmp_path, "b.csv", BTC.replace(",1,", ",2,"))
    root = tmp_path / "reference"
    publish(tmp_path, NIGHTS, "b")
    (tmp_path / "warehouse" / "current").unlink()
    for file in received_files(root)[1:]:
        kept_rows(root, file.table, file.sha256).write_bytes(b"damaged")
    layout = publish(tmp_path, NIGHTS, "c")
    assert ask(layout, "select count(*) from holdings") == [(1,)]
    assert ask(layout, "select count(*) from reference.prices") == [(0,)]


def test_a_removed_problem_and_currency_leave_no_trace(tmp_path: Path) -> None:
    """Without any file, a reject and a currency of the last version do not stay in the next."""
    bad = drop(tmp_path, "a.txt", BTC)
    layout = publish(tmp_path, NIGHTS, currency="USD")
    state = "select (select count(*) from ops.reference_rejects), max(currency) from "
    assert ask(layout, f"{state} internal.price_settings") == [(1, "USD")]
    bad.unlink()
    publish(tmp_path, NIGHTS, "b")
    assert ask(layout, f"{state} internal.price_settings") == [(0, None)]
