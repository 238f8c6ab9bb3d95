"""A failed run in words: what its steps said, and what an operator is told of it."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime

import dagster as dg

from assets.console.invocation import full_command
from assets.graph.partitions import PARTITION
from assets.graph.reports import TIES_OUT
from assets.graph.step_errors import failure_message
from assets.home.instance import DIED
from assets.monitoring.alerts import FAILURE, INFO, WARNING, Alert
from assets.monitoring.dates import next_try, night_of
from assets.nightbook import Nightbook
from pipelines import night
from pipelines.landing import snapshots

WILL_RETRY = "dagster/will_retry"
SCHEDULED = "dagster/schedule_name"
TICK = "nightbook/tick"
"""The tag of a run that cron began: there are later ones on the same date."""
UNTIL_JUDGED = {"pull", "flatten_portfolios", "flatten_venues", "warehouse"}
LONGEST = 600
CHECKED = dg.DagsterEventType.ASSET_CHECK_EVALUATION


def failure_alert(
    nightbook: Nightbook, run: dg.DagsterRun, events: Iterable[dg.DagsterEvent], message: str
) -> Alert | None:
    """What to tell of a failed run; nothing where all it did was to leave its night held.

    A run that Dagster tries again by itself is told too, once: the next attempt is another run.
    While a later tick of the date can still take it, that is told quietly, and once.
    """
    layout, failures = nightbook.layout, list(events)
    day = run.tags.get(PARTITION, "")
    steps = {event.step_key for event in failures}
    if steps and not steps & UNTIL_JUDGED and _is_held(nightbook, day):
        return None
    words = [words for event in failures if (words := failure_message(event))]
    again = run.tags.get(WILL_RETRY) == "true"
    after = "It is tried again by itself." if again else "It is not tried again by itself."
    lines = dict.fromkeys(words or [message or "It does not say why."])
    if (tick := _tried_again(nightbook, run, day)) is not None:
        return _trying(nightbook, day, tick, [line[:LONGEST] for line in lines])
    return Alert(
        f"failed:{run.run_id}",
        f"the run of {day or run.job_name} failed",
        "\n".join([*(line[:LONGEST] for line in lines), after]),
        f"run {run.run_id} in nightbook dev; {layout.home}",
        full_command(layout, "run"),
        happened=True,
        kind=WARNING if again else FAILURE,
    )


def _tried_again(nightbook: Nightbook, run: dg.DagsterRun, day: str) -> datetime | None:
    """When the schedule that began a run takes up its date again; None where it does not."""
    if not {SCHEDULED, TICK} & run.tags.keys():
        return None
    try:
        date_ = date.fromisoformat(day)
    except ValueError:
        return None
    return None if night_of(nightbook, date_) else next_try(nightbook, date_)


def _trying(nightbook: Nightbook, day: str, tick: datetime, lines: list[str]) -> Alert:
    layout = nightbook.layout
    again = f"It is tried again at {tick:%H:%M} ({nightbook.settings().timezone})."
    return Alert(
        f"trying:{day}",
        f"{day} is not read yet, and is tried again",
        "\n".join([again, *lines, "You are told once more only if the last try of it fails."]),
        str(layout.home),
        full_command(layout, "status"),
        happened=True,
        kind=INFO,
    )


def death(nightbook: Nightbook, instance: dg.DagsterInstance, run: dg.DagsterRun) -> Alert | None:
    """What to tell of a run that was closed because its process is gone."""
    return failure_alert(nightbook, instance.get_run_by_id(run.run_id) or run, (), DIED)


def reconciliation_alerts(
    nightbook: Nightbook, run: dg.DagsterRun, events: Iterable[dg.DagsterEvent]
) -> Iterator[Alert]:
    """What to tell where a ledger lies in the inbox and could not be held against the book."""
    layout, day = nightbook.layout, run.tags.get(PARTITION, "")
    for event in events:
        if event.event_type is not CHECKED:
            continue
        found = event.asset_check_evaluation_data
        is_error = found.severity is dg.AssetCheckSeverity.ERROR
        if found.check_name == TIES_OUT and not found.passed and is_error:
            yield Alert(
                f"unreconciled:{day}",
                f"the book of {day} was not reconciled",
                found.description or "It does not say why.",
                str(layout.home / "reconcile" / "inbox"),
                full_command(layout, "reconcile", "run"),
                happened=True,
            )


def _is_held(nightbook: Nightbook, day: str) -> bool:
    layout = nightbook.layout
    try:
        date_ = date.fromisoformat(day)
    except ValueError:
        return False
    manifest = night.taken_on(layout, date_) or night.landed_on(layout, date_)
    return (
        manifest is not None
        and snapshots.find(layout, manifest.snapshot_id).state == snapshots.HELD
    )
