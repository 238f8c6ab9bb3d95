"""Tests of windows. Such a file stores only the newest nights, and reads others from the lake."""

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.support import environments
from tests.support.books import BUILT_AT, Amount, Night, night, totals, written
from tests.support.shared import some_daily
from tests.warehouse.query.test_connect_older_clients import OLDER, asked, printed
from warehouse.contract.book import BOOK
from warehouse.contract.lake import HOLDINGS
from warehouse.contract.ops import OPS
from warehouse.database.load import FileChanged
from warehouse.database.publication import Published, publish_version
from warehouse.query import child
from warehouse.query.door import open_book
from warehouse.query.errors import QueryFailed
from warehouse.query.exact_amount import NotExact
from warehouse.query.read import run
from warehouse.sql.catalog import Macro, macros, views
from warehouse.storage.layout import Layout

OLD, PLACE = "2024-11-17", "it's a=b {x}"  # a home path with characters that DuckDB may misread
NIGHTS = [
    night(
        f"{year}11{day}T021500Z",
        [Amount("1e30"), Amount(f"{day}.5", "p2"), Amount(f"-{year}", "p3", bucket="invented")],
    )
    for year in (2024, 2025, 2026)
    for day in (17, 20)
]


def wanting(one: Night) -> Night:
    """Return the night with a JSON total that differs, and a total of an asset without rows."""
    *others, last = totals(one)
    gone = {"asset_id": "GONE", "in_json": "5", "in_lake": "0"}
    return replace(one, ops={"control_totals": [*others, last | {"in_json": "7"}, last | gone]})


NIGHTS[::3] = map(wanting, NIGHTS[::3])
COLUMNS = (
    "select table_schema, table_name, column_name, data_type from information_schema.columns "
    "where table_schema in ('main', 'history', 'ops')"
)
# Exclude the totals of a rejected night, because a build from scratch does not load them.
TOTALS = (
    "select * from ops.control_totals semi join (from ops.snapshots where is_book) "
    "using (snapshot_id)"
)
QUESTIONS = (
    COLUMNS,
    f"from balances_as_of('{OLD}')",
    f"from holdings_as_of('{OLD}')",
    f"from trace('p2', 'BTC', '{OLD}')",
    f"from changes_between('{OLD}', '2026-11-20')",
    f"from roll_forward_between('{OLD}', '2025-11-20')",
    TOTALS,
    "from known_at('2100-01-01')",
    f"from totals_known_at('{OLD}', '2100-01-01')",
    "select snapshot_date, exact_sum(amount_text) from history.balances group by all",
)


def put(layout: Layout, nights: Iterable[Night], version: str, keep: int | None) -> Published:
    """Publish nights in a file that stores `keep` of them itself, or all if `keep` is None."""
    contents = replace(written(layout, nights), native_nights=keep)
    return publish_version(
        layout, contents, version=version, built_at=BUILT_AT, program_version="0.0.0"
    )


def answers(layout: Layout) -> dict[str, list[str]]:
    """Return the rows of each view, each history table and each query in `QUESTIONS`."""
    with duckdb.connect(str(layout.database), read_only=True) as client:
        client.execute("set TimeZone = 'UTC'")
        names = client.execute(
            "select schema_name || '.' || view_name from duckdb_views() where not internal "
            "and schema_name in ('main', 'history') union "
            "select 'history.' || table_name from duckdb_tables() where schema_name = 'history'"
        ).fetchall()
        return {
            query: sorted(map(str, client.execute(query).fetchall()))
            for query in (*QUESTIONS, *(f"from {name}" for (name,) in names))
        }


def days(layout: Layout) -> set[str]:
    """Return the dates that the file stores itself."""
    query = "select distinct snapshot_date::varchar from internal.native_balances"
    with duckdb.connect(str(layout.database), read_only=True) as client:
        return {day for (day,) in client.execute(query).fetchall()}


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Layout, Layout]:
    """Publish the same nights twice: in a file with all of them, and in a file with only two."""
    place = tmp_path_factory.mktemp("window") / PLACE
    full, windowed = Layout(place / "full"), Layout(place / "windowed")
    put(full, NIGHTS, "a", None)
    put(windowed, NIGHTS, "a", 2)
    return full, windowed


