"""Entries about breaks, from people and from the engine. Entries are merged but never deleted.

An entry sets one field of one break, by one author at one time. The entries up to a revision
determine the state at that revision. A workbook contains the number of the revision that it shows.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from warehouse.reconcile.model import (
    ACCEPTED,
    DERIVED,
    ENGINE,
    NEEDS_SECOND,
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
from warehouse.spreadsheet.reading.text import fold

NOT_RECORDED = "not recorded"

_ALSO = "\n-- also: "

_STATE = Path(__file__).with_name("state.sql").read_text("utf-8")
_ACCEPTANCES = Path(__file__).with_name("acceptances.sql").read_text("utf-8")

_ALL = (1 << 62) - 1  # a number that is higher than any revision number


@dataclass(frozen=True, slots=True)
class EditConflict:
    """An edited cell whose content could not be stored in the cell's own field.

    Instead, `line` is added to the comment. `invalid_status` is the content of a cell whose status
    is invalid.
    """

    line: str
    invalid_status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeStates:
    """The three states needed to merge people's edits from a workbook.

    `shown` is the state in the workbook. `base` is the same state, and `current` is the present
    state, but both lack the engine's entries about the day of the run.

    `derived` has the statuses that the limits gave to breaks of the workbook's run. `is_latest` is
    false if a later run has replaced the result, so the workbook may show other statuses.
    """

    shown: State
    base: State
    current: State
    derived: Mapping[str, str]
    is_latest: bool


def state(record: Record, revision: int | None = None, *, without: date | None = None) -> State:
    """Return the field values of all breaks, at a revision or now.

    Engine entries that were later replaced do not count. `without` is a day whose engine entries
    are left out, because a run for that day creates them.
    """
    last = _ALL if revision is None else revision
    breaks: dict[str, dict[str, str]] = {}
    decisions: dict[str, StatusDecision] = {}
    # An empty string does not match any `engine_day`, so if `without` is None, no entry is left
    # out.
    for row in record.select(_STATE, last, without.isoformat() if without else ""):
        id_, field, value = (row.pop(name) for name in ("break_id", "field", "value"))
        breaks.setdefault(id_, {})[field] = value
        if field == "status":
            decisions[id_] = StatusDecision(status=value, **row)
    [newest] = record.select("select coalesce(max(no), 0) as no from revisions where no <= ?", last)
    return State(newest["no"], breaks, decisions)


def acceptors(
    record: Record, break_id: str, revision: int | None = None, *, without: date | None = None
) -> list[str]:
    """Return the people who accepted a break's current difference, in order of their names.

    An acceptance in a file that does not say who saved it does not count. `revision` and `without`
    are as for `state`.
    """
    last, day = _ALL if revision is None else revision, without.isoformat() if without else ""
    rows = record.select(_ACCEPTANCES, break_id, last, day)
    people = {fold(row["who"]): row["who"] for row in rows}
    return [people[name] for name in sorted(people) if name != fold(NOT_RECORDED)]


def comparable_text(text: str) -> str:
    """Normalize line endings and remove control characters, so that strings can be compared."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "".join(char for char in lines if char >= " " or char in "\n\t").strip()


def merge_edits(
    edited: WorkbookEdits, states: MergeStates, breaks: Mapping[str, Break], cannot_accept: str = ""
) -> tuple[list[Entry], list[Notice]]:
    """Return the new entries from a workbook, and notices about them.

    `breaks` contains the breaks of the workbook's run, which provide the accepted differences. If
    the user who saved the workbook may not accept breaks, `cannot_accept` is the reason.
    """
    entries: list[Entry] = []
    notices: list[Notice] = []

    def notify(severity: str, words: str) -> None:
        notices.append(Notice(severity, words[:1000], edited.name, break_id))

    for break_id, cells in edited.rows.items():
        if break_id not in breaks and break_id not in states.current.breaks:
            notify("medium", "no result in this folder has this break, but its comment was stored")
        fields = (field for field in SAID if field in cells)
        merged = [_merge_field(break_id, field, cells[field], states) for field in fields]
        written = [change for change in merged if isinstance(change, Entry)]
        written, refusal = _require_reason(written, break_id, states.current, cannot_accept)
        if refusal:
            notify("high", refusal)
        conflicts = [change for change in merged if isinstance(change, EditConflict)]
        is_second = states.derived.get(break_id) == NEEDS_SECOND and not states.is_latest
        if is_second and comparable_text(cells.get("status", "")) == ACCEPTED:
            notify(
                "medium",
                "this is an earlier workbook: accept a break that needs a second "
                "person in the newest workbook",
            )
        if conflicts:
            written = _with_conflicts(written, break_id, states.current, conflicts)
            for words in _conflict_words(break_id, conflicts):
                notify("medium", words)
        entries += [_with_difference(entry, breaks.get(break_id)) for entry in written]
    return entries, notices


