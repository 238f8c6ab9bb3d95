"""What people wrote beside breaks: kept forever, merged three ways, never lost.

An entry is one field of one break, written by somebody at some time. The state at a revision is
what the entries up to it come to; a workbook says which revision it was made from.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from msgspec.structs import replace

from warehouse.reconcile.comments.edits import WorkbookEdits
from warehouse.reconcile.store.records import ACCEPTED, OPEN, SAID, STATUSES, Break, Entry, to_json
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.writing.cells import CELL_LIMIT, units

ENGINE = "nightbook"
REASONS = ("root_cause", "comment")  # the fields that give the reason for an acceptance
_CUT = 30_000
_ALSO = "\n-- also: "


@dataclass(frozen=True, slots=True)
class EditConflict:
    """A cell that could not be taken as it was written: what of it goes below the comment.

    `no_status` is what was written for a status and is none.
    """

    line: str
    no_status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusDecision:
    """The status that a person, or the engine, gave a break, and what it was judged by."""

    status: str = OPEN
    episode: int = 1
    accepted: str = ""
    on: str = ""
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """What is known of every break at one revision: its fields, and the decision on it."""

    revision: int
    breaks: Mapping[str, Mapping[str, str]]
    decisions: Mapping[str, StatusDecision]

    def of(self, break_id: str, field: str) -> str:
        """Return the value of a field; Open for a status that nobody set."""
        return self.breaks.get(break_id, {}).get(field, OPEN if field == "status" else "")

    def decision(self, break_id: str) -> StatusDecision:
        """Return the decision on a break; it is open where there is none."""
        return self.decisions.get(break_id, StatusDecision())


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStates:
    """The three states that a workbook which is read back is merged by.

    `shown` is what the workbook showed, `base` the same without what the engine said of the day
    that is run, `current` all that people wrote until now.
    """

    shown: State
    base: State
    current: State


def state(store: Store, revision: int | None = None, *, without: date | None = None) -> State:
    """Return what the entries come to, up to a revision or all of them.

    What the engine said of a day and took back counts no more; `without` leaves out all that it
    said of that day, which a run of that day decides anew.
    """
    breaks: dict[str, dict[str, str]] = {}
    decisions: dict[str, StatusDecision] = {}
    notes = [note for note in store.annotations if revision is None or note.no <= revision]
    undone = {number for note in notes for number in note.replaces}
    for note in notes:
        if note.no in undone or (without and note.engine_day == without.isoformat()):
            continue
        for entry in note.entries:
            if entry.is_restored:
                continue
            breaks.setdefault(entry.break_id, {})[entry.field] = entry.value
            if entry.field == "status":
                decisions[entry.break_id] = StatusDecision(
                    status=entry.value,
                    episode=1 if entry.episode is None else entry.episode,
                    accepted=entry.accepted or "",
                    on=entry.said_on or note.at[:10],
                    by=entry.said_by or note.who,
                    note=entry.note or "",
                )
    return State(notes[-1].no if notes else 0, breaks, decisions)


def comparable_text(text: str) -> str:
    """Return a text as it is compared: one kind of line end, nothing that a cell cannot keep."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(letter for letter in lines if letter >= " " or letter in "\n\t").strip()


def in_cell(text: str) -> str:
    """Return a text as its cell shows it: cut where no cell holds it; the store has the whole."""
    if units(text) <= CELL_LIMIT:
        return text
    return f"{text[: _CUT // 2]} ... (cut: the whole is in ops.annotations)"


def merge_edits(
    edited: WorkbookEdits, states: MergeStates, breaks: Mapping[str, Break], cannot_accept: str = ""
) -> tuple[list[Entry], list[Notice]]:
    """Return the entries of a workbook that were not known, and notices for its reader.

    `breaks` are those of the run that the workbook shows, whose differences are accepted.
    `cannot_accept` says why whoever saved the workbook may not accept a break.
    """
    entries: list[Entry] = []
    notices: list[Notice] = []
    for break_id, cells in edited.rows.items():
        if break_id not in breaks and break_id not in states.current.breaks:
            words = "a comment on a break that this folder does not know was kept"
            notices.append(Notice("medium", words, edited.name, break_id))
        merged = [
            _merge_field(break_id, field, cells[field], states) for field in SAID if field in cells
        ]
        written = [change for change in merged if isinstance(change, Entry)]
        written, refusal = _require_reason(written, break_id, states.current, cannot_accept)
        if refusal:
            notices.append(Notice("high", refusal, edited.name, break_id))
        conflicts = [change for change in merged if isinstance(change, EditConflict)]
        if conflicts:
            written = _with_conflicts(written, break_id, states.current, conflicts)
            conflict_words = _conflict_words(break_id, conflicts, states.current)
            notices += [
                Notice("medium", words[:1000], edited.name, break_id) for words in conflict_words
            ]
        entries += [_with_difference(entry, breaks.get(break_id)) for entry in written]
    return entries, notices


