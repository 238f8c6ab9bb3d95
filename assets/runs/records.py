"""Dagster's record, and nights that are taken without it: its database may be away, a book may not.

What could not be recorded is kept in the home, and given to Dagster by the next run or daemon that
reaches its record, as events without a run.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg

from assets.console.errors import is_ours
from assets.console.invocation import full_command
from assets.home.instance import quiet
from assets.monitoring.alerts import Alert
from assets.nightbook import Nightbook
from warehouse.storage.layout import Layout, read_json, write_json

KEPT = "unrecorded.json"
LONGEST = 300
DATABASES = {"sqlalchemy", "sqlite3", "psycopg2", "dagster_postgres", "pg8000", "MySQLdb"}


class RecordAway(Exception):
    """Dagster's record cannot be reached."""

    def __init__(self, layout: Layout, why: BaseException) -> None:
        self.why = first_line(why)
        super().__init__(
            f"Dagster's record of {layout.home} cannot be reached ({self.why}), so no schedule "
            "runs and nothing can be started from its UI until it is back. Nothing was changed. "
            f"See {layout.dagster / 'dagster.yaml'} for where it is. Meanwhile nightbook run takes "
            "the night without it, and the record follows."
        )


def first_line(error: BaseException) -> str:
    """Return the first line of an error: those of databases are pages, with statements in them."""
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line[:LONGEST]}"


def is_away(error: BaseException) -> bool:
    """Whether an error is that of a database, or was raised because of one."""
    # Dagster wraps the error of a database, and each database has its own module of errors: so the
    # whole chain of causes is searched for where an error comes from, not for its type.
    current: BaseException | None = error
    while current is not None:
        if type(current).__module__.partition(".")[0] in DATABASES:
            return True
        current = current.__cause__
    return False


@contextlib.contextmanager
def in_memory() -> Iterator[dg.DagsterInstance]:
    """Yield an instance that keeps its record for as long as the `with` lasts."""
    with quiet(), dg.DagsterInstance.ephemeral() as instance:
        yield instance


@contextlib.contextmanager
def reaching_record(layout: Layout) -> Iterator[None]:
    """Raise `RecordAway` for whatever is the matter with the record within the `with`."""
    try:
        yield
    except Exception as error:
        if is_ours(error):
            raise
        raise RecordAway(layout, error) from error


def record_away_alert(nightbook: Nightbook, why: str, *, is_taken: bool) -> Alert:
    """Return the alert that the record cannot be reached; once a day."""
    layout, day = nightbook.layout, nightbook.now().date()
    outcome = "No schedule runs until it is back: tonight is read by nobody unless by hand."
    if is_taken:
        outcome = "The night was taken without it, and the record follows when it is back."
    return Alert(
        cause=f"record:{day}:{is_taken}",
        title="Dagster's record cannot be reached",
        words=f"{why}\n{outcome}",
        see=str(layout.dagster / "dagster.yaml"),
        command=full_command(layout, "run"),
    )


def store_events(layout: Layout, day: str, result: dg.ExecuteInProcessResult) -> None:
    """Keep what a run made that could not be recorded, beside what is kept already."""
    events: list[dict[str, Any]] = [
        {"day": day, "asset": list(event.asset_key.path)}
        for event in result.get_asset_materialization_events()
        if event.asset_key is not None
    ]
    events += [
        {
            "day": day,
            "asset": list(evaluation.asset_key.path),
            "check": evaluation.check_name,
            "passed": evaluation.passed,
            "severity": evaluation.severity.value,
            "words": evaluation.description or "",
        }
        for evaluation in result.get_asset_check_evaluations()
    ]
    write_json(layout.home / KEPT, [*_stored_events(layout.home / KEPT), *events])


def record_stored_events(layout: Layout, instance: dg.DagsterInstance) -> int:
    """Give Dagster what was made without its record; how many events. Done twice is no harm."""
    entries = _stored_events(layout.home / KEPT)
    for entry in entries:
        instance.report_runless_asset_event(_event(entry))
    if entries:
        (layout.home / KEPT).unlink()
    return len(entries)


def _event(entry: dict[str, Any]) -> dg.AssetMaterialization | dg.AssetCheckEvaluation:
    key = dg.AssetKey(entry["asset"])
    if "check" not in entry:
        description = "Made while Dagster's record could not be reached."
        return dg.AssetMaterialization(key, description=description, partition=entry["day"])
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=entry["check"],
        passed=entry["passed"],
        metadata={},
        severity=dg.AssetCheckSeverity(entry["severity"]),
        description=entry["words"],
    )


def _stored_events(path: Path) -> list[dict[str, Any]]:
    """Return what waits to be recorded; a file that cannot be read holds nothing of worth."""
    with contextlib.suppress(OSError, ValueError):
        return list(read_json(path))
    return []