def store_edits(
    record: Record,
    workbooks: list[WorkbookEdits],
    day: date,
    settings: CloseSettings,
    *,
    notices_of: Callable[[Record, WorkbookEdits], Iterable[Notice]],
) -> None:
    """Store entries, signatures and notices from workbooks.

    `notices_of` returns notices about text in cells that are not read.
    """
    for workbook in workbooks:
        result = record.result_of(workbook.run_id)
        breaks = breaks_by_id(result)
        statuses = {id_: item.status for id_, item in breaks.items() if item.status in DERIVED}
        states = MergeStates(
            shown=state(record, workbook.base_revision),
            base=state(record, workbook.base_revision, without=day),
            current=state(record, without=day),
            derived=statuses,
            is_latest=result is not None and result.written == workbook.written,
        )
        refusal = signatures.why_not_accept(record, workbook, result, settings)
        entries, notices = merge_edits(workbook, states, breaks, refusal)
        notices += signatures.take_signatures(record, workbook, entries, settings)
        notices += notices_of(record, workbook)
        if entries or notices:
            record.annotations.add(
                Annotation(
                    # A file that does not say who saved it has its own name as the author.
                    who=NOT_RECORDED if workbook.who == workbook.name else workbook.who,
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
    """Yield the notices about workbooks that were read by runs for this day."""
    for annotation in record.annotations:
        if annotation.read_for == day.isoformat():
            yield from annotation.notices


def history(record: Record, day: date) -> History:
    """Return the inputs of a day's run: the previous result and people's decisions.

    A run for the latest day may reopen any break. A run for an earlier day only repeats its earlier
    entries.
    """
    comments, in_force = state(record, without=day), state(record)
    is_newest = record.is_newest(day)
    return History(
        day=day,
        prior=record.result_before(day),
        comments=comments,
        may_open=lambda id_: is_newest or comments.of(id_, "status") != in_force.of(id_, "status"),
        latest_occurrences=partial(record.latest_occurrences, day),
        acceptors=partial(acceptors, record, without=day),
    )


def store_entries(record: Record, outcome: Outcome, at: datetime) -> None:
    """Replace the engine's earlier entries for a run's day with its new entries."""
    day = outcome.day.isoformat()
    replaced = {number for note in record.annotations for number in note.replaces}
    before = [
        note for note in record.annotations if note.engine_day == day and note.no not in replaced
    ]
    old = [entry for note in before for entry in note.entries if not entry.is_restored]
    now = state(record, without=outcome.day)
    ids = None if record.is_newest(outcome.day) else {entry.break_id for entry in old}
    people = partial(acceptors, record, without=outcome.day)
    entries = [*_renames(outcome, now, ids, people), *_reopenings(outcome, now)]
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
            engine_day=day,
            replaces=tuple(note.no for note in before),
        )
    )


def _require_reason(
    written: list[Entry], break_id: str, current: State, cannot_accept: str
) -> tuple[list[Entry], str]:
    """Return the entries that may be stored, and the reason if some were rejected."""
    after = {field: current.of(break_id, field) for field in SAID}
    after |= {entry.field: entry.value for entry in written}
    accepted = [entry for entry in written if (entry.field, entry.value) == ("status", ACCEPTED)]
    has_reason = any(_is_reason(after[field]) for field in REASONS)
    others = [entry for entry in written if entry not in accepted]
    if accepted and (cannot_accept or not has_reason):
        why = cannot_accept or "An acceptance needs a reason: write it in Root cause or Comment"
        return others, f"{break_id} was not accepted. {why}. Its status did not change"
    remaining = [entry for entry in written if entry.field not in REASONS]
    if after["status"] == ACCEPTED and not has_reason and len(remaining) < len(written):
        return remaining, (
            f"The reason for accepting {break_id} was not deleted. An accepted break needs a "
            "reason: set a different status first"
        )
    return written, ""


def _is_reason(text: str) -> bool:
    """Return whether a string contains a letter or digit, ignoring lines added by conflicts."""
    return any(char.isalnum() for char in text.partition(_ALSO.strip())[0])