def _require_reason(
    written: list[Entry], break_id: str, current: State, cannot_accept: str
) -> tuple[list[Entry], str]:
    """Return the entries that may be taken, and why an acceptance among them may not."""
    after = {field: current.of(break_id, field) for field in SAID}
    after |= {entry.field: entry.value for entry in written}
    accepted = [entry for entry in written if (entry.field, entry.value) == ("status", ACCEPTED)]
    has_reason = any(_is_reason(after[field]) for field in REASONS)
    if after["status"] != ACCEPTED or not written or (has_reason and not accepted):
        return written, ""
    if accepted and has_reason and not cannot_accept:
        return written, ""
    others = [entry for entry in written if entry not in accepted]
    if accepted:
        why = cannot_accept or "An acceptance needs a reason: write it into Root cause or Comment"
        status = current.of(break_id, "status")
        return others, f"{break_id} was not accepted. {why}. The status is still {status}"
    cleared = [entry for entry in others if entry.field in REASONS]
    if not cleared:
        return written, ""
    return [entry for entry in others if entry not in cleared], (
        f"The reason for accepting {break_id} was not deleted. An accepted break needs a reason: "
        "set another status first"
    )


def _is_reason(text: str) -> bool:
    """Return whether a text says anything, besides what conflicts added to it."""
    return any(letter.isalnum() for letter in text.partition(_ALSO.strip())[0])


def _conflict_words(
    break_id: str, conflicts: Sequence[EditConflict], current: State
) -> Iterator[str]:
    """Yield what a reader must know of texts that could not be taken as they were written."""
    twice = [conflict.line for conflict in conflicts if not conflict.no_status]
    if twice:
        yield "said in two ways; both are in the comment: " + "; ".join(twice)
    for written in (conflict.no_status for conflict in conflicts if conflict.no_status):
        yield (
            f"{written[:60]!r} beside {break_id} is no status; there are "
            f"{', '.join(STATUSES[:-1])} and {STATUSES[-1]}. It stands in the comment, and the "
            f"status is still {current.of(break_id, 'status')}"
        )


def _merge_field(
    break_id: str, field: str, text: str, states: MergeStates
) -> Entry | EditConflict | None:
    """Merge one cell: an entry where it is new, a conflict where it is one, else None.

    The comparison is three-way, as of versions of a file:

    - the cell is what the workbook showed: nobody wrote there, whatever was written elsewhere;
    - it differs, and the state of now is still the base: it is simply new;
    - it differs, and so does the state of now: two people wrote, and both texts are kept.
    """
    shown, base, current = (
        comparable_text(in_cell(version.of(break_id, field)))
        for version in (states.shown, states.base, states.current)
    )
    value = comparable_text(text)
    if field == "status":
        value = value or OPEN
        chosen = next((name for name in STATUSES if name.casefold() == value.casefold()), "")
        if not chosen:
            line = f"status {value} (none of {', '.join(STATUSES)})"
            is_known = _ALSO + line in states.current.of(break_id, "comment")
            if value == shown or is_known:
                return None
            return EditConflict(line, no_status=value)
        value = chosen
    # The engine may have opened the break in what the workbook showed. Who writes again what stood
    # there before its words says something new, unless that is what holds now.
    if value == shown or (value == current and base == shown):
        return None
    if value != current != base:
        return EditConflict(value if field == "comment" else f"{field} {value}")
    return Entry(break_id=break_id, field=field, value=value)


def _with_conflicts(
    written: list[Entry], break_id: str, current: State, conflicts: Sequence[EditConflict]
) -> list[Entry]:
    """Put what conflicts below the comment, so that neither of two people's words is lost."""
    comment = next(
        (entry.value for entry in written if entry.field == "comment"),
        current.of(break_id, "comment"),
    )
    value = (comment + "".join(_ALSO + conflict.line for conflict in conflicts)).strip()
    others = [entry for entry in written if entry.field != "comment"]
    return [*others, Entry(break_id=break_id, field="comment", value=value)]


def _with_difference(entry: Entry, break_: Break | None) -> Entry:
    """Return a status with the episode and the difference that it was decided on."""
    if entry.field != "status":
        return entry
    is_accepted = break_ is not None and entry.value == ACCEPTED
    return replace(
        entry,
        episode=break_.episode if break_ else 1,
        accepted=break_.difference if break_ and is_accepted else "",
    )


def status_now(
    decision: StatusDecision, episode: int, difference: str, day: date, accept_days: int
) -> tuple[str, str]:
    """Return the status of a break tonight, and why it is open again where it was settled."""
    if decision.status == OPEN:
        return OPEN, decision.note
    if decision.episode < episode:
        return OPEN, f"returned; it was {decision.status} before"
    if decision.status != ACCEPTED:
        return decision.status, ""
    when = f"was accepted at {decision.accepted} on {decision.on} by {decision.by}"
    if decision.accepted != difference:
        return OPEN, f"reopened: {when}"
    # Days are counted, and no date is made, which a setting or what a file says could overflow.
    if (day - date.fromisoformat(decision.on)).days > accept_days:
        return OPEN, f"acceptance expired after {accept_days} days: {when}"
    return ACCEPTED, ""


def entries_about(store: Store, break_id: str) -> Iterator[dict[str, object]]:
    """Yield all that was written about a break, oldest first, for `history`."""
    for note in store.annotations:
        for entry in note.entries:
            if entry.break_id == break_id:
                yield {"at": note.at, "kind": "said", "who": note.who} | to_json(entry)
