"""Tests of queries from the command line, which return exact results and do no harm."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.books import Amount, night, published
from warehouse.query.connect import open_database
from warehouse.query.errors import QueryFailed
from warehouse.query.formats import as_csv, as_json, as_table
from warehouse.query.read import run, tables
from warehouse.storage.layout import Layout

EXACT = "12345678901234567890.123456789012345678"
ODD = 'x"y\n\x1b[31m,=1+1'


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish a file with an exact amount and an odd name."""
    layout = Layout(tmp_path_factory.mktemp("query"))
    amounts = [Amount(EXACT), Amount("1.50", asset=ODD), Amount("1e30", asset="Z")]
    published(layout, [night("20261120T021500Z", amounts)], "a")
    return layout.database


def test_every_format_keeps_every_digit(database: Path) -> None:
    """Decimals have all their digits, in JSON as strings. NULL is empty or null."""
    answer = run(database, "select asset_id, amount from balances order by amount_text::varchar")
    assert [row[1] for row in csv.reader(io.StringIO(as_csv(answer)))] == [
        "amount",
        "1.5",
        EXACT,
        "",
    ]
    assert [row["amount"] for row in json.loads(as_json(answer))] == ["1.5", EXACT, None]
    assert EXACT in as_table(answer)


def test_control_characters_in_names_are_escaped_in_tables(database: Path) -> None:
    """CSV and JSON do not change names. The terminal table escapes their control characters."""
    answer = run(database, "select asset_id from balances where amount = 1.5")
    assert list(csv.reader(io.StringIO(as_csv(answer))))[1] == [ODD]
    assert json.loads(as_json(answer)) == [{"asset_id": ODD}]
    assert 'x"y\\n\\x1b[31m,=1+1' in as_table(answer)
    assert "\x1b" not in as_table(answer)


@pytest.mark.parametrize(
    ("sql", "shown", "held"),
    [
        ("1e-8::decimal(38, 18)", "0.00000001", "0.00000001"),
        ("-0.0::decimal(3, 1)", "0", "0"),
        ("9007199254740993", "9007199254740993", "9007199254740993"),
        ("42", "42", 42),
        ("true", "true", True),
        ("timestamptz '2026-01-01 01:00:00+01'", "2026-01-01 00:00:00Z", "2026-01-01 00:00:00Z"),
        ("timestamp '2026-01-01'", "2026-01-01 00:00:00", "2026-01-01 00:00:00"),
        ("date '2026-01-01'", "2026-01-01", "2026-01-01"),
        ("[0.1, null]", '["0.1", null]', ["0.1", None]),
        ("{a: 0.1}", '{"a": "0.1"}', {"a": "0.1"}),
        ("0.5::double", "0.5", 0.5),
        ("'nan'::double", "nan", "nan"),
        ("['-inf'::float]", '["-inf"]', ["-inf"]),
        ("null", "", None),
        ("interval '1 month 3 days'", "1 month 3 days", "1 month 3 days"),
        ("timestamp_ns '2026-01-01 00:00:00.123456789'", *["2026-01-01 00:00:00.123456789"] * 2),
        (r"'a\xFF'::blob", r"a\xFF", r"a\xFF"),
        ("[interval 2 year] -- aged\n", "[2 years]", "[2 years]"),
    ],
)
def test_each_kind_of_value_has_one_exact_form(
    database: Path, sql: str, shown: str, held: object
) -> None:
    """Numbers, times and nested values each have one exact form."""
    answer = run(database, f"select {sql} as x")
    assert list(csv.reader(io.StringIO(as_csv(answer)))) == [["x"], [shown]]
    assert json.loads(as_json(answer)) == [{"x": held}]


def test_columns_with_the_same_name_are_all_kept(database: Path) -> None:
    """JSON objects have every column, even if two columns have the same name."""
    answer = run(database, "select 1 as x, 2 as x")
    assert json.loads(as_json(answer)) == [{"x": 1, "x_2": 2}]
    answer = run(database, "select 1 as a, 2 as a, 3 as a_2")
    assert json.loads(as_json(answer)) == [{"a": 1, "a_3": 2, "a_2": 3}]


