"""Tests of the cost of a publish, which reads one night's data, however long the history is."""

import errno
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assets.nightbook import Nightbook
from assets.publishing import publish
from pipelines.landing.manifest import Manifest
from tests.tools.performance.past import Past, add_night
from warehouse.database import load
from warehouse.storage.layout import DATABASE, Layout

ROWS = 9_876
SHORT, LONG = 13, 39


class Watched:
    """A connection that counts the row groups of large tables that its statements scan."""

    def __init__(self, inner: duckdb.DuckDBPyConnection, scanned: dict[str, int], at: Path) -> None:
        self._inner, self._scanned, self._at = inner, scanned, at
        inner.execute("pragma enable_profiling = 'json'")
        inner.execute(f"pragma profiling_output = '{at}'")

    def execute(self, *words: Any) -> duckdb.DuckDBPyConnection:
        self._add()
        return self._inner.execute(*words)

    def close(self) -> None:
        self._add()
        self._inner.close()

    def _add(self) -> None:
        """Add the scans of the last statement, which are reported after its result was read."""
        if self._at.is_file() and self._at.stat().st_size:
            profile = json.loads(self._at.read_text(encoding="utf-8"))
            for table, groups in _scans(profile.get("operator", [])):
                self._scanned[table] = self._scanned.get(table, 0) + groups
        self._at.unlink(missing_ok=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _scans(nodes: list[dict[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield each table that a plan scans, and the number of row groups scanned."""
    for node in nodes:
        table = str((node.get("extra_info") or {}).get("Table", "")).partition(".")[2]
        if table:
            yield table, int(node["row_groups_scanned"])
        yield from _scans(node.get("children") or [])


def _nightbook(layout: Layout) -> Nightbook:
    return Nightbook(lambda: {"NIGHTBOOK_HOME": str(layout.home)}, lambda: datetime.now(UTC))


def _scanned(layout: Layout, manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Publish a staged night, and return the number of row groups scanned per table."""
    scanned: dict[str, int] = {}
    connect = load.connect
    with monkeypatch.context() as patched:
        patched.setattr(
            load,
            "connect",
            lambda *about: Watched(connect(*about), scanned, layout.home / "profile.json"),
        )
        outcome = publish.judge_and_publish(_nightbook(layout), manifest)
    assert len(outcome.published.loaded) == 1, outcome.snapshot.decision
    return scanned


@pytest.mark.torture
def test_a_publish_scans_no_more_of_a_longer_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With three times as many nights in the file, a publish scans no more row groups.

    The test counts work, not time. A statement that forgets its day would scan three times as many
    row groups.
    """
    layout, past = Layout(tmp_path), Past(ROWS)
    found = []
    for number in range(LONG + 1):
        is_tonight = number in (SHORT, LONG)
        if is_tonight:
            publish.refresh(_nightbook(layout))
        manifest = add_night(layout, past, number, staged=is_tonight)
        if is_tonight:
            found.append(_scanned(layout, manifest, monkeypatch))
    short, long = found
    assert short["history.balances"] > 0
    statements = {table: groups for table, groups in long.items() if groups > short.get(table, 0)}
    assert statements == {}, (short, long)
    forgetful: dict[str, int] = {}
    with duckdb.connect(str(layout.database), read_only=True) as reader:
        watched = Watched(reader, forgetful, tmp_path / "profile.json")
        watched.execute("select max(amount_text) from history.balances").fetchall()
        watched.close()
    assert forgetful["history.balances"] > 2, "a statement that forgets its day is seen"


class Told:
    """A connection that records its statements."""

    def __init__(self, inner: duckdb.DuckDBPyConnection, statements: list[str]) -> None:
        self._inner, self._statements = inner, statements

    def execute(self, statement: str, *values: Any) -> duckdb.DuckDBPyConnection:
        self._statements.append(statement)
        return self._inner.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def test_a_night_is_loaded_with_a_single_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A night is loaded with a single commit at the end, because each commit waits for the disk."""
    layout, past, connect = Layout(tmp_path), Past(ROWS), load.connect
    statements: list[str] = []
    monkeypatch.setattr(load, "connect", lambda *about: Told(connect(*about), statements))
    for number in range(3):
        statements.clear()
        manifest = add_night(layout, past, number, staged=True)
        publish.judge_and_publish(_nightbook(layout), manifest)
        ends = [one for one in statements if one in ("begin", "commit", "checkpoint")]
        assert ends == ["commit", "checkpoint"], number


def test_a_disk_error_after_the_copy_stops_the_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk cannot store the copied data, the publish fails.

    The error is reported only once, to the first caller that waits for the disk, so no caller may
    ignore it.
    """
    layout, past, fsync = Layout(tmp_path), Past(ROWS), os.fsync
    first = add_night(layout, past, 0, staged=True)
    shown = publish.judge_and_publish(_nightbook(layout), first).published.version

    def refused(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name == DATABASE:
            monkeypatch.setattr(os, "fsync", fsync)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    second = add_night(layout, past, 1, staged=True)
    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(OSError, match="Input/output error"):
        publish.judge_and_publish(_nightbook(layout), second)
    assert (layout.warehouse / "current").readlink().name == shown


def _groups(layout: Layout) -> list[tuple[Any, ...]]:
    """Return the row count and the column locations of each row group in the longest table."""
    with duckdb.connect(str(layout.database), read_only=True) as reader:
        return reader.execute(
            "select sum(count) filter (column_name = 'snapshot_date' "
            "and segment_type != 'VALIDITY'), "
            "list_sort(list(concat_ws(' ', column_path, block_id, block_offset))) "
            "from pragma_storage_info('history.balances') group by row_group_id "
            "order by row_group_id"
        ).fetchall()


def _published_in_turn(layout: Layout, rows: int, nights: int) -> Iterator[list[tuple[Any, ...]]]:
    """Publish nights one by one, and yield the row groups after each."""
    past = Past(rows)
    for number in range(nights):
        publish.judge_and_publish(_nightbook(layout), add_night(layout, past, number, staged=True))
        yield _groups(layout)


@pytest.mark.torture
def test_adding_a_night_does_not_rewrite_older_nights(tmp_path: Path) -> None:
    """A published night stays in its blocks, because adding a night does not rewrite it."""
    before: list[tuple[Any, ...]] = []
    for found in _published_in_turn(Layout(tmp_path), 45_000, 4):
        assert found[:-1] == before
        before = found
    assert len(before) == 4


@pytest.mark.torture
def test_small_nights_share_a_row_group(tmp_path: Path) -> None:
    """Small nights share a row group, because each row group occupies whole blocks of the file."""
    *_, found = _published_in_turn(Layout(tmp_path), 5_000, 4)
    assert len(found) < 4


@pytest.mark.parametrize(
    ("rows", "size"),
    [
        *((0, 122_880), (40_959, 122_880), (40_960, 40_960), (40_961, 43_008), (50_000, 51_200)),
        *((122_880, 122_880), (122_881, 122_880), (12_000_000, 122_880)),
    ],
)
def test_the_row_group_size_fits_the_night(rows: int, size: int) -> None:
    """A night that fills from a third to all of a usual row group gets a row group of its size."""
    assert load.group_for(rows) == size
