"""Snapshots and their states: `pulling → complete → accepted | held → accepted | rejected`.

`decision.json`, next to the landed bodies, contains all decisions with their authors and reasons.
So everything after landing can be rebuilt from the landing zone. A night may be pruned after some
years, but its manifest and decisions remain.

Several machines may decide on one night. Decisions never change, so merging two lists gives their
union, ordered by time. The newest decision applies.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import accumulate
from pathlib import Path

import msgspec

from pipelines.landing import night_folders
from pipelines.landing.lock import machine_name
from pipelines.landing.reasons import Reason
from warehouse.contract.states import ACCEPTED, COMPLETE, HELD, PRUNED, REJECTED
from warehouse.storage.layout import Layout, edition

DECISION = "decision.json"
GONE = (REJECTED, PRUNED)
GUARDS = "guards"
WORDS = {ACCEPTED: "accept", REJECTED: "reject"}
TOKEN_DIGITS = 16
_TICK = timedelta(microseconds=1)


class NoSuchSnapshot(Exception):
    """No landed snapshot has this ID."""

    exit_code = 2

    def __init__(self, snapshot_id: str, known: list[str]) -> None:
        newest = f"The latest are {', '.join(known[-3:])}." if known else "There are no snapshots."
        super().__init__(
            f"There is no snapshot {snapshot_id!r}. {newest} Nothing was changed. List the "
            "snapshots with: nightbook snapshots"
        )


class DecisionNotAllowed(Exception):
    """The snapshot is in a state that does not allow this decision."""

    exit_code = 2

    def __init__(self, snapshot_id: str, state: str, wanted: str) -> None:
        super().__init__(
            f"Snapshot {snapshot_id} is {state}, so it cannot be {wanted}. You can accept or "
            "reject a held snapshot, reject an accepted one, and accept a rejected one. Nothing "
            "was changed. List the snapshots with: nightbook snapshots"
        )


class ReasonRequired(Exception):
    """A decision that is risky, or that people may have relied on, needs a reason."""

    exit_code = 2

    def __init__(self, snapshot_id: str, risk: str, word: str) -> None:
        super().__init__(
            f"Snapshot {snapshot_id} {risk}. Give a reason, which is stored with the decision. "
            f"Nothing was changed. Type: nightbook {word} {snapshot_id} --why '...'"
        )


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A decision on a snapshot: the new state, the author, the time (UTC) and the reasons.

    Empty fields are not stored. Older versions wrote neither `causes` nor a machine. `original` is
    set if this decision is a copy of a lost decision, and contains its token.
    """

    state: str
    by: str
    at: str
    reasons: tuple[str, ...]
    causes: tuple[Reason, ...] = ()  # the guards' reasons (`Reason` objects)
    teaches: tuple[Reason, ...] = ()  # reasons that a person accepted as harmless
    takes_back: tuple[str, ...] = ()  # keys of revoked lessons
    # Published files with data from the night, if this decision rejects a night that was accepted.
    withdrawn: tuple[str, ...] = ()
    machine: str = ""
    original: str = ""

    @property
    def token(self) -> str:
        """The decision's fingerprint, which is the same on all machines."""
        return self.original or hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:TOKEN_DIGITS]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A landed snapshot: its folder, and its decisions, oldest first."""

    snapshot_id: str
    snapshot_date: date
    folder: Path
    decisions: tuple[Decision, ...]

    @property
    def state(self) -> str:
        """The snapshot's current state."""
        return self.decisions[-1].state if self.decisions else COMPLETE

    @property
    def shared_state(self) -> str:
        """The snapshot's current state, ignoring pruning, which applies to only one machine."""
        states = [decision.state for decision in self.decisions if decision.state != PRUNED]
        return states[-1] if states else COMPLETE

    def state_at(self, moment: datetime) -> str:
        """Return the state at a given time, ignoring later decisions by people."""
        # The guards judge a night before the next pull, but a person may decide at any time.
        decisions = self._made_by(moment)
        return decisions[-1].state if decisions else COMPLETE

    def _made_by(self, moment: datetime) -> list[Decision]:
        """Return all decisions by the guards, and people's decisions up to `moment`."""
        return [
            decision
            for decision in self.decisions
            if decision.by == GUARDS or datetime.fromisoformat(decision.at) <= moment
        ]

    def is_suspect_at(self, moment: datetime) -> bool:
        """Return whether the guards held the night for a reason that no lesson can cover."""
        # A person may have accepted such a night by mistake. So the guards ignore such nights when
        # they compute limits, and also compare later nights with an older night.
        held = [decision for decision in self._made_by(moment) if decision.state == HELD]
        return any(
            not decision.causes or not all(cause.is_teachable for cause in decision.causes)
            for decision in held
        )

    @property
    def held_for(self) -> tuple[Reason, ...]:
        """The guards' reasons when they last held the night (`Reason` objects)."""
        held = [decision for decision in self.decisions if decision.state == HELD]
        return held[-1].causes if held else ()

    @property
    def loss(self) -> str:
        """The first reason why money may be missing in a held night, or an empty string."""
        causes = self.held_for if self.state == HELD else ()
        return next((cause.words for cause in causes if cause.is_loss), "")

    @property
    def decision(self) -> Decision | None:
        """The last decision on the snapshot, or None if it has no decision yet."""
        return self.decisions[-1] if self.decisions else None


