"""Tests of the file with the newest books of several homes."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from duckdb import DuckDBPyConnection

from tests.support import environments
from tests.support.books import Amount, exact, night, published_once
from tests.support.priced_books import drop, publish, read_at
from tests.support.shared import some_daily
from tests.warehouse.query.test_connect_older_clients import OLDER, read_whole
from warehouse.contract.book import BOOK
from warehouse.contract.combination import CHECKS_LEFT_OUT, LEFT_OUT
from warehouse.database import combine as combining
from warehouse.database import load
from warehouse.database.combine import NotCombined, combine
from warehouse.database.versions import is_as_published
from warehouse.sql.catalog import BEFORE, Macro, checks, macros, ops_views, views
from warehouse.sql.header import SqlFile
from warehouse.storage.layout import Layout

FIRST, SECOND = "20261119T021500Z", "20261120T021500Z"
INSTRUMENTS = [{"venue_id": "v1", "instrument_id": name} for name in ("i1", "i2", "i3")]
# The amounts of each home's newest book. Alpha and beta see the portfolio p1, with different
# amounts. Beta and gamma each define a custom asset X.
AMOUNTS = {
    "alpha": [
        Amount("0.1", "p1"),
        Amount("1e30", "p1", "ETH"),
        Amount("0.000000000000000000000007", "p2", venue="v2", state="locked"),
        Amount("-3", "p2", account="margin", bucket="invented"),
    ],
    "beta": [
        Amount("99", "p1"),
        Amount("98", "p1", venue="v9", account="other"),
        Amount("0.2", "q1"),
        Amount("7", "q1", "X", custom=True),
    ],
    "gamma": [
        Amount("123456789012345678901234567890.5", "r1", "ETH"),
        Amount("0.3", "r1", venue="v3"),
        Amount("11", "r1", "X", custom=True),
    ],
}
OF_PORTFOLIOS = [table.name for table in BOOK if "portfolio_id" in table.names]


def make_home(folder: Path, number: int, *, newest: str = SECOND) -> None:
    """Publish the newest book of a home, after an earlier book with other amounts."""
    more = {"instruments": INSTRUMENTS[number : number + 2]}
    nights = [night(newest, AMOUNTS[folder.name], more)]
    if newest != FIRST:
        nights.insert(0, night(FIRST, [Amount("1000", "p1"), Amount("1000", "gone")]))
    published_once(Layout(folder), nights, "a")


@pytest.fixture
def homes(tmp_path: Path) -> dict[str, Path]:
    """Return the folders of alpha, beta and gamma."""
    for number, name in enumerate(AMOUNTS):
        make_home(tmp_path / name, number)
    return {name: tmp_path / name for name in AMOUNTS}


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Return the path of the combined file."""
    return tmp_path / "out" / "group.duckdb"


def opened(file: Path) -> DuckDBPyConnection:
    """Open a file as an analyst does."""
    return duckdb.connect(str(file), read_only=True)


