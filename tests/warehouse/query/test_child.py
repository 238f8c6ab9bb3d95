"""Tests of SQL from an attacker, which cannot read, write, open or delay more than is allowed."""

import os
import resource
import time
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.books import Amount, night, published
from warehouse.isolation import (
    ChildKilled,
    ChildLimits,
    ChildNotStarted,
    ChildOutOfMemory,
    ChildStopped,
    ChildTimedOut,
)
from warehouse.query import child
from warehouse.query.child import ask
from warehouse.query.errors import QueryFailed
from warehouse.query.formats import QueryResult, as_csv, as_json, as_table
from warehouse.query.read import run
from warehouse.storage.layout import DATABASE, Layout, digest_of

pytestmark = pytest.mark.isolated
CANARY = "canary-5f1c9a7e"
GIB = 1024**3

REFUSED = {
    "reads a text file": "select * from read_text('{secret}')",
    "reads a blob": "select * from read_blob('{secret}')",
    "reads a csv": "select * from read_csv('{secret}', header = false)",
    "reads a csv by name": "select * from '{secret}.csv'",
    "reads json": "select * from read_json('{secret}')",
    "reads json objects": "select * from read_json_objects_auto('{secret}')",
    "reads ndjson": "select * from read_ndjson('{secret}')",
    "reads parquet": "select * from read_parquet('{folder}/*.parquet')",
    "reads parquet metadata": "select * from parquet_metadata('{secret}')",
    "reads a parquet schema": "select * from parquet_schema('{secret}')",
    "sniffs a csv": "select * from sniff_csv('{secret}')",
    "lists a folder": "select * from glob('{folder}/*')",
    "reads the passwords": "select * from read_text('/etc/passwd')",
    "reads its own environment": "select * from read_blob('/proc/self/environ')",
    "reads over http": "select * from read_text('http://127.0.0.1:9/x')",
    "reads from s3": "select * from read_parquet('s3://bucket/x.parquet')",
    "reads standard input": "select * from read_csv('/dev/stdin')",
    "copies out": "copy (select 1) to '{folder}/out.csv'",
    "copies out as parquet": "copy history.balances to '{folder}/out.parquet'",
    "copies to standard output": "copy (select 1) to '/dev/stdout'",
    "copies in": "copy history.balances from '{secret}'",
    "copies a database": "copy from database nightbook to other",
    "exports": "export database '{folder}/out'",
    "imports": "import database '{folder}'",
    "attaches a new file": "attach '{folder}/new.duckdb'",
    "attaches its own file to write": "attach '{database}' as again (read_write)",
    "attaches sqlite": "attach '{secret}' (type sqlite)",
    "attaches postgres": "attach 'host=127.0.0.1' as pg (type postgres)",
    "detaches": "detach nightbook",
    "creates a table": "create table main.x as select 1",
    "creates a view": "create view main.x as select 1",
    "creates a schema": "create schema x",
    "creates a macro": "create macro main.x() as 1",
    "creates a sequence": "create sequence main.x",
    "creates a type": "create type main.x as enum ('a')",
    "creates a secret": "create persistent secret x (type s3, key_id 'a', secret 'b')",
    "inserts": "insert into history.balances select * from history.balances",
    "updates": "update history.balances set amount = 0",
    "deletes": "delete from history.balances",
    "drops": "drop table history.balances",
    "truncates": "truncate history.balances",
    "alters": "alter table history.balances add column x integer",
    "comments": "comment on table history.balances is 'x'",
    "installs": "install httpfs",
    "installs from a folder": "install '{secret}'",
    "loads": "load httpfs",
    "loads a library": "load '{secret}'",
    "opens the way out": "set enable_external_access = true",
    "unlocks": "set lock_configuration = false",
    "raises the memory": "set memory_limit = '1TB'",
    "moves the temporary folder": "set temp_directory = '{folder}'",
    "logs queries to a file": "set log_query_path = '{folder}/log'",
    "profiles to a file": "pragma profiling_output = '{folder}/profile'",
    "sets a secret folder": "set secret_directory = '{folder}'",
    "reads python's variables": "select * from sys",
    "runs two and writes": "select 1; create table main.x as select 1",
    "prepares a write": "prepare p as delete from history.balances; execute p",
    "hides it in a query": "select * from query('select * from read_text(''{secret}'')')",
    "names a file as a table": "select * from query_table('{secret}')",
    "takes a variable of the system": "select getenv('HOME')",
}
HARMLESS = {
    "looks at settings": "select count(*) > 0 from duckdb_settings()",
    "looks at the catalogue": "select count(*) > 0 from duckdb_tables()",
    "makes a temporary table": "create temp table t as select 1",
    "makes a temporary macro": "create temp macro m() as 1",
    "asks itself": "select * from query('select 1')",
    "names a table": "select count(*) > 0 from query_table('balances')",
    "checkpoints": "force checkpoint",
    "explains": "explain analyze select 1",
    "calls a pragma": "pragma version",
}


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish a warehouse, next to files that an attacker would like to read."""
    layout = Layout(tmp_path_factory.mktemp("hostile") / "home")
    amounts = [Amount("12345678901234567890.123456789012345678"), Amount("1e-8", asset="x")]
    published(layout, [night("20261120T021500Z", amounts)], "a")
    folder = layout.home / "folder"
    folder.mkdir()
    for name in ("secret", "secret.csv"):
        (folder / name).write_text(CANARY, encoding="utf-8")
    return layout


def below(layout: Layout) -> list[str]:
    """Return the paths of all files in the home."""
    return sorted(str(path) for path in layout.home.rglob("*"))


def asked(layout: Layout, sql: str) -> QueryResult:
    """Run a statement with its paths filled in, as the command does, but in this process."""
    folder = layout.home / "folder"
    paths = {"{secret}": folder / "secret", "{folder}": folder, "{database}": layout.database}
    for name, path in paths.items():
        sql = sql.replace(name, str(path))
    return run(layout.database, sql)


@pytest.mark.parametrize("attack", REFUSED)
def test_an_attack_is_refused_and_changes_nothing(layout: Layout, attack: str) -> None:
    """A query that attacks files, the network, settings or rows is refused, and nothing changes."""
    before, digest = below(layout), digest_of(layout.database)
    with pytest.raises(QueryFailed) as caught:
        asked(layout, REFUSED[attack])
    assert CANARY not in str(caught.value)
    assert below(layout) == before
    assert digest_of(layout.database) == digest


@pytest.mark.parametrize("question", HARMLESS)
def test_an_allowed_query_changes_no_file(layout: Layout, question: str) -> None:
    """A query that is allowed changes no file."""
    before, digest = below(layout), digest_of(layout.database)
    assert CANARY not in repr(asked(layout, HARMLESS[question]))
    assert below(layout) == before
    assert digest_of(layout.database) == digest


@pytest.mark.torture
@pytest.mark.parametrize(
    "sql",
    [
        "select length(repeat('x', 2000000000) || repeat('y', 2000000000))",
        "select count(*) from range(100000000000) a, range(100000000000) b where a.range % 7 = 3",
        "with recursive r as (select 1 as n union all select n + 1 from r) select max(n) from r",
    ],
)
def test_an_endless_query_is_killed_at_its_time_limit(layout: Layout, sql: str) -> None:
    """A query that DuckDB does not stop is killed within a second of its time limit.

    Its memory is limited as well.
    """
    began = time.monotonic()
    with pytest.raises(QueryFailed, match=r"(?i)nothing was changed"):
        ask(layout.database, sql, limits=ChildLimits(seconds=1.5, memory_bytes=GIB, threads=2))
    assert time.monotonic() - began < 1.5 + 1
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * GIB // 1024


def test_the_child_has_no_environment_variables(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child process has no environment variables, whichever variables its parent has."""
    monkeypatch.setenv("NIGHTBOOK_API_SECRET", CANARY)
    with pytest.raises(QueryFailed):
        ask(layout.database, "select * from read_text('/proc/self/environ')")
    assert CANARY in os.environ.values()
    answer = ask(layout.database, "select value from duckdb_settings() order by all")
    assert CANARY not in repr(answer)