def test_a_window_changes_no_result(homes: tuple[Layout, Layout]) -> None:
    """Views, macros and history return exactly the same rows, although four nights are outside."""
    full, windowed = homes
    wanted = answers(full)
    assert answers(windowed) == wanted
    assert all(wanted[query] for query in QUESTIONS), "a question without rows compares nothing"
    assert days(windowed) == {"2026-11-17", "2026-11-20"}


@pytest.mark.torture
@pytest.mark.parametrize("name", OLDER)
def test_older_clients_read_the_lake_too(name: str, homes: tuple[Layout, Layout]) -> None:
    """Each query in the dictionary returns the same rows in an older DuckDB client.

    The client opens the file by its own path, not through the link `current`.
    """
    full, windowed = homes
    said = asked(environments.python(name), windowed.database.resolve())[1]
    assert said == asked(sys.executable, full.database)[1]


@pytest.mark.torture
def test_a_window_stays_equal_to_a_full_file(tmp_path: Path) -> None:
    """A window always returns the same rows as a full file.

    This is true after a new night, a new decision on an old night, and changes or removal of the
    limit.
    """
    full, windowed = Layout(tmp_path / "full"), Layout(tmp_path / "windowed")
    later = [*NIGHTS, night("20261121T021500Z", [Amount("5")])]
    redecided = [*later, night("20241117T031500Z", [Amount("99", "p9")])]
    redecided[0] = replace(redecided[0], state="rejected", is_book=False)
    without = [one for one in redecided if one.snapshot_id[:4] != "2025"]
    turns: list[tuple[list[Night], int | None, int]] = [
        *((NIGHTS, 2, 2), (later, 2, 2), (redecided, 3, 3), (without, 99, 5)),
        *((redecided, None, 0), (redecided, 3, 3)),
    ]
    for number, (nights, keep, held) in enumerate(turns):
        version = f"v{number}"
        put(full, nights, version, None)
        put(windowed, nights, version, keep)
        assert answers(windowed) == answers(full), number
        assert keep is None or len(days(windowed)) == held, number


COUNT = """
import sys, duckdb
book = duckdb.connect(sys.argv[1], read_only=True, config={"threads": 2})
print(*(len(book.execute(f"from history.{name}").fetchall()) for name in sys.argv[2:]))
"""


@pytest.mark.parametrize("client", some_daily(["duckdb12", "duckdb13", "duckdb14"], 3))
def test_older_clients_with_several_threads_read_every_row(client: str, tmp_path: Path) -> None:
    """DuckDB 1.2 to 1.4 read all rows of a window, even with several threads.

    From a plain union of three views, as DuckDB 2.0 stores it, they omitted five of eight rows.
    """
    amounts = [Amount("1.5", f"p{number}") for number in range(50)]
    days = [f"{year}11{day}T021500Z" for year in (2023, 2024, 2025, 2026) for day in range(10, 14)]
    layout = Layout(tmp_path)
    put(layout, [night(day, amounts) for day in days], "a", 2)
    names = ("balances", "accounts", "positions", "holdings")
    command = [str(environments.python(client)), "-c", COUNT, str(layout.database), *names]
    answer = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    assert answer.stdout.split() == [str(len(days) * len(amounts))] * len(names)


def test_no_view_or_macro_is_stored_as_a_union_of_unions(homes: tuple[Layout, Layout]) -> None:
    """No view or macro is stored with a union inside the second half of a union.

    DuckDB before 1.5 omits rows of such a union.
    """
    with duckdb.connect(str(homes[1].database), read_only=True) as client:
        stored = client.execute(
            "select schema_name, view_name, sql from duckdb_views() where not internal union all "
            "select schema_name, function_name, macro_definition from duckdb_functions() "
            "where not internal and macro_definition is not null"
        ).fetchall()
    unions = {f"{schema}.{name}" for schema, name, sql in stored if "UNION" in sql.upper()}
    nested = {
        f"{schema}.{name}" for schema, name, sql in stored if re.search(r"UNION (ALL )?\(\(", sql)
    }
    assert len(unions) > len(nested)
    assert nested <= {"internal.findings"}, "which only a publish reads; clients read its rows"