def ask(file: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query, sorted."""
    with opened(file) as connection:
        return sorted(connection.execute(query).fetchall(), key=str)


def winner(portfolio: str) -> str:
    """Return the first home that sees a portfolio."""
    return next(
        name for name, given in AMOUNTS.items() if portfolio in {a.portfolio for a in given}
    )


def test_sums_equal_an_independent_calculation(homes: dict[str, Path], out: Path) -> None:
    """Python adds up the rows of three homes, two with one portfolio, to the same sums."""
    combine(homes, out)
    by_asset, by_holding = defaultdict(list), defaultdict(list)
    for name, home in homes.items():
        rows = "select portfolio_id, asset_id, is_custom_asset, amount_text from balances"
        for portfolio, asset, custom, text in ask(Layout(home).database, rows):
            if winner(portfolio) == name:
                by_asset[asset, custom].append(text)
                by_holding[portfolio, asset, custom].append(text)
    assert len(by_asset) == 3
    key = "asset_id, is_custom_asset"
    expected = sorted(((*asset, exact(texts)) for asset, texts in by_asset.items()), key=str)
    assert ask(out, f"select {key}, total_text from holdings_by_asset") == expected
    assert ask(out, f"select {key}, exact_sum(amount_text) from balances group by all") == expected
    for view in ("holdings", "holdings_by_venue", "account_balances"):
        sums = f"select {key}, exact_sum(total_text) from {view} group by all"
        assert ask(out, sums) == expected, view
    held = sorted(((*place, exact(texts)) for place, texts in by_holding.items()), key=str)
    assert ask(out, f"select portfolio_id, {key}, total_text from holdings") == held


def test_a_shared_portfolio_comes_from_the_first_home_only(
    homes: dict[str, Path], out: Path
) -> None:
    """If two homes see a portfolio, all its rows come from the first home that is named."""
    for order in (["alpha", "beta", "gamma"], ["gamma", "beta", "alpha"]):
        combine({name: homes[name] for name in order}, out)
        first = next(name for name in order if name in ("alpha", "beta"))
        for table in OF_PORTFOLIOS:
            columns = "exclude (source)" if table == "portfolios" else ""
            where = "where portfolio_id = 'p1'"
            own = ask(Layout(homes[first]).database, f"select * from {table} {where}")
            assert ask(out, f"select * {columns} from {table} {where}") == own, table
        assert ask(out, "select portfolio_id, source from portfolios") == [
            ("p1", first),
            ("p2", "alpha"),
            ("q1", "beta"),
            ("r1", "gamma"),
        ]


def test_what_several_homes_see_is_there_once_and_is_listed(
    homes: dict[str, Path], out: Path
) -> None:
    """Each venue and instrument is in the file once, and `ops.shared` lists the other homes."""
    sources, shared = combine(homes, out)
    venues = [(name,) for name in ("v1", "v2", "v3", "v9")]
    assert ask(out, "select venue_id from venues") == venues
    assert ask(out, "select venue_id, instrument_id from instruments") == [
        ("v1", "i1"),
        ("v1", "i2"),
        ("v1", "i3"),
    ]
    listed = [
        ("custom asset", "", "X", "beta"),
        ("custom asset", "", "X", "gamma"),
        ("instrument", "v1", "i2", "beta"),
        ("instrument", "v1", "i3", "gamma"),
        ("portfolio", "", "p1", "beta"),
        ("venue", "", "v1", "beta"),
        ("venue", "", "v1", "gamma"),
    ]
    assert ask(out, "from ops.shared") == listed
    assert sorted(tuple(row.values()) for row in shared) == listed
    assert [(row["source"], row["home"], row["snapshot_id"]) for row in sources] == [
        (name, str(home), SECOND) for name, home in homes.items()
    ]


def test_a_custom_asset_of_a_shared_portfolio_is_no_conflict(tmp_path: Path, out: Path) -> None:
    """A custom asset is listed only if different portfolios of several homes have it."""
    for name in ("one", "two"):
        book = night(SECOND, [Amount("1", "p1", "X", custom=True)])
        published_once(Layout(tmp_path / name), [book], "a")
    combine({name: tmp_path / name for name in ("one", "two")}, out)
    assert {kind for (kind,) in ask(out, "select kind from ops.shared")} == {"portfolio", "venue"}


def test_books_of_different_dates_keep_their_dates(homes: dict[str, Path], out: Path) -> None:
    """Rows keep the date of their book, sums have a row for each date, and venues have names."""
    shutil.rmtree(homes["gamma"])
    make_home(homes["gamma"], 2, newest=FIRST)
    combine(homes, out)
    assert ask(out, "select source, snapshot_date::text, version from ops.sources") == [
        ("alpha", "2026-11-20", "a"),
        ("beta", "2026-11-20", "a"),
        ("gamma", "2026-11-19", "a"),
    ]
    assert ask(
        out,
        "select snapshot_date::text, total_text from holdings_by_asset where asset_id = 'ETH'",
    ) == [
        ("2026-11-19", "123456789012345678901234567890.5"),
        ("2026-11-20", "1" + "0" * 30),
    ]
    for view in ("holdings_by_venue", "account_balances", "locked_funds"):
        assert ask(out, f"select * from {view} where venue_name is null") == []
    assert ask(out, "select count(*) from holdings_by_venue") == ask(
        out,
        "select count(distinct (snapshot_date, venue_id, asset_id, is_custom_asset)) from accounts",
    )


def test_the_homes_do_not_change(homes: dict[str, Path], out: Path) -> None:
    """Combining changes no file of a home, and leaves only the file and a lock folder."""
    before = {path: path.lstat() for home in homes.values() for path in home.rglob("*")}
    combine(homes, out)
    after = {path: path.lstat() for home in homes.values() for path in home.rglob("*")}
    assert [(p, s.st_ino, s.st_mtime_ns) for p, s in before.items()] == [
        (p, s.st_ino, s.st_mtime_ns) for p, s in after.items()
    ]
    assert {path.name for path in out.parent.iterdir()} == {out.name, f".{out.name}.work"}
    assert list((out.parent / f".{out.name}.work").iterdir()) == []
    assert out.stat().st_mode & 0o777 == 0o440


def needs_one_home(sql: str) -> bool:
    """Return whether a query reads the history, the ops tables or the previous book of a home."""
    names = "|".join([*(f"{name}_before" for name in BEFORE), "changes", "asset_moves"])
    names += r"|internal\.(?:asset_values|value_groups|price_settings)|holdings_value_as_of"
    return bool(
        re.search(rf"\b(?:ops|history)\.|\binternal\.books\b|\b(?:from|join) (?:{names})\b", sql)
    )


def test_the_names_that_are_left_out_are_those_that_need_one_home() -> None:
    """The lists of left-out views, macros and checks are complete, and contain no other name."""
    every: list[SqlFile | Macro] = [*views(), *ops_views(), *macros()]
    found = {each.name for each in every if needs_one_home(each.sql)}
    assert {*LEFT_OUT} == {*found, "drift", *(f"{name}_before" for name in BEFORE)}
    assert {*CHECKS_LEFT_OUT} == {check.name for check in checks() if needs_one_home(check.sql)}


NAMES = """
select schema_name, table_name from duckdb_columns()
where not internal and schema_name in ('main', 'ops') group by all
"""
MACROS = """
select schema_name, function_name from duckdb_functions()
where not internal and database_name = current_database()
"""
COMMENTS = """
select concat_ws('.', schema_name, table_name, column_name), comment from duckdb_columns()
where not internal and schema_name in ('main', 'ops')
union all
select concat_ws('.', schema_name, name), comment from (
    select schema_name, table_name as name, comment, internal from duckdb_tables()
    union all select schema_name, view_name, comment, internal from duckdb_views()
    union all select schema_name, function_name, comment, internal from duckdb_functions()
    where database_name = current_database()
) where not internal and schema_name in ('main', 'ops')
"""


def test_the_file_has_the_usual_names_and_comments(homes: dict[str, Path], out: Path) -> None:
    """The file has all tables, views and macros of a home with their comments, except the listed.

    Each of them answers a query.
    """
    combine(homes, out)
    home = Layout(homes["alpha"]).database
    usual = {name for schema, name in ask(home, NAMES) if schema == "main"} - {*LEFT_OUT}
    found = ask(out, NAMES)
    assert {name for schema, name in found if schema == "main"} == usual
    assert {name for schema, name in found if schema == "ops"} == {
        *("sources", "shared", "holding_values")
    }
    assert ask(out, MACROS) == [row for row in ask(home, MACROS) if row[1] not in LEFT_OUT]
    for schema, name in found:
        ask(out, f"from {schema}.{name}")
    comments, own = dict(ask(home, COMMENTS)), dict(ask(out, COMMENTS))
    assert all(own.values())
    extra = {name for name in own if name not in comments}
    assert {name for name in extra if not name.startswith("ops.")} == {"main.portfolios.source"}
    assert {name for name in own.keys() - extra if own[name] != comments[name]} == set()
    assert all(name in own["ops.sources"] for name in (*LEFT_OUT, *CHECKS_LEFT_OUT))


def remove(home: Path) -> None:
    """Remove a home, as if its disk were not mounted."""
    shutil.rmtree(home)


def damage(home: Path) -> None:
    """Overwrite all blocks of the published file."""
    file = Layout(home).database
    file.chmod(0o640)
    size = file.stat().st_size
    with file.open("r+b") as written:
        written.seek(3 * 4096)
        written.write(b"\xaa" * (size - 3 * 4096))


def truncate(home: Path) -> None:
    """Truncate the published file to nothing."""
    file = Layout(home).database
    file.chmod(0o640)
    file.write_bytes(b"")


def use_other_version(home: Path) -> None:
    """Change the schema version of the published file."""
    file = Layout(home).database
    file.chmod(0o640)
    with duckdb.connect(str(file)) as connection:
        connection.execute("update ops.build set schema_version = 'other'")


def hold_everything(home: Path) -> None:
    """Publish a home without a book, because its only night is held."""
    shutil.rmtree(home)
    held = night(SECOND, AMOUNTS["beta"], state="held", is_book=False)
    published_once(Layout(home), [held], "a")


@pytest.mark.parametrize(
    ("harm", "problem", "command"),
    [
        (remove, "has no published book", "status"),
        (hold_everything, "has no book yet", "status"),
        (damage, "could not be copied: ", "verify"),
        (truncate, "could not be copied: ", "verify"),
        (use_other_version, "was published by another version of nightbook", "rebuild"),
    ],
)
def test_a_home_without_a_readable_book_is_an_error(
    homes: dict[str, Path], out: Path, harm: Callable[[Path], None], problem: str, command: str
) -> None:
    """If a home has no readable book, the error names it, and the old file does not change."""
    combine(homes, out)
    before = out.read_bytes()
    harm(homes["beta"])
    with pytest.raises(NotCombined) as raised:
        combine(homes, out)
    message = str(raised.value)
    assert f"beta ({homes['beta']}) {problem}" in message
    assert f"{out} was not changed" in message
    assert message.endswith(f"Type: nightbook --home {homes['beta']} {command}")
    assert out.read_bytes() == before
    assert list((out.parent / f".{out.name}.work").iterdir()) == []


@pytest.mark.parametrize(
    ("place", "name"),
    [
        (combining, "run_checks"),
        (load, "complete"),
        (combining, "sync_directory"),
        (Path, "replace"),
    ],
)
def test_a_failure_leaves_the_old_file(
    homes: dict[str, Path], out: Path, monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    """If a step fails or is interrupted, the old file stays, and no draft is left."""
    combine(homes, out)
    before = out.read_bytes()
    for error in (OSError("the disk is full"), KeyboardInterrupt()):

        def fail(*_: object, raised: BaseException = error) -> None:
            raise raised

        with monkeypatch.context() as patched:
            patched.setattr(place, name, fail)
            with pytest.raises(type(error)):
                combine(homes, out)
        assert out.read_bytes() == before
        assert list((out.parent / f".{out.name}.work").iterdir()) == []


def test_a_failed_check_is_an_error(homes: dict[str, Path], out: Path) -> None:
    """If the combined book fails a check, nothing is written."""
    file = Layout(homes["beta"]).database
    file.chmod(0o640)
    with duckdb.connect(str(file)) as connection:
        connection.execute("delete from history.accounts where portfolio_id = 'q1'")
    with pytest.raises(NotCombined, match="check orphans found 1 wrong rows"):
        combine(homes, out)
    assert not out.exists()


# Combines homes, and kills itself before the N-th step: a change in the folder of the file, or a
# call that makes DuckDB read or write.
COMBINE_AND_DIE = """
import os, signal, sys
from pathlib import Path
from warehouse.database import combine as combining, load

out, point, calls = Path(sys.argv[1]), int(sys.argv[2]), 0
homes = {Path(home).name: Path(home) for home in sys.argv[3:]}

def step():
    global calls
    calls += 1
    if calls == point:
        os.kill(os.getpid(), signal.SIGKILL)

def count(event, args):
    changes = event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod")
    if changes and str(out.parent) in str(args[0]):
        step()

def counted(work):
    def run(*given):
        step()
        return work(*given)
    return run

combining._copy, combining.run_checks = counted(combining._copy), counted(combining.run_checks)
load.complete, combining.sync_directory = counted(load.complete), counted(combining.sync_directory)
sys.addaudithook(count)
combining.combine(homes, out)
print(calls)
"""
POINTS = range(1, 15)
MIDDLE_FIRST = sorted(POINTS, key=lambda point: abs(point - 9))


@pytest.mark.parametrize("point", some_daily(MIDDLE_FIRST, 5))
def test_a_killed_command_leaves_the_old_or_the_new_file(
    homes: dict[str, Path], out: Path, point: int
) -> None:
    """If the command is killed at any time, readers see the old or the new file.

    The next command succeeds and removes the draft.
    """
    combine({"gamma": homes["gamma"]}, out)
    old = ask(out, "from balances")
    command = [sys.executable, "-c", COMBINE_AND_DIE, str(out), str(point)]
    folders = [str(home) for home in homes.values()]
    done = subprocess.run([*command, *folders], stdout=subprocess.PIPE, text=True, check=False)
    said = done.stdout
    assert done.returncode == -signal.SIGKILL or 0 < int(said) < point <= POINTS[-1]
    seen = ask(out, "from balances")
    combine(homes, out)
    new = ask(out, "from balances")
    assert old != new
    assert seen in (old, new)
    assert list((out.parent / f".{out.name}.work").iterdir()) == []
    assert all(is_as_published(Layout(home), Layout(home).database) for home in homes.values())


def test_a_reader_keeps_the_file_that_it_opened(homes: dict[str, Path], out: Path) -> None:
    """A reader that has the old file open can continue, and a new reader sees the new file."""
    combine({"gamma": homes["gamma"]}, out)
    with opened(out) as connection:
        combine(homes, out)
        assert connection.execute("select count(*) from portfolios").fetchone() == (1,)
    assert os.access(out, os.R_OK)
    assert ask(out, "select count(*) from portfolios") == [(4,)]


@pytest.mark.parametrize("client", some_daily(OLDER, 4))
def test_an_older_client_reads_every_table(homes: dict[str, Path], out: Path, client: str) -> None:
    """A real older DuckDB reads every table and view of the file as our own version does."""
    combine(homes, out)
    version, read = read_whole(environments.python(client), [out])
    assert version == OLDER[client]
    assert read == read_whole(sys.executable, [out])[1]
    assert len(read) == len(ask(out, NAMES))


def test_values_are_at_the_prices_of_their_home(tmp_path: Path) -> None:
    """A holding has the value that its home gives it. A home without a currency has no values."""
    homes = {name: tmp_path / name for name in ("alpha", "beta", "gamma")}
    for home, price, quote in ((homes["alpha"], "2", "USD"), (homes["beta"], "3", "EUR")):
        drop(home, "a.csv", f"BTC,,{quote},{price},2026-11-20,")
        publish(home, [read_at(SECOND, AMOUNTS[home.name])], currency=quote)
    publish(homes["gamma"], [read_at(SECOND, AMOUNTS["gamma"])])
    combine(homes, tmp_path / "all.duckdb")
    with duckdb.connect(str(tmp_path / "all.duckdb"), read_only=True) as connection:
        rows = connection.execute("from ops.holding_values order by all").fetchall()
    assert rows == [
        ("alpha", "p1", "BTC", False, "USD", "2", "priced", "0.2"),
        ("alpha", "p1", "ETH", False, "USD", None, "missing", None),
        ("alpha", "p2", "BTC", False, "USD", "2", "priced", "-5.999999999999999999999986"),
        ("beta", "q1", "BTC", False, "EUR", "3", "priced", "0.6"),
        ("beta", "q1", "X", True, "EUR", None, "missing", None),
    ]