def _conflict_words(break_id: str, conflicts: Sequence[EditConflict]) -> Iterator[str]:
    """Yield messages about cells whose content could not be stored in their own field."""
    twice = [conflict.line for conflict in conflicts if not conflict.invalid_status]
    if twice:
        yield "two people wrote different texts, and the comment contains both: " + "; ".join(twice)
    for conflict in conflicts:
        if conflict.invalid_status:
            yield (
                f"{conflict.invalid_status[:60]!r} next to {break_id} is not a status. Write "
                f"{', '.join(STATUSES[:-1])} or {STATUSES[-1]}. The text was added to the "
                "comment, and the status did not change"
            )


def _merge_field(
    break_id: str, field: str, text: str, states: MergeStates
) -> Entry | EditConflict | None:
    """Merge one cell. Return a new entry, a conflict, or None if the cell is unchanged.

    This is a three-way merge, as for versions of a file:

    - If the cell still contains the text that the workbook showed, nobody edited it.
    - If the cell differs, and the current state still equals the base, the text is new.
    - If the cell and the current state both differ, two people edited it. Both texts are kept.
    """
    shown, base, current = (
        comparable_text(in_cell(version.of(break_id, field)))
        for version in (states.shown, states.base, states.current)
    )
    value = comparable_text(text)
    if field == "status":
        value = value or OPEN
        derived = states.derived.get(break_id, "")
        if derived and value in DERIVED:
            return None
        shown = derived if derived and states.is_latest else shown
        chosen = next((name for name in STATUSES if name.casefold() == value.casefold()), "")
        if not chosen:
            line = f"status {value} (none of {', '.join(STATUSES)})"
            is_known = _ALSO + line in states.current.of(break_id, "comment")
            if value == shown or is_known:
                return None
            return EditConflict(line, invalid_status=value)
        value = chosen
    # The cell is unchanged if it contains the text that the workbook showed, or if the same edit
    # was made before. But if the engine had reset the status to Open (so `base` differs from
    # `shown`), restoring the earlier status is a new entry.
    if value == shown or (value == current and base == shown):
        return None
    if value != current != base:
        return EditConflict(value if field == "comment" else f"{field} {value}")
    return Entry(break_id=break_id, field=field, value=value)


def _with_conflicts(
    written: list[Entry], break_id: str, current: State, conflicts: Sequence[EditConflict]
) -> list[Entry]:
    """Add the conflicts to the comment, so that both people's edits are kept."""
    comment = next(
        (entry.value for entry in written if entry.field == "comment"),
        current.of(break_id, "comment"),
    )
    value = (comment + "".join(_ALSO + conflict.line for conflict in conflicts)).strip()
    others = [entry for entry in written if entry.field != "comment"]
    return [*others, Entry(break_id=break_id, field="comment", value=value)]


def _with_difference(entry: Entry, break_: Break | None) -> Entry:
    """Add the break's episode and its accepted difference to a status entry."""
    if entry.field != "status":
        return entry
    is_accepted = break_ is not None and entry.value == ACCEPTED
    return replace(
        entry,
        episode=break_.episode if break_ else 1,
        accepted=break_.difference if break_ and is_accepted else "",
    )


def _renames(
    outcome: Outcome, now: State, ids: set[str] | None, people: Callable[[str], Sequence[str]]
) -> Iterator[Entry]:
    """Copy a break's entries to its new ID, except for fields that already have an entry.

    If `ids` is not None, copy entries only to these new IDs.
    """
    for new, old in outcome.renamed.items():
        written = now.breaks.get(old, {}).keys() - now.breaks.get(new, {}).keys()
        for field in SAID if ids is None or new in ids else ():
            if field == "status" and field in written:
                decision = now.decision(old)
                others = [who for who in people(old) if who != decision.by]
                for who in (*others, decision.by):
                    yield Entry(
                        break_id=new,
                        field=field,
                        value=decision.status,
                        accepted=decision.accepted,
                        episode=decision.episode,
                        said_on=decision.on,
                        said_by=who,
                    )
            elif field in written:
                yield Entry(break_id=new, field=field, value=now.of(old, field))


def _reopenings(outcome: Outcome, now: State) -> Iterator[Entry]:
    """Yield a status entry for each break that this run reopened."""
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
    """Yield an entry with the current value for each field whose engine entry was withdrawn."""
    repeated = {(entry.break_id, entry.field) for entry in new}
    for entry in old:
        id_, field = entry.break_id, entry.field
        if (id_, field) not in repeated and in_force.of(id_, field) != now.of(id_, field):
            yield Entry(
                break_id=id_,
                field=field,
                value=now.of(id_, field),
                is_restored=True,
                note="withdrawn: the day was rerun",
                accepted=now.decision(id_).accepted,
            )
