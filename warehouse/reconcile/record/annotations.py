"""What people wrote beside breaks: kept forever, merged three ways, never lost.

An entry is one field of one break, written by somebody at some time. The state at a revision is
what the entries up to it come to; a workbook says which revision it was made from.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial

from msgspec.structs import replace

from warehouse.reconcile.model import (
    ACCEPTED,
    ENGINE,
    OPEN,
    REASONS,
    SAID,
    STATUSES,
    Annotation,
    Break,
    Entry,
    History,
    Notice,
    Outcome,
    State,
    StatusDecision,
    WorkbookEdits,
    breaks_by_id,
    in_cell,
)
from warehouse.reconcile.record import signatures
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.settings.config import CloseSettings

_ALSO = "\n-- also: "


@dataclass(frozen=True, slots=True)
class EditConflict:
    """A cell that could not be taken as it was written: what of it goes below the comment.

    `no_status` is what was written for a status and is none.
    """

    line: str
    no_status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStates:
    """The three states that a workbook which is read back is merged by.

    `shown` is what the workbook showed, `base` the same without what the engine said of the day
    that is run, `current` all that people wrote until now.
    """

    shown: State
    base: State
    current: State


_STATE = """
    select break_id, field, value, coalesce(episode, 1) as episode,
      coalesce(accepted, '') as accepted,
      coalesce(said_on, substr(at, 1, 10)) as "on", coalesce(said_by, who) as "by",
      coalesce(note, '') as note
    from (
      select e.*, v.who, v.at, row_number() over (
        partition by e.break_id, e.field order by e.revision desc, e.entry_no desc) as nth
      from entries as e join revisions as v on v.no = e.revision
      where v.no <= ?1 and not e.is_restored and v.engine_day is not ?2
        and v.no not in (select revision from replacements where replaced_by <= ?1)
    )
    where nth = 1
"""
_ALL = (1 << 62) - 1  # a revision above all others


def state(record: Record, revision: int | None = None, *, without: date | None = None) -> State:
    """Return the value of every field of every break, at a revision or now.

    Entries of the engine about a day that it replaced later do not count. `without` leaves out all
    entries of the engine about that day, because a run of that day decides them anew.
    """
    last = _ALL if revision is None else revision
    breaks: dict[str, dict[str, str]] = {}
    decisions: dict[str, StatusDecision] = {}
    # No day of the engine is an empty text, so that nothing is left out for it.
    for row in record.select(_STATE, last, without.isoformat() if without else ""):
        id_, field, value = (row.pop(name) for name in ("break_id", "field", "value"))
        breaks.setdefault(id_, {})[field] = value
        if field == "status":
            decisions[id_] = StatusDecision(status=value, **row)
    [newest] = record.select("select coalesce(max(no), 0) as no from revisions where no <= ?", last)
    return State(newest["no"], breaks, decisions)


def comparable_text(text: str) -> str:
    """Return a text as it is compared: one kind of line end, nothing that a cell cannot keep."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(letter for letter in lines if letter >= " " or letter in "\n\t").strip()


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


def read_comments(
    record: Record,
    workbooks: list[WorkbookEdits],
    day: date,
    settings: CloseSettings,
    *,
    notices_of: Callable[[Record, WorkbookEdits], Iterable[Notice]],
) -> None:
    """Store what people wrote, once for each version of each file, and what is to say of it.

    `notices_of` says of a workbook what people wrote where it is not read back.
    """
    for workbook in workbooks:
        states = MergeStates(
            shown=state(record, workbook.base_revision),
            base=state(record, workbook.base_revision, without=day),
            current=state(record, without=day),
        )
        result = record.result_of(workbook.run_id)
        refusal = signatures.why_not_accept(record, workbook, result, settings)
        entries, notices = merge_edits(workbook, states, breaks_by_id(result), refusal)
        notices += signatures.take_signatures(record, workbook, settings)
        notices += notices_of(record, workbook)
        if entries or notices:
            record.annotations.add(
                Annotation(
                    who=workbook.who,
                    at=workbook.at.isoformat(),
                    source=workbook.name,
                    sha256=workbook.sha256,
                    run_id=workbook.run_id,
                    base_revision=workbook.base_revision,
                    entries=tuple(entries),
                    read_for=day.isoformat(),
                    notices=tuple(notices),
                )
            )
    record.add_workbooks([workbook.sha256 for workbook in workbooks])