def statements(day1: str, day2: str) -> list[tuple[str, str]]:
    """Return each macro call for these days, each table and view, and each printed statement."""
    values = {
        "day": day1,
        "day1": day1,
        "day2": day2,
        "moment": "2100-01-01",
        "portfolio": "p1",
        "asset": "BTC",
    }

    def call(macro: Macro) -> str:
        # DuckDB 1.2 and 1.3 accept the optional day of `trace` only by name.
        named = {"day"} if macro.name == "trace" else set()
        arguments = (
            f"{name} := {values[name]!r}" if name in named else repr(values[name])
            for name in macro.parameters
        )
        return f"from {macro.name}({', '.join(arguments)})"

    plain = [call(macro) for macro in macros() if macro.is_table and macro.schema == "main"]
    plain += [f"from history.{table.name}" for table in (*BOOK, *HOLDINGS)]
    plain += [f"from {view.name}" for view in views()] + [f"from ops.{t.name}" for t in OPS]
    return [*((sql, sql) for sql in plain), *printed()]


@pytest.mark.torture
def test_400_nights_outside_a_window_change_no_result(tmp_path: Path) -> None:
    """With 400 nights outside a window, all views, macros and printed statements are unchanged.

    This is true for `query`, the Python API and older clients.
    """
    first, layout = date(2025, 9, 1), Layout(tmp_path)
    days = [first + timedelta(days=number) for number in range(405)]
    amounts = [Amount(f"{place}.5", f"p{place}") for place in range(2, 42)]
    nights = [night(f"{day:%Y%m%d}T021500Z", [*amounts, Amount(f"{day:%j}")]) for day in days]
    contents, queries = written(layout, nights), statements(str(days[3]), str(days[-3]))
    answered = {}
    for version, keep in (("a", None), ("b", 5)):
        windowed = replace(contents, native_nights=keep)
        publish_version(
            layout, windowed, version=version, built_at=BUILT_AT, program_version="0.0.0"
        )
        answered[version] = asked(sys.executable, layout.database, queries, 600)[1]
    wanted = answered["b"]
    differing = {name for name, rows in wanted.items() if answered["a"][name] != rows}
    builds = {name for name, sql in queries if sql.endswith("from ops.build")}
    assert differing == builds, "only these name the version of the file"
    assert sum(map(bool, wanted.values())) > len(wanted) // 2
    for client in OLDER:
        said = asked(environments.python(client), layout.database, queries, 600)[1]
        assert [name for name, rows in wanted.items() if said[name] != rows] == [], client
    refused = set()
    with open_book(layout.home) as book:
        for name, sql in queries:
            assert len(child.ask(layout.database, sql).rows) == len(wanted[name]), sql
            try:
                assert len(book.query(sql)) == len(wanted[name]), sql
            except NotExact:  # The Python API never returns a struct with amounts.
                refused.add(sql)
    assert all("internal.exact_" in sql for sql in refused), refused


def test_a_publish_within_a_window_loads_only_the_new_night(tmp_path: Path) -> None:
    """A publish loads and checks only the new night, and not the night that leaves the window."""
    layout = Layout(tmp_path)
    put(layout, NIGHTS[:3], "a", 2)
    assert [str(day) for day in put(layout, NIGHTS[:4], "b", 2).loaded] == ["2025-11-20"]


def test_a_query_for_one_date_opens_only_its_files(homes: tuple[Layout, Layout]) -> None:
    """A query for one date opens only the files of that date.

    This is true even if the query reads the date from a different table.
    """
    with duckdb.connect(str(homes[1].database), read_only=True) as client:
        for query in (
            f"select count(*) from history.balances where snapshot_date = '{OLD}'",
            f"select count(*) from balances_as_of('{OLD}')",
        ):
            [(_, plan)] = client.execute(f"explain analyze {query}").fetchall()
            opened = [line for line in plan.splitlines() if "Total Files Read" in line]
            counts = [number for line in opened for number in re.findall(r"Read: (\d+)", line)]
            assert sorted(counts) == ["0", "1"], plan