def landed_snapshots(layout: Layout) -> list[Snapshot]:
    """Return all landed snapshots, oldest first."""
    return [read(folder) for folder in night_folders.folders(layout)]


def read(folder: Path) -> Snapshot:
    """Read the snapshot in a folder. Raises `DamagedFile` if its decisions were changed."""
    path = folder / DECISION
    file = edition(path)
    decisions = _decisions(path, file) if any(file) else ()
    return Snapshot(folder.name, date.fromisoformat(folder.parent.name), folder, decisions)


def find(layout: Layout, snapshot_id: str) -> Snapshot:
    """Find a snapshot by its ID. Raises `NoSuchSnapshot`."""
    if (folder := night_folders.folder_of(layout, snapshot_id)) is not None:
        return read(folder)
    folders = list(night_folders.folders(layout))
    for folder in reversed(folders):
        if folder.name == snapshot_id:
            return read(folder)
    raise NoSuchSnapshot(snapshot_id, [folder.name for folder in folders])


def newest(layout: Layout) -> str | None:
    """Return the ID of the newest snapshot that was accepted, pruned or not yet judged."""
    for folder in reversed(list(night_folders.folders(layout))):
        if read(folder).state in (ACCEPTED, COMPLETE, PRUNED):
            return folder.name
    return None


def books(snapshots: Sequence[Snapshot]) -> dict[date, Snapshot]:
    """Return each date's book, which is its newest accepted snapshot."""
    chosen: dict[date, Snapshot] = {}
    for snapshot in sorted(snapshots, key=lambda snapshot_: snapshot_.snapshot_id):
        if snapshot.state == ACCEPTED:
            chosen[snapshot.snapshot_date] = snapshot
    return dict(sorted(chosen.items()))


def accepted_before(
    snapshots: Iterable[Snapshot], snapshot_id: str, moment: datetime
) -> Iterator[Snapshot]:
    """Yield the snapshots before `snapshot_id` that had been accepted by `moment`, newest first."""
    # Yield the snapshots one by one, because most callers only need the newest of thousands of
    # nights.
    for snapshot in sorted(snapshots, key=lambda snapshot: snapshot.snapshot_id, reverse=True):
        if snapshot.snapshot_id < snapshot_id and snapshot.state_at(moment) == ACCEPTED:
            yield snapshot


def decide(
    snapshot: Snapshot,
    state: str,
    *,
    by: str,
    at: datetime,
    reasons: tuple[str, ...] = (),
    causes: tuple[Reason, ...] = (),
    teaches: tuple[Reason, ...] = (),
    takes_back: tuple[str, ...] = (),
    withdrawn: tuple[str, ...] = (),
) -> Snapshot:
    """Add a decision to a snapshot. All earlier decisions are kept."""
    # Clocks on different machines disagree. Give each new decision a later time than all earlier
    # ones, so that sorting by time shows the order in which people decided.
    times = (datetime.fromisoformat(decision.at) + _TICK for decision in snapshot.decisions)
    decision = Decision(
        state=state,
        by=by,
        at=max([at, *times]).astimezone(UTC).isoformat(),
        reasons=reasons,
        causes=causes,
        teaches=teaches,
        takes_back=takes_back,
        withdrawn=withdrawn,
        machine=machine_name(),
    )
    return write_decisions(snapshot, (*snapshot.decisions, decision))