def test_a_long_result_is_cut_and_marked_as_cut(database: Path) -> None:
    """A result has at most the requested number of rows, and shows if there were more."""
    assert run(database, "select * from range(5)", limit=4).is_cut
    whole = run(database, "select * from range(5)", limit=5)
    assert (len(whole.rows), whole.is_cut) == (5, False)


@pytest.mark.parametrize(
    "sql",
    [
        "create table x (y integer)",
        "delete from history.balances",
        "attach '/elsewhere/other.db'",
        "copy (select 1) to '/elsewhere/copied'",
        "select * from read_csv('/etc/hostname')",
        "select * from read_text('/etc/hostname')",
        "select * from '/etc/hostname'",
        "install httpfs",
        "load httpfs",
        "set memory_limit = '100GB'",
        "set lock_configuration = false",
        "pragma enable_external_access = true",
        "export database '/elsewhere/exported'",
    ],
)
def test_a_query_cannot_do_harm(database: Path, sql: str) -> None:
    """A query cannot write anything, read other files or change the limits."""
    with pytest.raises(QueryFailed, match="Nothing was changed"):
        run(database, sql)


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select * from balancez", 'Did you mean "balances"(.|\n)*`nightbook tables` lists'),
        ("select asset from balances", "asset_id(.|\n)*`nightbook tables NAME` lists columns"),
        ("delete from balances", "read-only: a query must begin with SELECT(.|\n)*-o FILE"),
        ("selct 1", 'near "selct"(.|\n)*begins with SELECT, WITH or FROM'),
    ],
)
def test_a_mistake_shows_duckdbs_hint_and_the_next_command(
    database: Path, sql: str, words: str
) -> None:
    """The error shows the mistake, DuckDB's suggestion and the next command to type."""
    with pytest.raises(QueryFailed, match=words):
        run(database, sql)


@pytest.mark.parametrize(
    ("sql", "wanted", "unwanted"),
    [
        ("", "The query is empty. Nothing was run. A query is one SQL statement", "instead of one"),
        ("-- nothing", "The query is empty", "no statement"),
        ("from pnl", "`nightbook tables` lists the tables", "pg_"),
        ("from holdngs", 'Did you mean "holdings"?', "pg_"),
        ("select list(r) from range(10000000000) t(r)", "failed to", "https://"),
    ],
)
def test_messages_do_not_contain_what_only_duckdb_needs(
    database: Path, sql: str, wanted: str, unwanted: str
) -> None:
    """Messages suggest no system tables and no links, and an empty query is called empty."""
    with pytest.raises(QueryFailed) as refused:
        run(database, sql)
    assert wanted in str(refused.value)
    assert unwanted not in str(refused.value)


def test_a_missing_warehouse_names_the_next_command(tmp_path: Path) -> None:
    """Before the first night, the error names the command that pulls a night."""
    with pytest.raises(FileNotFoundError, match="nightbook run"):
        open_database(Layout(tmp_path).database)


def test_two_readers_in_one_process_are_both_hardened(database: Path) -> None:
    """A second reader in the same process is as hardened as the first."""
    with open_database(database) as first, open_database(database) as second:
        for reader in (first, second):
            found = reader.execute(
                "select current_setting('TimeZone'), current_setting('lock_configuration')"
            ).fetchall()
            assert found == [("UTC", True)]


def test_tables_are_listed_with_their_descriptions(database: Path) -> None:
    """Tables, views and macros are listed with their kind, comment and columns.

    The schema main is first.
    """
    found = {(one.schema, one.name): one for one in tables(database)}
    assert found["main", "holdings"].kind == "view"
    assert found["history", "balances"].kind == "table"
    assert found["main", "changes_between"].columns == (("day1", "", ""), ("day2", "", ""))
    assert found["main", "balances"].columns[-1][:2] == ("amount_text", "VARCHAR")
    assert next(iter(found))[0] == "main"


def test_the_reader_does_not_load_pandas() -> None:
    """Importing the reader does not load pandas, Arrow or NumPy."""
    code = (
        "import sys, warehouse.query.read; "
        "sys.exit(bool({'pandas', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
