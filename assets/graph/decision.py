"""The asset that shows the decision about a night and lets a person decide."""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Literal

import dagster as dg
from pydantic import Field

from assets.graph.record import metadata_of
from assets.graph.step import DECIDE, name_snapshot, night_step
from assets.graph.warehouse import DECISION
from assets.home.writer_lock import RunLock
from assets.night.step import NightStep
from assets.night.warehouse import decision_metadata
from assets.nightbook import Nightbook
from assets.publishing import publish as deciding
from assets.publishing.shelf import ask_shelf
from pipelines.landing import snapshots
from pipelines.landing.snapshots import DecisionNotAllowed, NoSuchSnapshot, ReasonRequired, Snapshot
from warehouse.contract import states

LEAVE = "leave"
STATES = {"accept": states.ACCEPTED, "reject": states.REJECTED}
# The empty decision form, as shown in Dagster's Launchpad.
TO_FILL_IN = {"decision": LEAVE, "by": "", "why": "", "snapshot": ""}


class DecisionForm(dg.Config):
    """The decision form of the job `decide_night`, as a person fills it in."""

    decision: Literal["leave", "accept", "reject"] = Field(
        default="leave",
        description="accept: the snapshot becomes the book of its date. reject: it does not.",
    )
    by: str = Field(
        default="", description="Your name. It is stored permanently with the decision."
    )
    why: str = Field(default="", description="The reason, in one sentence.")
    snapshot: str = Field(
        default="",
        description="A snapshot ID. If empty, the decision applies to the night's held snapshot.",
    )


class NothingDecided(Exception):
    """The job was started without a decision, or without the name of the person deciding."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"Nothing was decided: {missing}. Start {DECIDE} again: on the job's page, click "
            "the arrow next to 'Materialize all', then 'Open launchpad'. Choose the night as the "
            "partition, and write `decision: accept` or `decision: reject`, `by:` your name and "
            "`why:` your reason. Fill in `snapshot:` only to choose a different snapshot than the "
            "held one."
        )


def decision_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the asset that shows the decision about a night and is updated by `decide_night`."""

    @dg.asset(
        key=DECISION,
        deps=[["landing", "portfolios"], ["landing", "venues"], ["landing", "instruments"]],
        partitions_def=partitions,
        group_name="published",
        description="The decision about a night, made by the guards or a person. To decide on a "
        f"held night, start the {DECIDE} job. The same run updates everything that depends on it.",
    )
    def decision(
        context: dg.AssetExecutionContext,
        config: DecisionForm,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook, writing) as step:
            if config.decision != LEAVE:
                writing.acquire(nightbook, f"deciding on {step.day}", step.tell)
                ask_shelf(dataclasses.replace(nightbook, tell=step.tell))
            with _canceled_by_mistakes(context):
                before = _snapshot(step, config.snapshot)
                _require_decision(step, before, config)
            if config.decision == LEAVE:
                snapshot = before
            else:
                snapshot = _decide(step, writing, before, config)
        name_snapshot(context, snapshot.snapshot_id)
        return dg.MaterializeResult(
            metadata=metadata_of(decision_metadata(snapshot)) | {"state before": before.state}
        )

    return decision


@contextlib.contextmanager
def _canceled_by_mistakes(context: dg.AssetExecutionContext) -> Iterator[None]:
    """Cancel the run without a decision if the form was filled in incorrectly.

    If the run failed instead, Dagster would show all views of the night as failed, although they
    did not change.
    """
    try:
        yield
    except (NothingDecided, DecisionNotAllowed, NoSuchSnapshot, ReasonRequired) as error:
        # Report that the run is canceling. Otherwise, Dagster treats the interruption as a failure.
        context.instance.report_run_canceling(context.run, str(error))
        raise dg.DagsterExecutionInterruptedError(str(error)) from None


def _require_decision(step: NightStep, before: Snapshot, config: DecisionForm) -> None:
    """Raise an error if the form is incomplete or the decision is not allowed."""
    if config.decision != LEAVE:
        if not config.by.strip():
            raise NothingDecided("`by` is empty, so the decision would not name a person")
        snapshots.require_decidable(before, STATES[config.decision], why=config.why)
    elif step.is_decision:
        raise NothingDecided("`decision` is neither accept nor reject")


def _snapshot(step: NightStep, snapshot_id: str) -> Snapshot:
    """Return the snapshot with this ID or, without an ID, the night's held or newest snapshot."""
    newest = step.manifest().snapshot_id
    if snapshot_id:
        named = snapshots.find(step.layout, snapshot_id)
        if named.snapshot_date != step.day:
            raise NothingDecided(
                f"the snapshot {snapshot_id} belongs to {named.snapshot_date}, not to {step.day}"
            )
        return named
    of_night = [
        night
        for night in snapshots.landed_snapshots(step.layout)
        if night.snapshot_date == step.day
    ]
    held = [snapshot for snapshot in of_night if snapshot.state == states.HELD]
    if len(held) > 1:
        names = ", ".join(snapshot.snapshot_id for snapshot in held)
        raise NothingDecided(
            f"several snapshots for {step.day} are held ({names}), so `snapshot` must name one"
        )
    return held[0] if held else snapshots.find(step.layout, newest)


def _decide(step: NightStep, lock: RunLock, before: Snapshot, config: DecisionForm) -> Snapshot:
    nightbook, name = step.nightbook, before.snapshot_id
    state = STATES[config.decision]
    is_new = snapshots.require_decidable(before, state, why=config.why)
    lock.acquire(nightbook, f"{config.decision} {name}", step.tell)
    if is_new:
        after = deciding.decide(nightbook, name, state, by=config.by.strip(), why=config.why)
    else:
        deciding.finish(nightbook, before)
        after = before
    step.tell(f"{name} is {after.state}", event=after.state, snapshot=name)
    return after