def write_decisions(snapshot: Snapshot, decisions: Sequence[Decision]) -> Snapshot:
    """Store the new list of a snapshot's decisions, which must include all existing decisions."""
    # A pruned night cannot be rebuilt, so the decision to prune stays last in the list, even if
    # other decisions were made later.
    ordered = tuple(sorted(decisions, key=lambda decision: decision.state == PRUNED))
    night_folders.write(snapshot.folder / DECISION, {"decisions": msgspec.to_builtins(ordered)})
    return replace(snapshot, decisions=ordered)


def merge(local: Sequence[Decision], remote: Sequence[Decision]) -> tuple[Decision, ...]:
    """Merge the decisions that two machines have recorded for the same night.

    If one list contains the other, it is returned unchanged. Otherwise the result is the union,
    sorted by time and then by token, so every machine gets the same list.
    """
    ours, theirs = ({decision.token for decision in decisions} for decisions in (local, remote))
    if theirs <= ours:
        return tuple(local)
    if ours <= theirs:
        return tuple(remote)
    union = {decision.token: decision for decision in (*local, *remote)}
    for decision in list(union.values()):
        if decision.machine and not decision.original:
            # Older versions of nightbook drop the machine from existing decisions when they add a
            # decision.
            union.pop(msgspec.structs.replace(decision, machine="").token, None)
    times: dict[str, datetime] = {}
    for token, at in (*_times(local), *_times(remote)):
        times[token] = max(at, times.get(token, at))
    return tuple(
        sorted(
            union.values(),
            key=lambda decision: (decision.state == PRUNED, times[decision.token], decision.token),
        )
    )


def require_decidable(snapshot: Snapshot, state: str, *, why: str) -> bool:
    """Check a person's decision. Return False if the snapshot already has this state, else True.

    Raises `DecisionNotAllowed`, or `ReasonRequired` if a reason is required.
    """
    if state not in (ACCEPTED, REJECTED):
        raise ValueError(f"{state!r} is not a decision. Use {ACCEPTED} or {REJECTED}")
    if snapshot.state == state:
        return False
    if snapshot.state not in (HELD, ACCEPTED, REJECTED):
        raise DecisionNotAllowed(snapshot.snapshot_id, snapshot.state, state)
    if snapshot.state != HELD and not why:
        risk = f"is {snapshot.state}, and people may have relied on that"
        raise ReasonRequired(snapshot.snapshot_id, risk, WORDS[state])
    if state == ACCEPTED and snapshot.loss and not why:
        risk = f"may lack money ({snapshot.loss})"
        raise ReasonRequired(snapshot.snapshot_id, risk, WORDS[state])
    return True


def decide_by_hand(
    layout: Layout,
    snapshot_id: str,
    state: str,
    *,
    by: str,
    at: datetime,
    why: str,
    withdrawn: tuple[str, ...] = (),
) -> Snapshot:
    """Record a person's decision. If the night is accepted, its teachable reasons become lessons.

    Raises `NoSuchSnapshot`, `DecisionNotAllowed` and `ReasonRequired`.
    """
    snapshot = find(layout, snapshot_id)
    if not require_decidable(snapshot, state, why=why):
        return snapshot
    return decide(
        snapshot,
        state,
        by=by,
        at=at,
        reasons=(why,) if why else (),
        teaches=tuple(
            reason for reason in snapshot.held_for if reason.is_teachable and not reason.is_known
        )
        if state == ACCEPTED
        else (),
        withdrawn=withdrawn,
    )


@lru_cache(maxsize=1 << 16)
def _decisions(path: Path, _edition: tuple[int, int, int]) -> tuple[Decision, ...]:
    """Read a decision file. Cached, because one command reads years of nights several times."""
    return msgspec.convert(night_folders.read(path)["decisions"], tuple[Decision, ...])


def _times(decisions: Sequence[Decision]) -> Iterator[tuple[str, datetime]]:
    """Yield each decision's token and time. Correct the times so that they always increase."""
    # Older versions stored the clock's time even if the clock had been set back, so the stored
    # times can decrease.
    moments = (datetime.fromisoformat(decision.at) for decision in decisions)
    ordered = accumulate(moments, lambda before, at: max(at, before + _TICK))
    return zip((decision.token for decision in decisions), ordered, strict=True)
