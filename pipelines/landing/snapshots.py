"""Snapshots and their states: `pulling → complete → accepted | held → accepted | rejected`.

What was decided, by whom and why is kept beside the landed bodies in `decision.json`, whole
history, so that everything after landing can be made again from the landing zone. A night may be
pruned after years: its manifest and its decisions stay.

Several machines may decide on one night. Decisions are never changed, so their lists are merged:
the union, ordered by time; the newest decision applies.
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
from pipelines.landing import night_folders as sealed_json
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
    """No landed snapshot has that id."""

    exit_code = 2

    def __init__(self, snapshot_id: str, known: list[str]) -> None:
        newest = ", ".join(known[-3:]) if known else "none at all"
        super().__init__(
            f"There is no snapshot {snapshot_id!r}: the newest are {newest}. Nothing was changed. "
            "List them with: nightbook snapshots"
        )


class DecisionNotAllowed(Exception):
    """The snapshot is in a state from which this decision cannot be made."""

    exit_code = 2

    def __init__(self, snapshot_id: str, state: str, wanted: str) -> None:
        super().__init__(
            f"Snapshot {snapshot_id} is {state}, so it cannot be {wanted}: a held one waits for a "
            "decision, an accepted one may be rejected, and a rejected one accepted after all. "
            "Nothing was changed. List them with: nightbook snapshots"
        )


class ReasonRequired(Exception):
    """A decision that changes what people may have used already is made with its reason."""

    exit_code = 2

    def __init__(self, snapshot_id: str, state: str, word: str) -> None:
        super().__init__(
            f"Snapshot {snapshot_id} is {state}, and people may have worked with that: say why it "
            "is to be otherwise, so that it is on record. Nothing was changed. Type: nightbook "
            f"{word} {snapshot_id} --why '...'"
        )


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One decision: the state it led to, who made it, when (UTC) and why, in words.

    As it is kept, what is empty is left out; one of an older version has words alone, and does not
    name its machine. `original` is the token of a lost decision that this one replaces.
    """

    state: str
    by: str
    at: str
    reasons: tuple[str, ...]
    causes: tuple[Reason, ...] = ()  # what the guards saw, as data
    teaches: tuple[Reason, ...] = ()  # those that a person accepted as harmless
    takes_back: tuple[str, ...] = ()  # keys of lessons that are none any more
    withdrawn: tuple[str, ...] = ()  # files that were made of the night before it was taken back
    machine: str = ""
    original: str = ""

    @property
    def token(self) -> str:
        """The fingerprint of this decision, which is the same on every machine that has it."""
        encoded = msgspec.json.encode(self)
        return self.original or hashlib.sha256(encoded).hexdigest()[:TOKEN_DIGITS]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A landed snapshot: where it lies and everything decided about it, oldest first."""

    snapshot_id: str
    snapshot_date: date
    place: str
    decisions: tuple[Decision, ...]

    @property
    def folder(self) -> Path:
        """Its folder: made when asked for, since a `Path` for each night of years costs more."""
        return Path(self.place)

    @property
    def state(self) -> str:
        """The state it is in."""
        return self.decisions[-1].state if self.decisions else COMPLETE

    @property
    def shared_state(self) -> str:
        """The state it is in on machines on which it is not pruned."""
        states = [decision.state for decision in self.decisions if decision.state != PRUNED]
        return states[-1] if states else COMPLETE

    def state_at(self, moment: datetime) -> str:
        """Return its state when a later night was taken, so that a rebuild sees the same."""
        # The guards judge a night before the next is taken; a person may decide at any time.
        decisions = self._made_by(moment)
        return decisions[-1].state if decisions else COMPLETE

    def _made_by(self, moment: datetime) -> list[Decision]:
        return [
            decision
            for decision in self.decisions
            if decision.by == GUARDS or datetime.fromisoformat(decision.at) <= moment
        ]

    def is_suspect_at(self, moment: datetime) -> bool:
        """Return whether its own numbers were in doubt: it was held for more than lessons."""
        # Such a night may have been accepted although it was wrong, so it teaches no limit, and the
        # night after it is compared with the one before it as well.
        held = [decision for decision in self._made_by(moment) if decision.state == HELD]
        return any(
            not decision.causes or not all(cause.is_teachable for cause in decision.causes)
            for decision in held
        )

    @property
    def held_for(self) -> tuple[Reason, ...]:
        """What the guards held it for when they last did, as data."""
        held = [decision for decision in self.decisions if decision.state == HELD]
        return held[-1].causes if held else ()

    @property
    def decision(self) -> Decision | None:
        """The last decision, or None while it has not been judged."""
        return self.decisions[-1] if self.decisions else None


def landed_snapshots(layout: Layout) -> list[Snapshot]:
    """Return all landed snapshots, oldest first."""
    return [read(folder) for folder in night_folders.folders(layout)]


def read(folder: Path) -> Snapshot:
    """Read the snapshot in a folder; raises `Damaged` where its decisions were changed."""
    path = night_folders.file_in(folder, DECISION)
    file = edition(path)
    decisions = _decisions(path, file) if any(file) else ()
    return Snapshot(folder.name, date.fromisoformat(folder.parts[-2]), str(folder), decisions)


@lru_cache(maxsize=1 << 16)
def _decisions(path: Path, _edition: tuple[int, int, int]) -> tuple[Decision, ...]:
    """Read decisions once, however often a command looks at all nights: years of them are many."""
    return msgspec.convert(sealed_json.read(path)["decisions"], tuple[Decision, ...])


def find(layout: Layout, snapshot_id: str) -> Snapshot:
    """Return the snapshot of that id; raises `NoSuchSnapshot`."""
    if (folder := night_folders.folder_of(layout, snapshot_id)) is not None:
        return read(folder)
    folders = list(night_folders.folders(layout))
    for folder in reversed(folders):
        if folder.name == snapshot_id:
            return read(folder)
    raise NoSuchSnapshot(snapshot_id, [folder.name for folder in folders])


def newest(layout: Layout) -> str | None:
    """Return the newest snapshot that is or may become a book: the next follows it."""
    for folder in reversed(list(night_folders.folders(layout))):
        if read(folder).state in (ACCEPTED, COMPLETE, PRUNED):
            return folder.name
    return None


def books(snapshots: Sequence[Snapshot]) -> dict[date, Snapshot]:
    """Return the book of each date: its newest accepted snapshot."""
    chosen: dict[date, Snapshot] = {}
    for snapshot in sorted(snapshots, key=lambda snapshot_: snapshot_.snapshot_id):
        if snapshot.state == ACCEPTED:
            chosen[snapshot.snapshot_date] = snapshot
    return dict(sorted(chosen.items()))


def accepted_before(
    snapshots: Iterable[Snapshot], snapshot_id: str, moment: datetime
) -> Iterator[Snapshot]:
    """Yield the snapshots before another that were accepted by then, newest first."""
    # One by one: of years of nights most callers look at the last alone.
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
    """Add a decision; what was decided before stays on record."""
    # Clocks of two machines differ. A decision is later than those that it was made upon, so that
    # the order by time is the order in which people decided.
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
    """Replace the decisions on a snapshot by a list that has all of them, and more."""
    # A pruned night cannot be made again, so its pruning is last, whatever was decided after it.
    ordered = tuple(sorted(decisions, key=lambda decision: decision.state == PRUNED))
    sealed_json.write(snapshot.folder / DECISION, {"decisions": msgspec.to_builtins(ordered)})
    return replace(snapshot, decisions=ordered)


def merge(here: Sequence[Decision], there: Sequence[Decision]) -> tuple[Decision, ...]:
    """Return the decisions of two machines on one night as one list.

    A list that has all of the other is returned as it is. Otherwise the result is the union,
    ordered by time and then by token: the same list on whichever machine they are merged.
    """
    ours, theirs = ({decision.token for decision in side} for side in (here, there))
    if theirs <= ours:
        return tuple(here)
    if ours <= theirs:
        return tuple(there)
    union = {decision.token: decision for decision in (*here, *there)}
    for decision in list(union.values()):
        if decision.machine and not decision.original:
            # An older nightbook forgets the machine of the decisions upon which it decides.
            union.pop(msgspec.structs.replace(decision, machine="").token, None)
    times: dict[str, datetime] = {}
    for token, at in (*_times(here), *_times(there)):
        times[token] = max(at, times.get(token, at))
    return tuple(
        sorted(
            union.values(),
            key=lambda decision: (decision.state == PRUNED, times[decision.token], decision.token),
        )
    )


def _times(decisions: Sequence[Decision]) -> Iterator[tuple[str, datetime]]:
    """Yield when each decision was made; none is before the one that it was made upon."""
    # Older versions wrote what the clock showed, also where it had been set back.
    moments = (datetime.fromisoformat(decision.at) for decision in decisions)
    ordered = accumulate(moments, lambda before, at: max(at, before + _TICK))
    return zip((decision.token for decision in decisions), ordered, strict=True)


def require_decidable(snapshot: Snapshot, state: str, *, why: str) -> bool:
    """Return whether there is anything to decide: what is so already is done.

    Raises `DecisionNotAllowed`, and `ReasonRequired` where a reason is needed.
    """
    if state not in (ACCEPTED, REJECTED):
        raise ValueError(f"{state!r} is no decision: {ACCEPTED} or {REJECTED} is")
    if snapshot.state == state:
        return False
    if snapshot.state not in (HELD, ACCEPTED, REJECTED):
        raise DecisionNotAllowed(snapshot.snapshot_id, snapshot.state, state)
    if snapshot.state != HELD and not why:
        raise ReasonRequired(snapshot.snapshot_id, snapshot.state, WORDS[state])
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
    """Accept or reject a snapshot; accepting one that was held teaches what can be taught.

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
