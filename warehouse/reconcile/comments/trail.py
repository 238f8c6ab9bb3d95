"""The audit trail: who said, signed, ran, closed and restated what, when, and from which file."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from warehouse.contract.wording import count_of
from warehouse.reconcile.comments.annotations import entries_about
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.store.records import ACCEPTED, breaks_by_id, to_json
from warehouse.reconcile.store.run_facts import RunFacts, facts_of_runs
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.reconcile.terms.errors import NotReconciled

TITLES = ("When, UTC", "Who", "Action", "Subject", "Details", "File", "SHA-256 of the file")


class TrailLine(NamedTuple):
    """One thing that somebody did: `about` is a break, a day or a month."""

    at: str
    who: str
    what: str
    about: str
    words: str
    file: str = ""
    sha256: str = ""


def trail(store: Store, first: date, last: date, now: str = "") -> list[TrailLine]:
    """Return what was done from the first of some days on, and the runs until the last of them.

    `now` is the run that is at work, whose own line would never stand still.
    """
    since = first.isoformat()
    lines = [
        *_words(store, since),
        *_signatures(store, first),
        *_runs(store, first, last, now),
        *_restatements(store, first, last),
        *_closings(store, first, last),
    ]
    return sorted(lines, key=lambda line: (line.at, line.about, line.what))


def moment(at: str) -> str:
    """Return a time of ISO 8601 in UTC, to the second."""
    moment_ = datetime.fromisoformat(at)
    return f"{moment_.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def _words(store: Store, since: str) -> Iterator[TrailLine]:
    for note in store.annotations:
        if note.at[:10] < since and (note.read_for or note.engine_day or "") < since:
            continue
        for entry in note.entries:
            is_accepted = entry.field == "status" and entry.value == ACCEPTED
            value = f"{entry.value} (of {entry.accepted})" if is_accepted else entry.value
            what = "acceptance" if is_accepted else entry.field.replace("_", " ")
            yield TrailLine(
                moment(note.at), note.who, what, entry.break_id, value, note.source, note.sha256
            )
        for notice in note.notices:
            about = (notice.raw or notice.where, notice.words)
            yield TrailLine(moment(note.at), note.who, "notice", *about, note.source, note.sha256)


def _signatures(store: Store, first: date) -> Iterator[TrailLine]:
    for signature in store.signatures:
        if signature.day >= first:
            yield TrailLine(
                moment(signature.at),
                signature.who,
                f"signature as {signature.role}",
                signature.day.isoformat(),
                "; ".join(filter(None, (signature.words, signature.comment, signature.run_id))),
                signature.source,
                signature.sha256,
            )


def _runs(store: Store, first: date, last: date, now: str) -> Iterator[TrailLine]:
    settings = ""
    for day in store.days():
        if not first <= day <= last:
            continue
        runs = list(facts_of_runs(store, day))
        if runs and runs[-1].run_id == now:
            runs.pop()
        for number, run in enumerate(runs):
            yield _run(run, "rerun" if number else "run")
            if settings and run.settings != settings:
                words = f"recon.toml is {run.settings}; it was {settings}"
                yield TrailLine(moment(run.made_at), run.by, "settings", str(run.day), words)
            settings = run.settings


def _run(run: RunFacts, what: str) -> TrailLine:
    words = f"run {run.run_id}: {count_of(run.breaks, 'break')}, {run.open_breaks} open"
    names, digests = (
        (", ".join(part) for part in zip(*dict.fromkeys(run.files), strict=True))
        if run.files
        else ("", "")
    )
    return TrailLine(moment(run.made_at), run.by, what, str(run.day), words, names, digests)


def _restatements(store: Store, first: date, last: date) -> Iterator[TrailLine]:
    for item in store.restatements:
        if first <= item.day <= last:
            words = f"{item.why} (before: run {item.run_before or 'none'})"
            yield TrailLine(moment(item.at), item.who, "restatement", str(item.day), words)


def _closings(store: Store, first: date, last: date) -> Iterator[TrailLine]:
    for item in store.closings:
        if f"{first:%Y-%m}" <= item.month <= f"{last:%Y-%m}":
            words = f"version {item.version} through {item.through}: {item.why}"
            yield TrailLine(
                moment(item.at), item.who, "close", item.month, words, item.pack, item.sha256
            )


def break_history(store: Store, break_id: str) -> tuple[dict[str, Any], ...]:
    """Return every day of a break, all that was written about it and who signed it, oldest first.

    Raises `NotReconciled` where nothing is known of it.
    """
    lines: list[dict[str, Any]] = []
    for day in store.days():
        break_ = breaks_by_id(store.result(day)).get(break_id)
        if break_:
            lines.append({"at": day.isoformat(), "kind": "break", **to_json(break_)})
    days = {line["at"] for line in lines}
    lines += entries_about(store, break_id)
    lines += [
        {"kind": "signed", "at": signature.at, "words": signature.words}
        for signature in store.signatures
        if signature.day.isoformat() in days
    ]
    if not lines:
        raise NotReconciled(
            f"No break has ever had the ID {break_id!r}. `nightbook reconcile status` lists the "
            "breaks of the newest result. Nothing was changed."
        )
    return tuple(sorted(lines, key=lambda line: (line["at"], line["kind"])))


def history_lines(entries: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the history of a break as lines for a terminal: when, who or what, and the words."""
    newest = next((entry for entry in reversed(entries) if entry["kind"] == "break"), None)
    if newest:
        names = (newest["names"][name] for name in FIELDS if name in newest["names"])
        yield f"{newest['id']}  {' / '.join(names)}"
    rows = [_history_row(entry) for entry in entries]
    widths = [max(len(row[place]) for row in rows) for place in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, (*widths, 0), strict=True))
        yield f"  {'  '.join(cells)}".rstrip()


def _history_row(entry: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Return when something was, who or what it was of, what it was, and the words."""
    at = moment(entry["at"]) if "T" in entry["at"] else entry["at"]
    if entry["kind"] == "signed":
        return at, "signature", "", entry["words"]
    if entry["kind"] == "said":
        return at, entry["who"], entry["field"].replace("_", " "), " ".join(entry["value"].split())
    sides = (("ledger", entry["ledger"]), ("book", entry["snapshot"]))
    amounts = ", ".join(f"{side} {amount}" for side, amount in sides if amount is not None)
    age = f"{entry['change']}, {count_of(entry['age_days'], 'day')} old"
    words = f"{amounts}, difference {entry['difference']}; {age}"
    return at, Result(entry["result"]).words, entry["status"], words.removeprefix(", ")
