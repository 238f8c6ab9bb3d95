"""The runs of commands as Dagster shows them, and the daemon's report for commands."""

import contextlib
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import dagster as dg

from assets.home.daemon_state import DaemonState, write_daemon_state
from assets.night.results import AssetCheck, AssetResult, Markdown, Result, Value, from_json
from assets.night.run_log import archive, uncopied_runs
from warehouse.storage.layout import Layout, read_json

LOCATION = "assets.definitions"
OLD_RUNS = "unrecorded.json"  # nightbook 0.1.0 wrote this file while Dagster's database was away


def copy_runs(layout: Layout, instance: dg.DagsterInstance) -> None:
    """Show the runs of commands in Dagster: their materializations and the results of checks.

    If this call is interrupted, the next call copies a run a second time, which is harmless. A run
    that has not ended is copied later.
    """
    for run in uncopied_runs(layout):
        if not run.is_ended:
            continue
        for result in run.results:
            instance.report_runless_asset_event(event_of(result, run.day.isoformat()))
        archive(layout, run)
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        _copy_old_runs(layout.home / OLD_RUNS, instance)


def _copy_old_runs(path: Path, instance: dg.DagsterInstance) -> None:
    for entry in read_json(path):
        result = from_json(entry | {"description": entry.get("words"), "metadata": {}})
        instance.report_runless_asset_event(event_of(result, entry["day"]))
    path.unlink()


def event_of(result: Result, partition: str) -> dg.AssetMaterialization | dg.AssetCheckEvaluation:
    """Return the Dagster event that shows a result of a night's step."""
    key, metadata = dg.AssetKey(result.asset), metadata_of(result.metadata)
    if isinstance(result, AssetResult):
        return dg.AssetMaterialization(key, partition=partition, metadata=metadata)
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=result.check,
        passed=result.passed,
        metadata=metadata,
        severity=dg.AssetCheckSeverity(result.severity),
        description=result.description,
        partition=partition,
    )


def report_state(layout: Layout, instance: dg.DagsterInstance, now: datetime) -> None:
    """Store for commands that the daemon is running, and whether each schedule and sensor is on.

    Dagster may store several states for a name, one for each name of the code location.
    """
    # The systemd units that we ship use the code location `assets.definitions`. It is sorted last,
    # so its state overrides the states of other locations.
    stored = sorted(instance.all_instigator_state(), key=_is_of_units)
    on = {state.name: state.is_running for state in stored}
    write_daemon_state(layout, DaemonState(reported_at=now, on=on))


def _is_of_units(state: Any) -> bool:
    origin = state.origin.repository_origin.code_location_origin
    return bool(origin.location_name == LOCATION)


def to_asset(result: AssetResult) -> dg.MaterializeResult:
    """Return what an asset's function yields to Dagster for its new content."""
    key = dg.AssetKey(result.asset)
    return dg.MaterializeResult(asset_key=key, metadata=metadata_of(result.metadata))


def to_check(result: AssetCheck) -> dg.AssetCheckResult:
    """Return what an asset's function yields to Dagster for the result of a check."""
    return dg.AssetCheckResult(
        asset_key=dg.AssetKey(result.asset),
        check_name=result.check,
        passed=result.passed,
        severity=dg.AssetCheckSeverity(result.severity),
        description=result.description,
        metadata=metadata_of(result.metadata),
    )


def key_of_check(result: AssetCheck) -> dg.AssetCheckKey:
    """Return the key of a check's result."""
    return dg.AssetCheckKey(dg.AssetKey(result.asset), result.check)


def result_of(check: dg.AssetCheckEvaluation) -> AssetCheck:
    """Return the result of a check that Dagster recorded, without its metadata."""
    return AssetCheck(
        asset=tuple(check.asset_key.path),
        check=check.check_name,
        passed=check.passed,
        severity=check.severity.value,
        description=check.description,
    )


def metadata_of(metadata: Mapping[str, Value]) -> dict[str, Any]:
    """Return metadata as Dagster shows it: Markdown is rendered, and times are local."""
    return {name: _metadata_value(value) for name, value in metadata.items()}


def _metadata_value(value: Value) -> Any:
    if isinstance(value, Markdown):
        return dg.MetadataValue.md(str(value))
    if isinstance(value, datetime):
        return dg.MetadataValue.timestamp(value)
    return value
