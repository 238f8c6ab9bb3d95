"""The rows of `ops` about decisions, reasons, lessons and withdrawn files."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from pipelines.lake import lessons
from pipelines.landing.reasons import max_share
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.ops import DECISIONS, LESSONS, REASONS, WITHDRAWN

Row = dict[str, Any]


def rows_of_decisions(nights: Sequence[Snapshot]) -> dict[str, list[Row]]:
    """Return the rows of `decisions`, `reasons`, `lessons` and `withdrawn` for these nights."""
    return {
        DECISIONS.name: [row for night in nights for row in _decisions(night)],
        REASONS.name: [row for night in nights for row in _reasons(night)],
        LESSONS.name: [_lesson(lesson) for lesson in lessons.all_lessons(nights)],
        WITHDRAWN.name: [row for night in nights for row in _withdrawn(night)],
    }


def _of(night: Snapshot) -> Row:
    return {"snapshot_date": night.snapshot_date, "snapshot_id": night.snapshot_id}


def _decisions(night: Snapshot) -> Iterator[Row]:
    for number, decision in enumerate(night.decisions, start=1):
        yield _of(night) | {
            "decision_no": number,
            "state": decision.state,
            "decided_by": decision.by,
            "decided_at": datetime.fromisoformat(decision.at),
            "reason": "; ".join(decision.reasons),
            "machine": decision.machine or None,
            "decision_id": decision.token,
        }


def _reasons(night: Snapshot) -> Iterator[Row]:
    """Yield the reasons from a night's latest decision that has reasons."""
    judged = [decision for decision in night.decisions if decision.causes]
    for cause in {cause.key: cause for cause in judged[-1].causes}.values() if judged else ():
        yield _of(night) | {
            "reason_key": cause.key,
            "words": cause.words,
            "is_teachable": cause.is_teachable,
            "share": cause.share,
            "is_known": judged[-1].state == states.ACCEPTED or cause.is_known,
        }


def _lesson(lesson: lessons.Lesson) -> Row:
    back = lesson.taken_back
    return _of(lesson.snapshot) | {
        "lesson_id": lesson.name,
        "reason_key": lesson.reason.key,
        "words": lesson.reason.words,
        "share": lesson.reason.share,
        "most_share": str(max_share(lesson.reason.share)),
        "taught_by": lesson.taught.by,
        "taught_at": datetime.fromisoformat(lesson.taught.at),
        "taken_back_by": back.by if back else None,
        "taken_back_at": datetime.fromisoformat(back.at) if back else None,
    }


def _withdrawn(night: Snapshot) -> Iterator[Row]:
    # If a night was rejected twice, the same file can be withdrawn twice. Keep only the last
    # withdrawal.
    latest = {file: decision for decision in night.decisions for file in decision.withdrawn}
    for file, decision in latest.items():
        yield _of(night) | {
            "file": file,
            "rejected_by": decision.by,
            "rejected_at": datetime.fromisoformat(decision.at),
            "reason": "; ".join(decision.reasons),
        }
