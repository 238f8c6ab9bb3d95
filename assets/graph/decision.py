"""The asset that decides whether a night is accepted or held."""

import contextlib
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import dagster as dg

from assets.graph.step import DECIDE, NightStep, name_snapshot, night_step
from assets.graph.warehouse import DECISION, decision_metadata
from assets.home.writer_lock import RunLock
from assets.nightbook import Nightbook
from assets.publishing import publish as deciding
from assets.publishing.shelf import ask_shelf
from pipelines.landing import snapshots
from pipelines.landing.snapshots import DecisionNotAllowed, NoSuchSnapshot, ReasonRequired, Snapshot
from warehouse.contract import states

LEAVE = "leave"
STATES = {"accept": states.ACCEPTED, "reject": states.REJECTED}
# What the Launchpad shows to be filled in.
TO_FILL_IN = {"decision": LEAVE, "by": "", "why": "", "snapshot": ""}
# Not a `dg.Config`: its first class costs each night a tenth of a second of imports.
SCHEMA = {
    "decision": dg.Field(
        dg.Enum("Decision", [dg.EnumValue(name) for name in (LEAVE, *STATES)]),
        default_value=LEAVE,
        description="accept: it is the book of its date. reject: it is none.",
    ),
    "by": dg.Field(str, default_value="", description="Who decides: it is kept for ever."),
    "why": dg.Field(str, default_value="", description="The reason, in a sentence."),
    "snapshot": dg.Field(
        str, default_value="", description="Empty: the one of the night that is held."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionForm:
    """What a person filled in."""

    decision: str
    by: str
    why: str
    snapshot: str


class NothingDecided(Exception):
    """The job was started without saying what is decided, or who does."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"Nothing was decided: {missing}. Start {DECIDE} again: on the page of the job, open "
            "the arrow next to 'Materialize all', then 'Open launchpad'. Choose the night as "
            "partition, and write `decision: accept` or `decision: reject`, `by:` your name and "
            "`why:` your reason; `snapshot:` only for another than the night's held one."
        )


def decision_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the decision on a night as it stands, or as it is made now."""

    @dg.asset(
        key=DECISION,
        deps=[["landing", "portfolios"], ["landing", "venues"], ["landing", "instruments"]],
        partitions_def=partitions,
        config_schema=SCHEMA,
        group_name="published",
        description="What the guards or a person decided on a night. Decide on a held one in the "
        f"job {DECIDE}: what follows from it is made by the same run.",
    )
    def decision(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            config = DecisionForm(**context.op_execution_context.op_config)
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
            metadata=decision_metadata(snapshot) | {"state before": before.state}
        )

    return decision


@contextlib.contextmanager
def _canceled_by_mistakes(context: dg.AssetExecutionContext) -> Iterator[None]:
    """Cancel the run of a person who filled in something wrong; nothing was decided.

    If the run failed, Dagster would show every view of the night as failed, although all of them
    are as they were.
    """
    try:
        yield
    except (NothingDecided, DecisionNotAllowed, NoSuchSnapshot, ReasonRequired) as error:
        # Without this Dagster would take an interruption for a failure.
        context.instance.report_run_canceling(context.run, str(error))
        raise dg.DagsterExecutionInterruptedError(str(error)) from None


def _require_decision(step: NightStep, before: Snapshot, config: DecisionForm) -> None:
    """Raise if the job was not told what to decide, or who does, or if that is not possible."""
    if config.decision != LEAVE:
        if not config.by.strip():
            raise NothingDecided("it was not said who decides")
        snapshots.require_decidable(before, STATES[config.decision], why=config.why)
    elif step.is_decision:
        raise NothingDecided("the job was not told to accept or to reject")


def _snapshot(step: NightStep, snapshot_id: str) -> Snapshot:
    """Return the snapshot that is decided on: the night's held one, if none is named."""
    newest = step.manifest().snapshot_id
    if snapshot_id:
        named = snapshots.find(step.layout, snapshot_id)
        if named.snapshot_date != step.day:
            raise NothingDecided(f"{snapshot_id} is of {named.snapshot_date}, not of {step.day}")
        return named
    of_night = [
        night
        for night in snapshots.landed_snapshots(step.layout)
        if night.snapshot_date == step.day
    ]
    held = [snapshot for snapshot in of_night if snapshot.state == states.HELD]
    if len(held) > 1:
        names = ", ".join(snapshot.snapshot_id for snapshot in held)
        raise NothingDecided(f"several snapshots of {step.day} are held ({names}): name one")
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
