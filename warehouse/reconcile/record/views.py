"""Facts made of a stored result, in a copy beside it as long as the result is the same file.

A result with many breaks takes long to read. The folders of such copies may be removed at any time.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from warehouse.contract.wording import count_of
from warehouse.exact import exact, fit_decimal
from warehouse.reconcile.model import (
    ACCEPTED,
    SAID,
    Break,
    Result,
    RunResult,
    TrailLine,
    breaks_by_id,
    count_ages,
    count_owners,
    moment,
    to_json,
)
from warehouse.reconcile.record.annotations import entries_about
from warehouse.reconcile.record.record import Store
from warehouse.reconcile.terms import CUSTOM, DIMENSIONS, FIELDS, NotReconciled
from warehouse.storage.layout import read_json, written_aside

FORM = 2

FileState = tuple[str, int, int]


class CachedFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts made of a stored result; `of` tells whether that is still the same file.

    `form` tells by which rules they were made. Raise `FORM` when the same result gives other facts.
    """

    of: FileState
    form: int = 1


Facts = TypeVar("Facts", bound=CachedFacts)


def from_cache(
    copy: Path, result: Path, kind: type[Facts], make: Callable[[FileState], Facts]
) -> Facts:
    """Return what is made of a result, from its copy or anew."""
    file = result.stat()
    of = (result.name, file.st_size, file.st_mtime_ns)
    with suppress(OSError, ValueError):  # it can be made again
        cached = msgspec.convert(read_json(copy), kind)
        if (cached.of, cached.form) == (of, FORM):
            return cached
    facts = structs.replace(make(of), form=FORM)
    with written_aside(copy) as target:
        text = json.dumps(to_json(facts), ensure_ascii=False)
        target.write(text.encode("utf-8", "surrogatepass"))
    return facts


class RunFacts(CachedFacts, frozen=True, kw_only=True):
    """One run in few figures.

    `ages` counts open breaks by the bands of `AGE_BANDS`, `owners` by who takes care of them (empty
    where nobody does), both with those that were not compared.
    """

    day: date
    run_id: str
    digest: str
    made_at: str
    by: str
    settings: str
    breaks: int
    open_breaks: int
    ages: tuple[int, ...]
    owners: Mapping[str, int]
    files: tuple[tuple[str, str], ...]


def facts_of_runs(store: Store, day: date) -> Iterator[RunFacts]:
    """Yield every stored run of a day, the oldest first."""
    for path in store.result_paths(day):
        yield _facts(store, path, day)


def newest_facts(store: Store, day: date) -> RunFacts | None:
    """Return the run of a day that counts."""
    path = store.newest_path(day)
    return _facts(store, path, day) if path else None


def _facts(store: Store, path: Path, day: date) -> RunFacts:
    copy = store.root / ".facts" / day.isoformat() / path.name
    return from_cache(copy, path, RunFacts, lambda of: _count(store.result_at(path), of))


def _count(result: RunResult, of: FileState) -> RunFacts:
    unsolved = result.unsolved_breaks
    return RunFacts(
        of=of,
        day=result.day,
        run_id=result.run_id,
        digest=result.digest,
        made_at=result.made_at,
        by=result.by,
        settings=result.settings_digest,
        breaks=len(result.breaks),
        open_breaks=result.open_breaks,
        ages=count_ages(unsolved, result.day),
        owners=count_owners(unsolved),
        files=tuple((source.name, source.sha256) for source in result.sources),
    )


_SAME = ("episode", "result", "source", "placement", "cause", "note", "age_days", "change")

Row = dict[str, Any]

Rows = dict[str, list[Row]]


class _PublicFacts(CachedFacts, frozen=True, kw_only=True):
    """What is published of a result."""

    fields: tuple[str, ...]
    run_id: str
    digest: str
    breaks: tuple[Break, ...]
    level: str
    compared: int
    uncovered: int | None
    pending: int
    rejected: int
    made_at: str
    by: str


