"""What the engine itself says of breaks: opened again, and known by another id.

It says so of a day. A run that replaces one of the same day takes back what the engine had said of
that day and decides anew; what people said stays.
"""

from collections.abc import Callable, Iterator
from datetime import date, datetime

from warehouse.reconcile.breaks.engine import Outcome
from warehouse.reconcile.comments.annotations import ENGINE, FIELDS, OPEN, State, state
from warehouse.reconcile.store.archive import Folder, Json, add_annotations, annotations, is_newest


def human_state(folder: Folder, day: date) -> tuple[State, Callable[[str], bool]]:
    """Return what people decided, and of which breaks a run of the day may say anything.

    The newest day may open any break again; an earlier one only says anew what it had said.
    """
    said, force = state(folder, without=day), state(folder)
    newest = is_newest(folder, day)
    return said, lambda id_: newest or said.of(id_, "status") != force.of(id_, "status")


def keep(folder: Folder, outcome: Outcome, at: datetime) -> None:
    """Keep what the engine says of the day of a run, in place of what it had said of it."""
    before = _standing(folder, outcome.day)
    old = [entry for file in before for entry in file["entries"] if not entry.get("is_restored")]
    now = state(folder, without=outcome.day)
    ids = None if is_newest(folder, outcome.day) else {entry["break_id"] for entry in old}
    entries = [*_renames(outcome, now, ids), *_reopenings(outcome, now)]
    if entries == old:
        return
    restored = list(_restorations(old, entries, (state(folder), now)))
    about: Json = {"who": ENGINE, "at": at.isoformat(), "source": "", "sha256": "", "run_id": ""}
    about |= {"base_revision": now.revision, "engine_day": outcome.day.isoformat()}
    about |= {"replaces": [file["no"] for file in before]}
    add_annotations(folder, about | {"entries": [*restored, *entries]})


def _standing(folder: Folder, day: date) -> list[Json]:
    """Return what the engine said of a day and did not take back."""
    files = list(annotations(folder))
    undone = {number for file in files for number in file.get("replaces", ())}
    return [
        file
        for file in files
        if file.get("engine_day") == day.isoformat() and file["no"] not in undone
    ]


def _renames(outcome: Outcome, now: State, ids: set[str] | None) -> Iterator[Json]:
    """Yield what was said under an id of before, where nobody said anything under that of now."""
    for new, old in outcome.renamed.items():
        if ids is None or new in ids:
            for field in FIELDS:
                if field in now.breaks.get(old, {}) and field not in now.breaks.get(new, {}):
                    entry: Json = {"break_id": new, "field": field, "value": now.of(old, field)}
                    yield entry | (_about(now, old) if field == "status" else {})


def _about(now: State, id_: str) -> Json:
    """Return whose word a status is, of which difference and when: all that it is judged by."""
    said = now.breaks[id_]
    about: Json = {"accepted": said["accepted"], "episode": int(said["episode"])}
    return about | {"said_on": said["accepted_on"], "said_by": said["accepted_by"]}


def _reopenings(outcome: Outcome, now: State) -> Iterator[Json]:
    for broken in outcome.breaks:
        is_opened = broken.status == OPEN != now.of(broken.id, "status")
        if is_opened and broken.id not in outcome.renamed:
            entry = {"break_id": broken.id, "field": "status", "value": OPEN, "note": broken.note}
            yield entry | {"episode": broken.episode}


def _restorations(old: list[Json], new: list[Json], states: tuple[State, State]) -> Iterator[Json]:
    """Yield what holds again where a word of the engine is taken back, for readers of the list."""
    force, now = states
    again = {(entry["break_id"], entry["field"]) for entry in new}
    for entry in old:
        id_, field = entry["break_id"], entry["field"]
        if (id_, field) not in again and force.of(id_, field) != now.of(id_, field):
            restored: Json = {"break_id": id_, "field": field, "value": now.of(id_, field)}
            restored |= {"is_restored": True, "note": "taken back: the day was run again"}
            yield restored | {"accepted": now.breaks.get(id_, {}).get("accepted", "")}
