"""One run from end to end: comments in, ledgers in, breaks out, workbook out, all of it stored."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from warehouse.query.book import OpenBook, accounts, in_little_memory
from warehouse.reconcile.breaks import engine_entries
from warehouse.reconcile.breaks.engine import Outcome, reconcile
from warehouse.reconcile.comments import intake, signoff
from warehouse.reconcile.comments.annotations import state
from warehouse.reconcile.ledger.coverage import (
    worst_first,
)
from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.known_names import KnownNames
from warehouse.reconcile.ledger.inbox import dating, inbox
from warehouse.reconcile.ledger.model import Ledger, Unused, stacked_twice
from warehouse.reconcile.ledger.reading import read_ledgers
from warehouse.reconcile.matching import snapshot
from warehouse.reconcile.matching.join import Result
from warehouse.reconcile.matching.scope import scope_of
from warehouse.reconcile.matching.snapshot import Reference
from warehouse.reconcile.matching.totals import roll_forward, tie_totals
from warehouse.reconcile.runs.result import RunInputs, evidence_of, resolved_breaks, store_result
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.store import day_settings
from warehouse.reconcile.store.input_archive import archive_inputs
from warehouse.reconcile.store.records import (
    RunResult,
)
from warehouse.reconcile.store.store import Store, write_json
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.reconcile.terms.notices import Notice
from warehouse.reconcile.workbook.content import UNMATCHED, WorkbookContent, left_out
from warehouse.reconcile.workbook.files import write_files
from warehouse.reconcile.workbook.over_time import look_back
from warehouse.reconcile.workbook.readback.verification import stray_notices

_TWICE = 20
_LEAST_MEGABYTES, _KEYS_PER_MEGABYTE = 256, 1600


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What a run left: no result where no ledger was there."""

    result: RunResult | None
    files: tuple[Path, ...]
    notices: tuple[Notice, ...]
    unused: tuple[Unused, ...] = ()


def run(source: OpenBook, store: Store, config: Config, inputs: RunInputs) -> RunFiles:
    """Reconcile one book; nothing is written before everything is read."""
    day = source.day
    workbooks, ours = intake.find_workbooks(store)
    done = store.ledgers_before(day)
    contents = inbox.find_ledgers(
        store.inbox, day, ours=ours, pause=inputs.pause, config=config, done=done
    )
    if not contents.ledgers:
        return _without_ledger(store, source, contents.unused)
    reference = snapshot.read_reference(source, config.stale_hours)
    ledger = read_ledgers(contents, reading_context(store, config, reference, day))
    scope_of(source, ledger, reference, config)  # refuses wrong names before anything is stored
    archive_inputs(store, contents.ledgers, config.digest)
    inputs.before_writing()
    intake.read_comments(store, workbooks, day, config.close, notices_of=stray_notices)
    unused = tuple(worst_first(ledger.unused))
    del contents  # the cells of a large ledger, which are not needed any more
    # Comments are read before the breaks are made, so that this very workbook shows them.
    history = engine_entries.history(store, day)
    ledger = _at_stable_level(ledger, config, history.prior)
    outcome = in_little_memory(
        source.connection,
        _megabytes(source, ledger),
        lambda: reconcile(source, ledger, config, reference, history),
    )
    _remember(store, ledger, day)
    engine_entries.store_entries(store, outcome, inputs.now)
    content = _content(
        source,
        store,
        config,
        ledger=ledger,
        outcome=outcome,
        names=reference.display_names,
        prior=history.prior,
    )
    loud = [*outcome.proposals, *(item.notice for item in unused if item.severity != "low")]
    content = replace(
        content,
        notices=worst_first([*loud, *_notices(store, source, config, outcome, ledger)]),
        unused=unused,
        evidence=evidence_of(content, config, inputs.program_version),
        over_time=look_back(store, config, content),
    )
    result = store_result(store, content, config, inputs)
    return RunFiles(result, write_files(store, content, result), tuple(content.notices), unused)


def _remember(store: Store, ledger: Ledger, day: date) -> None:
    """Store what was learned of headers, and the first day of each ledger."""
    write_json(store.mappings, ledger.remembered)
    store.add_ledgers([file.sha256 for file in ledger.sources], day)


def reading_context(
    store: Store, config: Config, reference: Reference, day: date
) -> ReadingContext:
    """Return what reading the ledgers of a day depends on."""
    known = KnownNames.of(reference.names, config.aliases)
    return ReadingContext(
        config=config,
        day=day,
        remembered=store.known_shapes(),
        known=known,
        sources=reference.sources,
    )


