"""One run from end to end: comments in, ledgers in, verdict out, workbook out, all of it kept."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from warehouse.query.book import OpenBook, accounts, in_little_memory
from warehouse.reconcile.breaks import engine_entries
from warehouse.reconcile.breaks.engine import Outcome, reconcile
from warehouse.reconcile.comments import intake, signoff
from warehouse.reconcile.comments.annotations import Since, State, merge_edits, state
from warehouse.reconcile.comments.edits import WorkbookEdits
from warehouse.reconcile.config import Config
from warehouse.reconcile.ledger import dating, inbox
from warehouse.reconcile.ledger.coverage import by_severity, sort_unused
from warehouse.reconcile.ledger.model import Ledger, Unused, stacked_twice
from warehouse.reconcile.ledger.rows import read_ledger
from warehouse.reconcile.matching import snapshot
from warehouse.reconcile.matching.totals import roll_forward, tie_totals
from warehouse.reconcile.notices import Notice
from warehouse.reconcile.result import RunInputs, evidence, store_result, write_files
from warehouse.reconcile.store import archive, day_settings
from warehouse.reconcile.store.archive import Folder, Json
from warehouse.reconcile.workbook import positions
from warehouse.reconcile.workbook.content import UNMATCHED, WorkbookContent

_TWICE = 20
_LEAST_MEGABYTES, _KEYS_PER_MEGABYTE = 256, 1600


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What a run left: no result where no ledger was there."""

    result: Json | None
    files: tuple[Path, ...]
    notices: tuple[Notice, ...]
    unused: tuple[Unused, ...] = ()


def run(source: OpenBook, folder: Folder, config: Config, given: RunInputs) -> RunFiles:
    """Reconcile one book; nothing is written before everything is read."""
    ours, paths = intake.workbooks(folder, archive.read_digests(folder))
    settled = (config, archive.read_before(folder, source.day))
    found = inbox.ledgers(folder, source.day, paths, given.pause, settled)
    if not found.ledgers:
        left = tuple(sort_unused(found.unused))
        late = _late(folder, source, left)
        return RunFiles(None, (), (late, *(item.notice for item in left)), left)
    ledger = read_ledger(found.ledgers, config, archive.mappings(folder), source.day)
    dating.require_days(ledger, config, source.day)
    _read_comments(folder, ours, source.day)
    unused = sort_unused([*found.unused, *ledger.unused])
    said = [*found.notices, *_workbook_notices(folder, source.day)]
    del found  # the cells of a large ledger, which are not needed any more
    prior = archive.before(folder, source.day)
    known = snapshot.read_reference(source, config.stale_hours)
    past = (prior, *engine_entries.human_state(folder, source.day))
    outcome = in_little_memory(
        source.connection,
        _megabytes(source, ledger),
        lambda: reconcile(source, ledger, config, known, past),
    )
    archive.write(folder.mappings, ledger.remembered)
    engine_entries.keep(folder, outcome, given.now)
    archive.add_read(folder, [source_.sha256 for source_ in ledger.sources], source.day)
    notices = by_severity(
        [
            *(item.notice for item in unused if item.severity != "low"),
            *_unlisted_notices(outcome, config),
            *(Notice("medium", words) for words in source.notices),
            *said,
            *outcome.notices,
            *_about(ledger, source),
            *day_settings.changes(folder, config, source.day),
        ]
    )
    shown = _workbook_content(
        source, folder, (ledger, outcome, known), (config, given), (notices, unused)
    )
    result = store_result(folder, shown, config, given)
    return RunFiles(result, write_files(folder, shown), tuple(notices), tuple(unused))


