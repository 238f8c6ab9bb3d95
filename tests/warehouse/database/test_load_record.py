"""Tests of a version's own records: its build, its checks, its decisions and any refusal."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.support.books import Amount, Night, night, published, totals, written
from warehouse.database.ddl import schema_version
from warehouse.database.load import MEMORY, connect
from warehouse.database.new_version import NotPublished
from warehouse.database.publication import publish_version
from warehouse.database.versions import seal
from warehouse.sql.checks import CheckResult
from warehouse.storage.layout import (
    DATABASE,
    DIGESTS,
    STORAGE_VERSION,
    Layout,
    block_digests,
    read_json,
)

FIRST = night("20261119T021500Z", [Amount("1.5")])
SECOND = night("20261120T021500Z", [Amount("4")])
BUILT_AT = datetime(2026, 11, 21, 5, tzinfo=timezone(timedelta(hours=2)))


def rows(layout: Layout, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query on the published database file."""
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        connection.execute("set TimeZone = 'UTC'")
        return connection.execute(query).fetchall()


def test_a_version_records_its_build(tmp_path: Path) -> None:
    """`ops.build` has the version, the time in UTC, the newest date and the software versions."""
    layout = Layout(tmp_path)
    contents = written(layout, [FIRST, SECOND])
    publish_version(layout, contents, version="a-1", built_at=BUILT_AT, program_version="1.2.3")
    query = (
        "select version, built_at, newest_date, program_version, schema_version, duckdb_version, "
        "storage_version from ops.build"
    )
    built_at = BUILT_AT.astimezone(UTC)
    [found] = rows(layout, query)
    assert (found[0], found[2], found[3]) == ("a-1", SECOND.day, "1.2.3")
    assert found[1] == built_at
    assert found[4:] == (schema_version(), duckdb.__version__, STORAGE_VERSION)


