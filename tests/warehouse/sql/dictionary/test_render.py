"""Tests of the dictionary, which is up to date and complete, and whose queries all run."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.support.books import Amount, night, published, published_once
from tests.support.dictionary_examples import examples
from warehouse.contract.book import BOOK
from warehouse.contract.ops import OPS
from warehouse.contract.reconciliation import RECONCILED
from warehouse.contract.reference import CONTRACTED, REFERENCED
from warehouse.query.connect import open_database
from warehouse.query.read import Description, keep_open, run, tables
from warehouse.sql.catalog import BEFORE, history_views, macros, ops_views, views
from warehouse.sql.dictionary.render import FILE, SKILL, render
from warehouse.sql.header import SqlFile
from warehouse.storage.layout import Layout

NIGHTS = [
    night("20261119T021500Z", [Amount("1.5"), Amount("2", asset="ETH", state="locked")]),
    night("20261120T021500Z", [Amount("4"), Amount("1e30", asset="ETH", bucket="invented")]),
]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish a warehouse with two nights."""
    layout = Layout(tmp_path_factory.mktemp("dictionary"))
    published(layout, NIGHTS, "a")
    return layout


@pytest.fixture(scope="module")
def connection(layout: Layout) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a reader of that warehouse."""
    with open_database(layout.database) as connection:
        yield connection


@pytest.mark.parametrize("page", [FILE, SKILL], ids=["dictionary", "skill"])
def test_the_committed_dictionary_is_up_to_date(page: Path) -> None:
    """The committed pages match the current contract. `make dictionary` writes them."""
    assert page.read_text("utf-8") == render(page)


@pytest.mark.parametrize(("name", "sql"), examples(), ids=lambda value: value.split(" ")[0])
@pytest.mark.usefixtures("connection")
def test_every_example_runs(layout: Layout, name: str, sql: str) -> None:
    """Each example runs in the hardened reader of the command line, so that users can paste it."""
    assert run(layout.database, sql).columns, name


@pytest.mark.parametrize("first", [date(2024, 2, 28), date(2025, 12, 30)], ids=str)
def test_every_printed_statement_runs_on_any_date(tmp_path: Path, first: date) -> None:
    """Each statement in the dictionary runs on books of any date, so that it works in any demo."""
    nights = [
        night(f"{first + timedelta(number):%Y%m%d}T021500Z", [Amount("1.5"), Amount(text, "p2")])
        for number, text in enumerate(("1", "2", "3"))
    ]
    layout = Layout(tmp_path)
    published_once(layout, nights, "a")
    statements = re.findall(r"```sql\n(.*?)```", FILE.read_text("utf-8"), re.DOTALL)
    assert len(statements) >= 70
    with keep_open(layout.database):
        for sql in statements:
            assert run(layout.database, sql).columns, sql


@pytest.mark.parametrize("words", views(), ids=lambda words: words.name)
def test_a_view_header_names_exactly_its_columns(
    connection: duckdb.DuckDBPyConnection, words: SqlFile
) -> None:
    """The header of a view names exactly the columns of the view, in the same order."""
    found = connection.execute(f"select * from {words.name} limit 0").description or ()
    assert [column[0] for column in found] == list(words.entries)


@pytest.mark.parametrize("words", views(), ids=lambda words: words.name)
def test_every_summed_column_has_an_exact_text_column(
    connection: duckdb.DuckDBPyConnection, words: SqlFile
) -> None:
    """Each DECIMAL column with a sum has a text column with the exact sum."""
    rows = connection.execute(f"describe select * from {words.name}").fetchall()
    kinds = {name: kind for name, kind, *_ in rows}
    constraints = {column.name for table in BOOK for column in table.columns}
    for name, kind in kinds.items():
        if kind.startswith("DECIMAL") and name not in constraints:
            assert kind == "DECIMAL(38,18)"
            assert kinds.get(f"{name}_text") == "VARCHAR", f"add {name}_text, the exact text"


def test_everything_in_the_file_has_a_comment(layout: Layout) -> None:
    """Every table, view, macro and column has a comment in the database file."""
    found = tables(layout.database)
    silent = [one.name for one in found if not one.comment]
    silent += [
        f"{one.name}.{column}"
        for one in found
        for column, _, comment in one.columns
        if one.kind != "macro" and not comment
    ]
    assert silent == []


def test_everything_in_the_file_is_in_the_dictionary(layout: Layout) -> None:
    """The file has exactly the declared tables, views and macros, all in the dictionary."""
    declared = {table.name for table in BOOK}
    declared |= {f"ops.{table.name}" for table in (*OPS, *RECONCILED, *REFERENCED)}
    declared |= {f"reference.{table.name}" for table in CONTRACTED}
    declared |= {f"history.{view.name}" for view in history_views()}
    declared |= {words.name for words in views()}
    declared |= {macro.name for macro in macros() if macro.schema == "main"}
    declared |= {f"ops.{view.name}" for view in ops_views()} | {f"{name}_before" for name in BEFORE}
    found = {_name(one) for one in tables(layout.database)}
    assert found == declared
    page = FILE.read_text("utf-8")
    assert [name for name in sorted(found) if f"### {name}" not in page] == []


def _name(described: Description) -> str:
    is_other = described.schema in ("ops", "reference")
    is_other |= described.name in {view.name for view in history_views()}
    return f"{described.schema}.{described.name}" if is_other else described.name