def _megabytes(source: OpenBook, ledger: Ledger) -> int:
    """Let DuckDB spill early: the ledger of a large book stands in memory beside it."""
    larger = max(accounts(source.connection, source.day), len(ledger.lines))
    return max(_LEAST_MEGABYTES, larger // _KEYS_PER_MEGABYTE)


def _late(folder: Folder, source: OpenBook, unused: tuple[Unused, ...]) -> Notice:
    days = archive.days(folder)
    last = f"; the last one that was reconciled is of {days[-1]}" if days else ""
    words = f"no ledger for {source.day} lies in the inbox{last}"
    if any(item.severity != "low" for item in unused):
        words = f"no file in the inbox could be read as the ledger of {source.day}{last}"
    return Notice("medium", words)


def _read_comments(folder: Folder, ours: list[WorkbookEdits], day: date) -> None:
    """Take in what people wrote, once for each version of each file, and what is to say of it."""
    for workbook in ours:
        told = archive.by_id(archive.result_of(folder, workbook.run_id))
        since = Since(
            state(folder, workbook.base_revision),
            state(folder, workbook.base_revision, without=day),
            state(folder, without=day),
        )
        entries, notices = merge_edits(workbook, since, told)
        notices += signoff.take_signatures(folder, workbook)
        if entries or notices:
            archive.add_annotations(
                folder,
                {
                    "who": workbook.who,
                    "at": workbook.at.isoformat(),
                    "source": workbook.name,
                    "sha256": workbook.sha256,
                    "run_id": workbook.run_id,
                    "base_revision": workbook.base_revision,
                    "entries": entries,
                    "read_for": day.isoformat(),
                    "notices": [asdict(notice) for notice in notices],
                },
            )
    archive.add_digests(folder, [workbook.sha256 for workbook in ours])


def _workbook_notices(folder: Folder, day: date) -> Iterator[Notice]:
    """Yield what there was to say of the workbooks read for a day, by this run or one before it."""
    for read in archive.annotations(folder):
        if read.get("read_for") == day.isoformat():
            yield from (Notice(**notice) for notice in read.get("notices", ()))


def _unlisted_notices(outcome: Outcome, config: Config) -> Iterator[Notice]:
    """What the workbook does not list is said, and where it is."""
    keys = sum(outcome.counts.values())
    if keys > config.listed:
        yield Notice(
            "medium",
            f"{keys} keys are more than the workbook lists (listed = {config.listed} in "
            f"recon.toml): the sheet {UNMATCHED} has those that do not match exactly, and "
            f"{positions.name(outcome.day)} beside the workbook has them all",
        )


def _about(ledger: Ledger, source: OpenBook) -> Iterator[Notice]:
    """What the ledgers themselves say against being used."""
    for source_ in ledger.sources:
        stated = dating.day_of(source_)
        if stated not in (None, source.day):
            told = (
                f"the ledger is as of {stated}, the snapshot as of {source.day}: it was used, for "
            )
            yield Notice(
                "high", f"{told}recon.toml says so under [late.{source.day}]", source_.name
            )
        if not source_.used:
            yield Notice("high", "the ledger has no row that could be used", source_.name)
    for place, words in zip(range(_TWICE), stacked_twice(ledger), strict=False):
        if place < _TWICE:
            yield Notice("medium", "two files have the same key: they were added up", words)


def _workbook_content(
    source: OpenBook,
    folder: Folder,
    found: tuple[Ledger, Outcome, snapshot.Reference],
    about: tuple[Config, RunInputs],
    told: tuple[list[Notice], list[Unused]],
) -> WorkbookContent:
    ledger, outcome, known = found
    notices, unused = told
    config, given = about
    prior = archive.before(folder, source.day)
    ties = tie_totals(source.connection, outcome.fields)
    run_id = f"{source.day:%Y%m%d}-{outcome.digest[:12]}"
    said = state(folder)
    signed = signoff.valid(folder, outcome.digest)
    now = {
        "day": source.day.isoformat(),
        "digest": outcome.digest,
        "breaks": [asdict(break_) for break_ in outcome.breaks],
        "ties": [asdict(tie) for tie in ties],
    }
    return WorkbookContent(
        config.name,
        source,
        ledger,
        outcome,
        ties,
        roll_forward(ties, prior),
        _resolved_breaks(prior, outcome, said),
        notices,
        evidence(source, (ledger, outcome), config, given, run_id),
        {
            role: (entry["who"], entry["comment"], signoff.with_open(entry))
            for role, entry in signed.items()
        },
        signoff.void(folder, now),
        run_id,
        said.revision,
        source.snapshot["finished_at"],
        known.shown,
        config.listed,
        unused,
    )


def _resolved_breaks(prior: Json | None, outcome: Outcome, said: State) -> list[Json]:
    """Breaks of the run before that are gone, and how they went."""
    now = {break_.id for break_ in outcome.breaks} | set(outcome.renamed.values())
    gone = [entry for id_, entry in archive.by_id(prior).items() if id_ not in now]
    return [
        break_
        | {
            "closed_on": outcome.day.isoformat(),
            "closed_because": "matched, or its key is gone from both sides",
            "status": said.of(break_["id"], "status"),
            "owner": said.of(break_["id"], "owner"),
            "comment": said.of(break_["id"], "comment"),
        }
        for break_ in gone
    ]