def notices_of_day(record: Record, day: date) -> Iterator[Notice]:
    """Yield what there was to say of the workbooks read for a day, by this run or one before it."""
    for annotation in record.annotations:
        if annotation.read_for == day.isoformat():
            yield from annotation.notices


def history(record: Record, day: date) -> History:
    """Return what was known when a run begins: the result before, and what people decided.

    The newest day may open any break again; an earlier one only says anew what it had said.
    """
    comments, in_force = state(record, without=day), state(record)
    is_newest = record.is_newest(day)
    return History(
        day=day,
        prior=record.result_before(day),
        comments=comments,
        may_open=lambda id_: is_newest or comments.of(id_, "status") != in_force.of(id_, "status"),
        latest_occurrences=partial(record.latest_occurrences, day),
    )


def store_entries(record: Record, outcome: Outcome, at: datetime) -> None:
    """Store what the engine says of the day of a run, in place of what it had said of it."""
    before = _in_force(record, outcome.day)
    old = [entry for note in before for entry in note.entries if not entry.is_restored]
    now = state(record, without=outcome.day)
    ids = None if record.is_newest(outcome.day) else {entry.break_id for entry in old}
    entries = [*_renames(outcome, now, ids), *_reopenings(outcome, now)]
    if entries == old:
        return
    restored = _restorations(old, entries, state(record), now)
    record.annotations.add(
        Annotation(
            who=ENGINE,
            at=at.isoformat(),
            source="",
            sha256="",
            run_id="",
            base_revision=now.revision,
            entries=(*restored, *entries),
            engine_day=outcome.day.isoformat(),
            replaces=tuple(note.no for note in before),
        )
    )


def _in_force(record: Record, day: date) -> list[Annotation]:
    """Return what the engine said of a day and did not take back."""
    undone = {number for note in record.annotations for number in note.replaces}
    return [
        note
        for note in record.annotations
        if note.engine_day == day.isoformat() and note.no not in undone
    ]


def _renames(outcome: Outcome, now: State, ids: set[str] | None) -> Iterator[Entry]:
    """Yield what was said under an id of before, where nobody said anything under that of now."""
    for new, old in outcome.renamed.items():
        for field in SAID:
            values = now.breaks.get(old, {})
            if (ids is not None and new not in ids) or field not in values:
                continue
            if field in now.breaks.get(new, {}):
                continue
            if field != "status":
                yield Entry(break_id=new, field=field, value=now.of(old, field))
                continue
            # Whose decision it is, of which difference and when: all that a status is judged by.
            decision = now.decision(old)
            yield Entry(
                break_id=new,
                field=field,
                value=decision.status,
                accepted=decision.accepted,
                episode=decision.episode,
                said_on=decision.on,
                said_by=decision.by,
            )


def _reopenings(outcome: Outcome, now: State) -> Iterator[Entry]:
    for break_ in outcome.breaks:
        is_opened = break_.status == OPEN != now.of(break_.id, "status")
        if is_opened and break_.id not in outcome.renamed:
            yield Entry(
                break_id=break_.id,
                field="status",
                value=OPEN,
                note=break_.note,
                episode=break_.episode,
            )


def _restorations(
    old: Sequence[Entry], new: Sequence[Entry], in_force: State, now: State
) -> Iterator[Entry]:
    """Yield what holds again where a word of the engine is taken back, for readers of the list."""
    again = {(entry.break_id, entry.field) for entry in new}
    for entry in old:
        id_, field = entry.break_id, entry.field
        if (id_, field) not in again and in_force.of(id_, field) != now.of(id_, field):
            yield Entry(
                break_id=id_,
                field=field,
                value=now.of(id_, field),
                is_restored=True,
                note="taken back: the day was run again",
                accepted=now.decision(id_).accepted,
            )
