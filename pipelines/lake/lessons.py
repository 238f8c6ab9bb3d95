"""Lessons: reasons to hold a night, accepted as harmless by a person. Each lesson can be revoked.

They are stored in the decisions next to the landed nights, so that everything can be rebuilt from
the landing zone. A lesson is revoked by its name, or by rejecting the night that taught it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from pipelines.lake import reason_lines
from pipelines.landing import snapshots
from pipelines.landing.reasons import Reason, lesson_id, max_share
from pipelines.landing.snapshots import Decision, Snapshot
from warehouse.contract.states import ACCEPTED, HELD, REJECTED
from warehouse.storage.layout import Layout

BY = "guards, by a lesson"


class NoSuchLesson(Exception):
    """A lesson with this name does not exist, or has been revoked."""

    exit_code = 2

    def __init__(self, name: str) -> None:
        super().__init__(
            f"There is no active lesson {name!r}. Nothing was changed. List the lessons with: "
            "nightbook snapshots --lessons"
        )


@dataclass(frozen=True, slots=True)
class Lesson:
    """A reason that a person accepted as harmless, and the decision that revoked it, if any."""

    reason: Reason
    snapshot: Snapshot
    taught: Decision
    taken_back: Decision | None = None

    @property
    def name(self) -> str:
        """The short name that a person uses to revoke the lesson."""
        return lesson_id(self.reason.key)


def all_lessons(nights: Iterable[Snapshot]) -> list[Lesson]:
    """Return all lessons from these nights, oldest first, including revoked lessons."""
    return [lesson for night in nights for lesson in _of(night)]


def in_force(nights: Iterable[Snapshot]) -> dict[str, Decimal]:
    """Map each reason key to the largest share that a lesson covers. Ignore revoked lessons."""
    largest_shares: dict[str, Decimal] = {}
    for lesson in all_lessons(nights):
        if lesson.taken_back is None:
            key, share = lesson.reason.key, max_share(lesson.reason.share)
            largest_shares[key] = max(largest_shares.get(key, share), share)
    return largest_shares


def apply_lessons(reasons: Iterable[Reason], nights: Iterable[Snapshot]) -> tuple[Reason, ...]:
    """Mark the reasons that lessons cover. A reason whose share grew too much is not covered."""
    largest_shares = in_force(nights)
    nothing = Decimal(-1)
    return tuple(
        replace(
            reason,
            is_known=reason.is_teachable
            and Decimal(reason.share) <= largest_shares.get(reason.key, nothing),
        )
        for reason in reasons
    )


def let_through(layout: Layout, *, at: datetime) -> list[Snapshot]:
    """Accept each held night if lessons taught since then cover all of its reasons."""
    # If the API's data changes on Saturday, a person can decide once on Monday, instead of once for
    # each night since.
    landed = snapshots.landed_snapshots(layout)
    through = []
    for night in landed:
        if night.state != HELD or not night.held_for:
            continue
        causes = apply_lessons(night.held_for, landed)
        if all(cause.is_known for cause in causes):
            sentences = reason_lines.lines_of(causes)
            decided = snapshots.decide(
                night, ACCEPTED, by=BY, at=at, reasons=sentences, causes=causes
            )
            through.append(decided)
    return through


def take_back(layout: Layout, name: str, *, by: str, at: datetime, why: str) -> list[Lesson]:
    """Revoke a lesson on each night for which it was taught. Raises `NoSuchLesson`."""
    landed = snapshots.landed_snapshots(layout)
    gone = [
        lesson_
        for lesson_ in all_lessons(landed)
        if lesson_.name == name and lesson_.taken_back is None
    ]
    if not gone:
        raise NoSuchLesson(name)
    for lesson in gone:
        night = snapshots.find(layout, lesson.snapshot.snapshot_id)
        sentence = f"no longer known to be harmless: {lesson.reason.words}"
        snapshots.decide(
            night,
            night.shared_state,
            by=by,
            at=at,
            reasons=(sentence, why) if why else (sentence,),
            takes_back=(lesson.reason.key,),
        )
    return gone


def _of(night: Snapshot) -> list[Lesson]:
    taught: dict[str, Lesson] = {}
    for decision in night.decisions:
        for key, lesson in taught.items():
            # Rejecting a night revokes all of its lessons. `takes_back` contains the keys of
            # lessons that were revoked individually.
            is_gone = decision.state == REJECTED or key in decision.takes_back
            if lesson.taken_back is None and is_gone:
                taught[key] = replace(lesson, taken_back=decision)
        if decision.state == ACCEPTED:
            taught |= {
                lesson_.key: Lesson(lesson_, night, decision) for lesson_ in decision.teaches
            }
    return list(taught.values())
