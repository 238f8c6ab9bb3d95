"""Tests of the runs of commands in Dagster: they look like the runs of Dagster's own job."""

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.definitions import assemble
from assets.graph.record import OLD_RUNS, copy_runs
from assets.night.results import AssetResult
from assets.night.run_log import SUCCESS, RunLog, newest_runs, uncopied_runs
from assets.runs.instance import open_instance
from pipelines.pull import pull
from tests.support.dagster_runs import launched, watching
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import FOURTH, THIRD, Keeper

WAREHOUSE = dg.AssetKey("warehouse")
Events = dict[tuple[str, str], list[dict[str, Any]]]


def events(keeper: Keeper) -> Events:
    """Return all materializations and check results that Dagster shows, by name and partition."""
    graph = assemble(keeper.nightbook).resolve_asset_graph()
    found: Events = {}
    with open_instance(keeper.layout) as instance:
        for key in graph.materializable_asset_keys:
            for event in instance.fetch_materializations(key, 100).records:
                name = (key.to_user_string(), str(event.partition_key))
                found.setdefault(name, []).append(_facts(keeper, event.asset_materialization))
        log = instance.event_log_storage
        for check in graph.asset_check_keys:
            for record in log.get_asset_check_execution_history(check, 100):
                result = record.event and record.event.asset_check_evaluation
                assert result, record
                name = (check.to_user_string(), str(result.partition))
                outcome = {"passed": result.passed, "severity": result.severity}
                found.setdefault(name, []).append(_facts(keeper, result) | outcome)
    return found


def _facts(keeper: Keeper, event: Any) -> dict[str, Any]:
    """Return an event's metadata, with the same name for each home."""
    return {
        name: str(value).replace(str(keeper.home), "HOME")
        for name, value in {**event.metadata, "description": event.description}.items()
        if name != "bytes"  # the files contain the path of the home and the time of the run
    }


def copied_to_dagster(keeper: Keeper) -> None:
    """Copy the runs of commands into Dagster, as the daemon does."""
    with open_instance(keeper.layout) as instance:
        copy_runs(keeper.layout, instance)


@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((), id="accepted"),
        pytest.param(("portfolios-empty",), marks=pytest.mark.torture, id="held"),
    ],
)
def test_a_run_by_command_looks_like_a_run_of_dagster(
    copied: Keeper, faults: tuple[str, ...], tmp_path: Path
) -> None:
    """A night by command has the same assets, partitions, checks and metadata as Dagster's run.

    Both runs build the same landed night.
    """
    shutil.rmtree(copied.layout.runs)
    copied.sandbox.show(*faults)
    copied.sandbox.clock.night(FOURTH)
    book = copied.nightbook
    pull.pull_snapshot(book.settings(api=True), book.now, "0", pause=book.pause)
    other = Keeper(tmp_path / "other", copied.sandbox)
    shutil.copytree(copied.home, other.home, symlinks=True)
    copied.sandbox.clock.night(FOURTH + timedelta(days=1))
    assert copied("run", "--date", str(FOURTH)).code == (3 if faults else 0)
    copied_to_dagster(copied)
    launched(other, FOURTH)
    ours, theirs = events(copied), events(other)
    assert len(ours) > 30
    assert {partition for _, partition in ours} == {str(FOURTH)}
    assert ours == theirs


def partitions(keeper: Keeper) -> set[str]:
    """Return the dates for which Dagster shows a warehouse."""
    with open_instance(keeper.layout) as instance:
        return set(instance.get_materialized_partitions(WAREHOUSE))


def log_of(keeper: Keeper, run_id: str) -> RunLog:
    """Return the log of a new run for the fourth night."""
    return RunLog(keeper.nightbook, run_id, FOURTH)


WRITTEN = [AssetResult(asset=("warehouse",), metadata={"version": Path("a/b")})]


def test_a_run_is_copied_once_after_it_has_ended(watched: Callable[..., Watched]) -> None:
    """The `watch` sensor copies a run once. It waits for the end of a run that is still alive."""
    keeper = watched().keeper
    with log_of(keeper, "ours") as log:
        log.add_results("warehouse", WRITTEN)
        watching(keeper)
        assert partitions(keeper) == set()
        log.end(SUCCESS)
    for _ in range(2):
        watching(keeper)
        with open_instance(keeper.layout) as instance:
            [shown] = instance.fetch_materializations(WAREHOUSE, 10).records
        assert shown.partition_key == str(FOURTH)
    assert list(uncopied_runs(keeper.layout)) == []
    assert [run.run_id for run in newest_runs(keeper.layout)] == ["ours"]


def test_a_dead_run_is_copied_after_its_alert(
    watched: Callable[..., Watched], receiver: Receiver
) -> None:
    """The `watch` sensor reports a run whose process was killed, and then copies its results."""
    keeper = watched().keeper
    with log_of(keeper, "killed") as log:
        log.add_results("warehouse", WRITTEN)
    copied_to_dagster(keeper)
    assert partitions(keeper) == set()
    watching(keeper)
    assert f"the run of {FOURTH} failed" in receiver.titles
    assert partitions(keeper) == {str(FOURTH)}
    watching(keeper)
    assert receiver.titles == []


def test_a_damaged_line_does_not_stop_the_copy(copied: Keeper) -> None:
    """A damaged line of a log is skipped, and the results of the other steps are copied."""
    with log_of(copied, "torn") as log:
        log.add_results("warehouse", WRITTEN)
        log.end(SUCCESS)
    [path] = copied.layout.runs.glob("*-torn.jsonl")
    first, written, end = path.read_bytes().splitlines(keepends=True)
    unknown = written.replace(b'"path"', b'"colour"')
    assert unknown != written
    path.write_bytes(first + unknown + b"[1]\n\xff\n" + written[:40] + b"\n" + written + end)
    copied_to_dagster(copied)
    assert partitions(copied) == {str(THIRD), str(FOURTH)}


def test_runs_that_an_older_version_could_not_record_are_copied(copied: Keeper) -> None:
    """Results that version 0.1.0 stored while Dagster's database was away are copied once."""
    day = str(FOURTH)
    result = {"asset": ["warehouse"], "check": "amounts", "severity": "ERROR"}
    entries = [
        {"day": day, "asset": ["warehouse"]},
        {"day": day, "passed": False, "words": "2 rows", **result},
    ]
    stored = copied.home / OLD_RUNS
    stored.write_text(json.dumps(entries), encoding="utf-8")
    copied_to_dagster(copied)
    assert not stored.exists()
    found = events(copied)
    assert len(found["warehouse", day]) == 1
    [check] = found["warehouse:amounts", day]
    assert (check["passed"], check["description"]) == (False, "2 rows")
    stored.write_text("not JSON", encoding="utf-8")
    copied_to_dagster(copied)
    assert stored.read_text(encoding="utf-8") == "not JSON"
