"""Snapshots and their states: `pulling → complete → accepted | held → accepted | rejected`.

What was decided, by whom and why is kept beside the landed bodies in `decision.json`, whole
history, so that everything after landing can be made again from the landing zone. A night may be
pruned after years: its manifest and its decisions stay.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from pipelines import landing, proved
from warehouse.layout import Layout

DECISION = "decision.json"
COMPLETE, ACCEPTED, HELD, REJECTED = "complete", "accepted", "held", "rejected"
PRUNED = "pruned"  # its manifest and decisions are kept for ever, its bodies and tables are not
GONE = (REJECTED, PRUNED)
GUARDS = "guards"


class NoSuchSnapshot(Exception):
    """No landed snapshot has that id."""

    exit_code = 2

    def __init__(self, snapshot_id: str, known: list[str]) -> None:
        some = ", ".join(known[-3:]) if known else "none at all"
        super().__init__(
            f"There is no snapshot {snapshot_id!r}: the newest are {some}. Nothing was changed. "
            "List them with: nightbook snapshots"
        )


class NotToBeDecided(Exception):
    """The snapshot is in a state from which this decision cannot be made."""

    exit_code = 2

    def __init__(self, snapshot_id: str, state: str, wanted: str) -> None:
        super().__init__(
            f"Snapshot {snapshot_id} is {state}, so it cannot be {wanted}: only a held snapshot "
            "waits for a decision. Nothing was changed. List them with: nightbook snapshots"
        )


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision: the state it led to, who made it, when (UTC) and why."""

    state: str
    by: str
    at: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A landed snapshot: its folder and everything decided about it, oldest first."""

    snapshot_id: str
    snapshot_date: date
    folder: Path
    decisions: tuple[Decision, ...]

    @property
    def state(self) -> str:
        """The state it is in."""
        return self.decisions[-1].state if self.decisions else COMPLETE

    def state_at(self, moment: datetime) -> str:
        """The state it was in when a later night was taken, so that a rebuild sees what it saw.

        The guards judge a night before the next is taken; a person may decide at any time.
        """
        made = [
            one
            for one in self.decisions
            if one.by == GUARDS or datetime.fromisoformat(one.at) <= moment
        ]
        return made[-1].state if made else COMPLETE

    @property
    def decision(self) -> Decision | None:
        """The last decision, or None while it has not been judged."""
        return self.decisions[-1] if self.decisions else None


def landed(layout: Layout) -> list[Snapshot]:
    """All landed snapshots, oldest first."""
    return [read(folder) for folder in landing.folders(layout)]


def read(folder: Path) -> Snapshot:
    """The snapshot in a landed folder; raises `Damaged` where its decisions are not as written."""
    path = folder / DECISION
    made: list[dict[str, Any]] = proved.read(path)["decisions"] if path.is_file() else []
    decisions = tuple(
        Decision(one["state"], one["by"], one["at"], tuple(one["reasons"])) for one in made
    )
    return Snapshot(folder.name, date.fromisoformat(folder.parent.name), folder, decisions)


def find(layout: Layout, snapshot_id: str) -> Snapshot:
    """The snapshot of that id; raises `NoSuchSnapshot`."""
    known = list(landing.folders(layout))
    for folder in reversed(known):
        if folder.name == snapshot_id:
            return read(folder)
    raise NoSuchSnapshot(snapshot_id, [folder.name for folder in known])


def books(snapshots: list[Snapshot]) -> dict[date, Snapshot]:
    """The book of each date: its newest accepted snapshot."""
    chosen: dict[date, Snapshot] = {}
    for snapshot in sorted(snapshots, key=lambda one: one.snapshot_id):
        if snapshot.state == ACCEPTED:
            chosen[snapshot.snapshot_date] = snapshot
    return dict(sorted(chosen.items()))


def accepted_before(
    snapshots: list[Snapshot], snapshot_id: str, moment: datetime
) -> list[Snapshot]:
    """The snapshots taken before another one that were accepted by a moment, oldest first."""
    return [
        one
        for one in sorted(snapshots, key=lambda one: one.snapshot_id)
        if one.snapshot_id < snapshot_id and one.state_at(moment) == ACCEPTED
    ]


def decide(
    snapshot: Snapshot, state: str, *, by: str, at: datetime, reasons: tuple[str, ...] = ()
) -> Snapshot:
    """Add a decision; what was decided before stays on record."""
    decision = Decision(state, by, at.astimezone(UTC).isoformat(), reasons)
    decisions = (*snapshot.decisions, decision)
    content = [
        {"state": one.state, "by": one.by, "at": one.at, "reasons": list(one.reasons)}
        for one in decisions
    ]
    proved.write(snapshot.folder / DECISION, {"decisions": content})
    return Snapshot(snapshot.snapshot_id, snapshot.snapshot_date, snapshot.folder, decisions)


def decide_by_hand(
    layout: Layout, snapshot_id: str, state: str, *, by: str, at: datetime, why: str
) -> Snapshot:
    """Accept or reject a held snapshot; raises `NoSuchSnapshot` and `NotToBeDecided`."""
    if state not in (ACCEPTED, REJECTED):
        raise ValueError(f"{state!r} is no decision: {ACCEPTED} or {REJECTED} is")
    snapshot = find(layout, snapshot_id)
    if snapshot.state != HELD:
        raise NotToBeDecided(snapshot_id, snapshot.state, state)
    return decide(snapshot, state, by=by, at=at, reasons=(why,) if why else ())