def test_the_checks_of_the_newest_book_are_recorded(tmp_path: Path) -> None:
    """`ops.checks` has the name, meaning, severity and count of each check on the newest book.

    This is true even if only an older book was loaded.
    """
    layout = Layout(tmp_path)
    published(layout, [SECOND], "a")
    again = night("20261119T101500Z", [Amount("1.5", venue="elsewhere")])
    done = published(layout, [again, SECOND], "b")
    assert done.loaded == (again.day,)
    told = rows(
        layout,
        "select snapshot_date, check_name, meaning, severity, passed, wrong_rows, example "
        "from ops.checks order by check_name",
    )
    assert told == sorted(
        (SECOND.day, one.name, one.meaning, one.severity, one.is_ok, one.wrong_rows, one.example)
        for one in done.checks
    )
    assert len(told) > 8


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the time zone of this machine to Tokyo."""
    with monkeypatch.context() as there:
        there.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_a_version_keeps_the_decision_times(tmp_path: Path) -> None:
    """Decision times are stored in UTC in any time zone, or as null if there is no decision."""
    layout = Layout(tmp_path)
    contents = written(layout, [FIRST, SECOND])
    moments = (BUILT_AT, None)
    decided = tuple(
        {**row, "decided_at": moment}
        for row, moment in zip(contents.snapshots, moments, strict=True)
    )
    contents = replace(contents, snapshots=decided)
    publish_version(layout, contents, version="a", built_at=BUILT_AT, program_version="0")
    kept = read_json(layout.database.with_name(DIGESTS))["decided"]
    assert kept == {
        FIRST.snapshot_id: "2026-11-21T03:00:00+00:00",
        SECOND.snapshot_id: None,
    }


def _wrong(made: Night, told: str) -> Night:
    """Return the night with control totals in which each sum is `told`."""
    lines = [
        line | ({"in_json": told, "in_lake": told} if line["measure"] == "sum" else {})
        for line in totals(made)
    ]
    return replace(made, ops={"control_totals": lines})


@pytest.mark.parametrize(("wrong", "more"), [(4, ""), (7, " and 3 more")])
def test_a_refusal_names_the_nights_and_the_first_reasons(
    tmp_path: Path, wrong: int, more: str
) -> None:
    """A refusal names the night and the first five reasons, and counts the others.

    The exception contains all reasons, and the published version does not change.
    """
    layout = Layout(tmp_path)
    amounts = [Amount("1", asset=f"A{number}") for number in range(wrong)]
    made = night("20261120T021500Z", amounts)
    bad = _wrong(made, "2")
    published(layout, [FIRST], "a")
    before = layout.database.read_bytes()
    with pytest.raises(NotPublished) as refused:
        published(layout, [FIRST, bad], "b")
    assert refused.value.snapshots == (bad.snapshot_id,)
    # The last problem is from the check that holdings add up to the control totals.
    assert len(refused.value.problems) == wrong + 1
    said = str(refused.value)
    assert f"The book of {bad.snapshot_id} was not published: " in said
    assert "; ".join(refused.value.problems[:5]) + more + ". The warehouse still shows" in said
    assert layout.database.read_bytes() == before
    assert [path.name for path in (layout.warehouse / "versions").iterdir()] == ["a"]


def test_every_wrong_night_is_named_with_its_own_reasons(tmp_path: Path) -> None:
    """A refusal names each wrong night with its own reasons, oldest first.

    It does not name the correct night between two wrong nights.
    """
    layout = Layout(tmp_path)
    third = night("20261121T021500Z", [Amount("5")])
    with pytest.raises(NotPublished) as refused:
        published(layout, [_wrong(third, "43"), SECOND, _wrong(FIRST, "42")], "a")
    assert refused.value.snapshots == (FIRST.snapshot_id, third.snapshot_id)
    told = [("42" in one, "43" in one) for one in refused.value.problems]
    assert told == [(True, False)] * 2 + [(False, True)] * 2
    assert not layout.database.exists()


def test_a_version_without_a_build_record_is_not_built_upon(tmp_path: Path) -> None:
    """A sealed version without `ops.build` is not built upon.

    All nights are loaded from the lake instead.
    """
    layout = Layout(tmp_path)
    published(layout, [FIRST], "a")
    folder = layout.database.parent
    layout.database.chmod(0o640)
    with duckdb.connect(str(layout.database)) as connection:
        connection.execute("drop table ops.build")
    (folder / DIGESTS).unlink()
    seal(layout.database, block_digests(layout.database), {}, {})
    assert published(layout, [FIRST, SECOND], "b").loaded == (FIRST.day, SECOND.day)
    assert rows(layout, "select version from ops.build") == [("b",)]


def test_a_build_spills_to_its_work_folder(tmp_path: Path) -> None:
    """A build spills data beyond half a gigabyte to the work folder, and fetches no extensions."""
    layout = Layout(tmp_path)
    names = ("temp_directory", "memory_limit", "threads", "TimeZone")
    off = ("autoinstall_known_extensions", "autoload_known_extensions")
    query = ", ".join(f"current_setting('{name}')" for name in (*names, *off))
    with connect(layout, tmp_path / DATABASE, MEMORY[0]) as connection:
        found = connection.execute(f"select {query}").fetchone()
    assert found == (str(layout.work / "duckdb"), "488.2 MiB", 2, "UTC", False, False)


def test_a_book_that_needs_more_memory_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A build that runs out of memory, even with spilling, is repeated from scratch with more."""
    layout = Layout(tmp_path)
    tried = []

    def counting(layout: Layout, file: Path, memory: str) -> duckdb.DuckDBPyConnection:
        tried.append(memory)
        return connect(layout, file, memory)

    monkeypatch.setattr("warehouse.database.load.MEMORY", ("1MB", "2MB", "2GB"))
    monkeypatch.setattr("warehouse.database.load.connect", counting)
    assert published(layout, [FIRST, SECOND], "a").loaded == (FIRST.day, SECOND.day)
    assert tried == ["1MB", "2MB", "2GB"]


def test_a_refusal_is_reported_even_if_the_cleanup_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason for a refusal is reported even if the half-built folder cannot be deleted."""
    layout = Layout(tmp_path)

    def failing(connection: duckdb.DuckDBPyConnection) -> tuple[CheckResult, ...]:
        connection.close()
        shutil.rmtree(layout.warehouse / "versions" / ".tmp-a")
        raise NotPublished(("n",), ("it is wrong",))

    monkeypatch.setattr("warehouse.database.new_version.run_checks", failing)
    with pytest.raises(NotPublished, match="it is wrong"):
        published(layout, [FIRST], "a")