def test_the_child_does_not_change_the_result(layout: Layout) -> None:
    """With and without a child process, every kind of value has the same form in each format."""
    sql = (
        "select amount, amount_text, snapshot_date, amount is null as flag, 1.5::double as f, "
        "9007199254740993 as big, null as nothing, timestamptz '2026-01-01 01:00:00+01' as t, "
        "timestamp '2026-01-01 00:00:00.000001' as n, [0.1, null] as l, {a: 0.1, b: [1]} as s, "
        "map {'k': 0.10} as m, uuid '00000000-0000-0000-0000-000000000001' as u, "
        "'\\x41'::blob as bytes, interval 1 day as i, time '01:02:03' as c, 'é\U0001f600' as e, "
        "1.0::decimal(38, 18) as d from balances order by amount_text::varchar"
    )
    through, plain = ask(layout.database, sql), run(layout.database, sql)
    assert through.columns == plain.columns
    assert through.rows[0][0] == Decimal("12345678901234567890.123456789012345678")
    for shown in (as_csv, as_json, as_table):
        assert shown(through) == shown(plain)


def test_the_child_reports_limits_and_mistakes(layout: Layout, tmp_path: Path) -> None:
    """The child reports a cut result, a mistake in the query and a missing warehouse."""
    cut = ask(layout.database, "select * from range(5)", limit=4)
    assert (len(cut.rows), cut.is_cut) == (4, True)
    with pytest.raises(QueryFailed, match="balancez"):
        ask(layout.database, "select * from balancez")
    with pytest.raises(FileNotFoundError, match="nightbook run"):
        ask(tmp_path / DATABASE, "select 1")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (
            ChildNotStarted,
            "could not start: broken. Nothing was run or changed. `nightbook doctor`",
        ),
        (ChildOutOfMemory, "needed more than 4096 MiB"),
        (ChildKilled, "killed from outside, probably because this machine or container ran out"),
        (ChildTimedOut, "took longer than 60 seconds"),
        (ChildStopped, r"DuckDB crashed \(broken\)"),
    ],
)
def test_each_end_of_the_child_has_its_own_message(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, kind: type[ChildStopped], words: str
) -> None:
    """The message for a query without a result names the real cause."""

    def stop(*_: object) -> bytes:
        raise kind("broken")

    monkeypatch.setattr(child, "run_in_child", stop)
    with pytest.raises(QueryFailed, match=words) as failed:
        ask(layout.database, "select 1")
    assert "4096" in words or "4096" not in str(failed.value)


def test_a_simple_query_needs_little_cpu_time(layout: Layout) -> None:
    """A question through the child takes less than 0.7 seconds of CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ask(layout.database, "select sum(amount) from balances")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.7