def ops_rows(store: Store) -> Rows:
    """Return rows of the tables of `warehouse.contract.reconciliation`, by the table's name.

    Raises `NotReconciled` where a stored file cannot be read.
    """
    try:
        return {
            "reconciliations": list(_reconciliation_rows(store)),
            "breaks": list(_break_rows(store)),
            "annotations": list(_annotation_rows(store)),
            "signoffs": list(_signature_rows(store)),
        }
    except NotReconciled:
        raise
    except (OSError, ValueError, KeyError, ArithmeticError) as error:
        raise NotReconciled(
            f"What the reconciliation keeps under {store.root} cannot be read "
            f"({type(error).__name__}: {str(error)[:200]}). ops.breaks and the tables beside it "
            "stay as they were; the book is not touched. Restore that folder from the "
            "backup."
        ) from error


def _public_facts(store: Store, day: date) -> _PublicFacts | None:
    """Return what is published of the newest result of a day."""
    path = store.newest_path(day)
    if path is None:
        return None
    copy = store.root / ".published" / f"{day}.json"
    return from_cache(
        copy, path, _PublicFacts, lambda of: _take_public_facts(store.result_at(path), of)
    )


def _take_public_facts(result: RunResult, of: FileState) -> _PublicFacts:
    return _PublicFacts(
        of=of,
        fields=result.fields,
        run_id=result.run_id,
        digest=result.digest,
        breaks=result.breaks,
        level=result.coverage.level if result.coverage else ", ".join(result.fields),
        compared=result.position_count,
        uncovered=result.uncovered,
        pending=len(result.unsolved_breaks) - result.open_breaks,
        rejected=result.rejected,
        made_at=result.made_at,
        by=result.by,
    )


def _reconciliation_rows(store: Store) -> Iterator[Row]:
    for day in store.days():
        if (result := _public_facts(store, day)) is not None:
            yield {
                "snapshot_date": day,
                "run_id": result.run_id,
                "digest": result.digest,
                "level": result.level,
                "positions_compared": result.compared,
                "positions_not_compared": result.uncovered,
                "breaks": len(result.breaks),
                "open_breaks": sum(break_.is_open for break_ in result.breaks),
                "pending_breaks": result.pending,
                "rejected_rows": result.rejected,
                "run_at": datetime.fromisoformat(result.made_at),
                "run_by": result.by,
            }


def _break_rows(store: Store) -> Iterator[Row]:
    for day in store.days():
        if (result := _public_facts(store, day)) is not None:
            for break_ in result.breaks:
                yield _break(day, result.run_id, result.fields, break_)


def _break(day: date, run_id: str, fields: tuple[str, ...], break_: Break) -> Row:
    key = dict(zip(fields, break_.key, strict=True))
    asset = key["asset"]
    row: Row = {known.column: key.get(name) for name, known in DIMENSIONS.items()}
    row |= {name: getattr(break_, name) for name in (*_SAME, *SAID)}
    return row | {
        "snapshot_date": day,
        "break_id": break_.id,
        "run_id": run_id,
        "asset_id": asset.removesuffix(CUSTOM),
        "is_custom_asset": asset.endswith(CUSTOM),
        "ledger_text": break_.ledger,
        "snapshot_text": break_.snapshot,
        "difference": fit_decimal(exact(break_.difference)),
        "difference_text": break_.difference,
        "ledger_rows": break_.rows,
        "first_seen": break_.first_seen,
        "ever_seen": break_.ever_seen,
    }


def _annotation_rows(store: Store) -> Iterator[Row]:
    for annotation in store.annotations:
        for number, entry in enumerate(annotation.entries, 1):
            yield {
                "revision": annotation.no,
                "entry_no": number,
                "break_id": entry.break_id,
                "field": entry.field,
                "value": entry.value,
                "accepted_text": entry.accepted or "",
                "who": annotation.who,
                "said_at": datetime.fromisoformat(annotation.at),
                "source": annotation.source,
                "sha256": annotation.sha256,
            }


def _signature_rows(store: Store) -> Iterator[Row]:
    for signature in store.signatures:
        newest = _public_facts(store, signature.day)
        yield {
            "snapshot_date": signature.day,
            "signoff_no": signature.no,
            "role": signature.role,
            "who": signature.who,
            "signed_at": datetime.fromisoformat(signature.at),
            "comment": signature.comment,
            "run_id": signature.run_id,
            "digest": signature.digest,
            "open_breaks": signature.open_breaks,
            "entered_by": signature.entered_by,
            "is_valid": newest is not None and newest.digest == signature.digest,
        }


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