def _at_stable_level(ledger: Ledger, config: Config, prior: RunResult | None) -> Ledger:
    """Return a ledger at the level of the run before, where its files may be missing one by one."""
    # The id of a break is made of the level. Without this, a night without the only file that has
    # accounts would give every break of the others another id.
    if prior is None or config.level is not None or not config.files:
        return ledger
    fields = tuple(name for name in FIELDS if name in {*ledger.fields, *prior.fields})
    return replace(ledger, fields=fields)


def _content(
    source: OpenBook,
    store: Store,
    config: Config,
    *,
    ledger: Ledger,
    outcome: Outcome,
    names: Mapping[str, Mapping[str, str]],
    prior: RunResult | None,
) -> WorkbookContent:
    """Return what the workbook shows, but for notices and evidence."""
    ties = tuple(tie_totals(source.connection, outcome.fields))
    run_id = f"{source.day:%Y%m%d}-{outcome.digest[:12]}"
    now = state(store)
    return WorkbookContent(
        name=config.name,
        source=source,
        ledger=ledger,
        outcome=outcome,
        ties=ties,
        rolled=roll_forward(ties, prior.ties if prior else None, outcome.opening),
        resolved=resolved_breaks(prior, outcome, now),
        notices=(),
        evidence={},
        signatures=signoff.valid(store, outcome.digest),
        void=signoff.why_void(store, source.day, outcome.digest, outcome.breaks, ties),
        run_id=run_id,
        revision=now.revision,
        made_at=source.snapshot["finished_at"],
        names=names,
        listed=config.listed,
    )


def _megabytes(source: OpenBook, ledger: Ledger) -> int:
    """Let DuckDB spill early: the ledger of a large book stands in memory beside it."""
    larger = max(accounts(source.connection, source.day), len(ledger.lines))
    return max(_LEAST_MEGABYTES, larger // _KEYS_PER_MEGABYTE)


def _without_ledger(store: Store, source: OpenBook, unused: Iterable[Unused]) -> RunFiles:
    """Return what to say of a day for which no ledger was found."""
    left = tuple(worst_first(unused))
    days = store.days()
    last = f"; the last one that was reconciled is of {days[-1]}" if days else ""
    words = f"no ledger for {source.day} lies in the inbox{last}"
    if any(item.severity != "low" for item in left):
        words = f"no file in the inbox could be read as the ledger of {source.day}{last}"
    return RunFiles(None, (), (Notice("medium", words), *(item.notice for item in left)), left)


def _notices(
    store: Store, source: OpenBook, config: Config, outcome: Outcome, ledger: Ledger
) -> Iterator[Notice]:
    """Yield all that a reader must know, but for what was not used."""
    yield from _unlisted_notices(outcome, config, store.day_files(outcome.day).positions)
    yield from (Notice("medium", words) for words in source.notices)
    yield from intake.notices_of_day(store, source.day)
    yield from outcome.notices
    yield from _ledger_notices(ledger, source)
    yield from day_settings.changes(store, config, source.day)
    for item in store.restatements:
        if item.day == source.day:
            before = f"its run was {item.run_before}" if item.run_before else "it had no result"
            words = f"this day was closed, and was restated by {item.who}: {item.why}; {before}"
            yield Notice("high", words, item.at)


def _unlisted_notices(outcome: Outcome, config: Config, positions: Path) -> Iterator[Notice]:
    """Yield where the keys are that the workbook does not list."""
    keys = sum(outcome.counts.values())
    if keys > config.listed:
        is_many = Result.PRECISION in left_out(outcome.counts, config.listed)
        odd = "are not within the ledger's precision" if is_many else "do not match exactly"
        yield Notice(
            "medium",
            f"{keys:,} positions are more than the workbook lists (listed = {config.listed} in "
            f"recon.toml). The sheet {UNMATCHED} has those that {odd}. "
            f"{positions.name} next to the workbook has all of them",
        )


def _ledger_notices(ledger: Ledger, source: OpenBook) -> Iterator[Notice]:
    """Yield what the ledgers themselves say against being used."""
    for file in ledger.sources:
        stated = dating.day_of(file)
        if stated not in (None, source.day):
            words = (
                f"the ledger is as of {stated}, and the book is as of {source.day}. It was used "
            )
            words += f"because recon.toml says so under [late.{source.day}]"
            yield Notice("high", words, file.name)
        if not file.used:
            yield Notice("high", "the ledger has no row that could be used", file.name)
    for _, places in zip(range(_TWICE), stacked_twice(ledger), strict=False):
        yield Notice(
            "medium", "two files have the same position: their amounts were added up", places
        )