def test_a_missing_lake_file_is_an_error_not_fewer_rows(tmp_path: Path) -> None:
    """If a lake file or the whole lake is missing, a query for its nights fails.

    The nights that the file stores itself can still be read.
    """
    layout = Layout(tmp_path / "home")
    put(layout, NIGHTS[:3], "a", 2)
    alone = tmp_path / "nightbook.duckdb"
    alone.write_bytes(layout.database.read_bytes())
    layout.parquet("balances", NIGHTS[0].day, NIGHTS[0].snapshot_id).unlink()
    for file in (layout.database, alone):
        with duckdb.connect(str(file), read_only=True) as client:
            assert client.execute("select count(*) from balances").fetchall() == [(3,)]
            for query in ("from history.balances", f"from balances_as_of('{OLD}')"):
                with pytest.raises(duckdb.IOException, match="20241117T021500Z"):
                    client.execute(query).fetchall()
    with pytest.raises(QueryFailed, match=r"20241117T021500Z.*rebuild"):
        run(layout.database, "from history.balances")


def test_a_night_with_changed_lake_files_stays_in_the_file(tmp_path: Path) -> None:
    """A night leaves the file only if the digests of its lake files are correct.

    From then on, its rows are read from these files.
    """
    layout = Layout(tmp_path)
    contents = replace(written(layout, NIGHTS[:3]), native_nights=99)
    put(layout, NIGHTS[:3], "a", 99)
    file = contents.books[0].files["balances"]
    changed = replace(contents, native_nights=2, digests={file: "0" * 64})
    with pytest.raises(FileChanged, match="20241117T021500Z"):
        publish_version(layout, changed, version="b", built_at=BUILT_AT, program_version="0.0.0")
    assert (layout.warehouse / "current").readlink().name == "a"


@pytest.mark.parametrize("folder", ["a*b", "snapshot_date=2020-01-01", "a[b]"])
def test_a_home_path_with_a_pattern_or_date_is_refused(tmp_path: Path, folder: str) -> None:
    """A home is refused if its path contains a pattern, or a folder whose name sets a date.

    DuckDB would return rows of other nights.
    """
    with pytest.raises(ValueError, match="DuckDB cannot read the lake"):
        put(Layout(tmp_path / folder), NIGHTS[:3], "a", 2)


def test_guarded_queries_read_only_the_listed_lake_files(
    homes: tuple[Layout, Layout],
) -> None:
    """Guarded queries can read only the lake files that the views list, and only with `select`.

    They cannot write any file.
    """
    layout = homes[1]
    query = "select snapshot_date, count(*) from history.balances group by all order by all"
    assert len(child.ask(layout.database, query).rows) == len(NIGHTS)
    with open_book(layout.home) as book:
        assert len(book.balances(OLD)) == 3
    listed = layout.parquet("balances", NIGHTS[0].day, NIGHTS[0].snapshot_id)
    newest = layout.parquet("balances", NIGHTS[-1].day, NIGHTS[-1].snapshot_id)
    before = listed.read_bytes()
    for attack in (
        "copy (select 1) to '{file}' (use_tmp_file false)",
        "explain analyze copy (select 1) to '{file}' (format csv, use_tmp_file false)",
        f"from read_parquet('{newest.parent.parent}/*/*.parquet') limit 1",
        f"from read_blob('{newest}')",
        f"select * from glob('{newest.parent.parent}/*')",
        "from read_text('/etc/hostname')",
        "from enable_logging(storage = 'file', storage_path = '{file}')",
        "attach '{file}' as other",
    ):
        sql = attack.replace("{file}", str(listed)).replace("it's", "it''s")
        with pytest.raises(QueryFailed):
            run(layout.database, sql)
    assert listed.read_bytes() == before
