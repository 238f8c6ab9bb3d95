"""What people wrote beside breaks: kept forever, merged three ways, never lost.

An entry is one field of one break, said by somebody at some time. The state at a revision is what
the entries up to it come to; a workbook says which revision it was made from.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from warehouse.reconcile.comments.edits import WorkbookEdits
from warehouse.reconcile.notices import Notice
from warehouse.reconcile.store.archive import Folder, Json, annotations
from warehouse.spreadsheet.writing.cells import CELL_LIMIT, units

FIELDS = ("status", "owner", "root_cause", "comment")
OPEN, ACCEPTED = "Open", "Explained - accepted"
STATUSES = (OPEN, "In progress", "Waiting", ACCEPTED)
ENGINE = "nightbook"
_CUT = 30_000
_ALSO = "\n-- also: "


@dataclass(frozen=True, slots=True)
class Since:
    """What is known at three times, for a workbook that is read back.

    `shown` is what the workbook showed, `then` the same without what the engine said of the day
    that is run, `now` all that people said until now.
    """

    shown: "State"
    then: "State"
    now: "State"


@dataclass(frozen=True, slots=True)
class State:
    """What is known of every break, by id and field, at one revision.

    Beside the fields a break may have `accepted` (the difference), `accepted_on`, `accepted_by`
    and `episode` (of its status).
    """

    revision: int
    breaks: Mapping[str, Mapping[str, str]]

    def of(self, break_id: str, field: str) -> str:
        """The value of a field; Open for a status that nobody set."""
        return self.breaks.get(break_id, {}).get(field, OPEN if field == "status" else "")


def state(folder: Folder, revision: int | None = None, *, without: date | None = None) -> State:
    """Return what the entries come to, up to a revision or all of them.

    What the engine said of a day and took back counts no more; `without` leaves out all that it
    said of that day, which a run of that day decides anew.
    """
    breaks: dict[str, dict[str, str]] = {}
    last = 0
    known = [
        entry_ for entry_ in annotations(folder) if revision is None or entry_["no"] <= revision
    ]
    undone = {number for entry_ in known for number in entry_.get("replaces", ())}
    for entry_ in known:
        last = entry_["no"]
        if last in undone or (without and entry_.get("engine_day") == without.isoformat()):
            continue
        for entry in entry_["entries"]:
            if entry.get("is_restored"):
                continue
            said = breaks.setdefault(entry["break_id"], {})
            said[entry["field"]] = entry["value"]
            if entry["field"] == "status":
                said["accepted"] = entry.get("accepted", "")
                said["accepted_on"] = entry.get("said_on", entry_["at"][:10])
                said["accepted_by"] = entry.get("said_by", entry_["who"])
                said["episode"] = str(entry.get("episode", 1))
                said["note"] = entry.get("note", "")
    return State(last, breaks)


def tidy(text: str) -> str:
    """A text as it is compared: one kind of line end, nothing that a cell cannot keep."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(entry for entry in lines if entry >= " " or entry in "\n\t").strip()


def in_cell(text: str) -> str:
    """A text as its cell shows it: cut where no cell holds it; the whole stays in the store."""
    if units(text) <= CELL_LIMIT:
        return text
    return f"{text[: _CUT // 2]} ... (cut: the whole is in ops.annotations)"


def merge_edits(
    edited: WorkbookEdits, since: Since, told: Mapping[str, Json]
) -> tuple[list[Json], list[Notice]]:
    """What a workbook says that was not known: entries, and what a reader must be told.

    `told` are the breaks of the run that the workbook shows, whose differences are accepted.
    """
    entries: list[Json] = []
    notices: list[Notice] = []
    for break_id, cells in edited.rows.items():
        if break_id not in told and break_id not in since.now.breaks:
            words = "a comment on a break that this folder does not know was kept"
            notices.append(Notice("medium", words, edited.name, break_id))
        also: list[str] = []
        said = [
            entry
            for field in FIELDS
            if field in cells
            for entry in _field(edited, (break_id, field), since, also)
        ]
        if also:
            said = _both(said, break_id, since.now, also)
            words = "said in two ways; both are in the comment: " + "; ".join(also)
            notices.append(Notice("medium", words[:1000], edited.name, break_id))
        entries += [_accepting(entry, told.get(break_id, {})) for entry in said]
    return entries, notices


def _both(said: list[Json], break_id: str, now: State, also: Sequence[str]) -> list[Json]:
    """What two people said of one field: the later words go below the comment."""
    others = [entry for entry in said if entry["field"] != "comment"]
    comment = next(
        (entry["value"] for entry in said if entry["field"] == "comment"),
        now.of(break_id, "comment"),
    )
    value = (comment + "".join(_ALSO + entry for entry in also)).strip()
    return [*others, {"break_id": break_id, "field": "comment", "value": value}]


def _accepting(entry: Json, told: Mapping[str, Any]) -> Json:
    """A status with the episode and the difference that it was said of."""
    if entry["field"] != "status":
        return entry
    accepted = told.get("difference", "") if entry["value"] == ACCEPTED else ""
    return entry | {"episode": told.get("episode", 1), "accepted": accepted}


def _field(
    edited: WorkbookEdits, cell: tuple[str, str], since: Since, also: list[str]
) -> Iterable[Json]:
    break_id, field = cell
    shown, then, now = (
        tidy(in_cell(state.of(break_id, field))) for state in (since.shown, since.then, since.now)
    )
    said = tidy(edited.rows[break_id][field])
    if field == "status":
        said = said or OPEN
        chosen = next((status for status in STATUSES if status.casefold() == said.casefold()), "")
        if not chosen:
            if said != shown and _ALSO + f"status {said}" not in since.now.of(break_id, "comment"):
                also.append(f"status {said} (none of {', '.join(STATUSES)})")
            return
        said = chosen
    # Who writes again what stood there before the engine's own words says something new.
    if said == shown or (said == now and then == shown):
        return
    if said != now != then:
        also.append(said if field == "comment" else f"{field} {said}")
        return
    yield {"break_id": break_id, "field": field, "value": said}


def status_now(
    known: State, break_id: str, found: Mapping[str, Any], day: date, accept_days: int
) -> tuple[str, str]:
    """The status of a break tonight, and why it is open again where it had been settled."""
    status = known.of(break_id, "status")
    if status == OPEN:
        return OPEN, known.breaks.get(break_id, {}).get("note", "")
    about = known.breaks[break_id]
    if int(about.get("episode", "1")) < found["episode"]:
        return OPEN, f"returned; it was {status} before"
    if status != ACCEPTED:
        return status, ""
    when = (
        f"was accepted at {about['accepted']} on {about['accepted_on']} by {about['accepted_by']}"
    )
    if about["accepted"] != found["difference"]:
        return OPEN, f"reopened: {when}"
    if day > date.fromisoformat(about["accepted_on"]) + timedelta(days=accept_days):
        return OPEN, f"acceptance expired after {accept_days} days: {when}"
    return ACCEPTED, ""
