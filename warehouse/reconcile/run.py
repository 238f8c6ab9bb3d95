"""Memory as a run needs it: a few large tables, and many objects that are there until its end."""

import gc
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
from msgspec import structs

from warehouse.contract.model import count_of
from warehouse.query.book import OpenBook, accounts, in_little_memory
from warehouse.reconcile import book
from warehouse.reconcile.book import KnownNames, Reference
from warehouse.reconcile.ledger import conventions, inbox
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.read import read_ledgers
from warehouse.reconcile.match.breaks import reconcile
from warehouse.reconcile.match.compare import roll_forward, tie_totals
from warehouse.reconcile.match.sides import scope_of
from warehouse.reconcile.model import (
    OPEN_BREAKS,
    SETTINGS_DIGEST,
    TIED,
    Coverage,
    Ledger,
    Notice,
    Outcome,
    ResolvedBreak,
    Result,
    RunResult,
    ShownTexts,
    State,
    Unused,
    count_ages,
    count_owners,
    in_cell,
    level_words,
    lines_of,
    pending_breaks,
    per_words,
    stacked_twice,
    totals,
    worst_first,
)
from warehouse.reconcile.record import annotations, signatures
from warehouse.reconcile.record.annotations import state
from warehouse.reconcile.record.archive import archive_inputs, settings_changes, settings_of_day
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.views import trail, trends
from warehouse.reconcile.settings.config import OWN_WORDS, Config
from warehouse.reconcile.terms import FIELDS
from warehouse.reconcile.workbook import edits, imprint
from warehouse.reconcile.workbook.content import (
    UNMATCHED,
    OverTime,
    TrendNight,
    WorkbookContent,
    left_out,
)
from warehouse.reconcile.workbook.summary import _NIGHTS
from warehouse.reconcile.workbook.verify import stray_notices
from warehouse.reconcile.workbook.write import write_day


def look_back(record: Record, config: Config, content: WorkbookContent) -> OverTime:
    """Return what was done in the month of a book, and the nights before it."""
    day = content.day
    return OverTime(
        trail=tuple(trail(record, day.replace(day=1), day, content.run_id)),
        nights=(*_nights_before(record, day), _tonight(content)),
        roles=(*config.close.roles, *(("approver",) if config.close.needs_approver else ())),
    )


def _nights_before(record: Record, day: date) -> list[TrendNight]:
    days = [earlier for earlier in record.days() if earlier < day][-(_NIGHTS - 1) :]
    return [TrendNight(*trend) for trend in trends(record, days)]


def _tonight(content: WorkbookContent) -> TrendNight:
    breaks = (*content.outcome.breaks, *content.outcome.not_compared)
    unsolved = [break_ for break_ in breaks if break_.is_open]
    return TrendNight(content.day, count_ages(unsolved, content.day), count_owners(unsolved))


@contextmanager
def for_large_tables() -> Iterator[None]:
    """Take memory for tables from the system, and look for no cycles of objects meanwhile.

    Of a million keys this saves a tenth of the CPU time (measured): the pool that Arrow has by
    itself clears pages again and again, and each look for cycles goes through all breaks.
    """
    pool, is_looking = pa.default_memory_pool(), gc.isenabled()
    pa.set_memory_pool(pa.system_memory_pool())
    gc.disable()
    try:
        yield
    finally:
        pa.set_memory_pool(pool)
        if is_looking:
            gc.enable()


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a run is given besides its data.

    `by` is who runs it; `before_writing` is called before anything is stored.
    """

    program_version: str
    now: datetime
    pause: Callable[[], None]
    by: str = ""
    before_writing: Callable[[], None] = lambda: None


def resolved_breaks(
    prior: RunResult | None, outcome: Outcome, comments: State
) -> tuple[ResolvedBreak, ...]:
    """Return the breaks of the run before that are gone, and how they went."""
    now = {break_.id for break_ in (*outcome.breaks, *outcome.not_compared)}
    now |= set(outcome.renamed.values())
    return tuple(
        ResolvedBreak(
            **structs.asdict(break_)
            | {field: comments.of(id_, field) for field in ("status", "owner", "comment")},
            closed_on=outcome.day,
            closed_because=outcome.closing_reason(break_),
        )
        for id_, break_ in pending_breaks(prior).items()
        if id_ not in now
    )


def evidence_of(content: WorkbookContent, config: Config, program_version: str) -> dict[str, str]:
    """Return what stands behind the figures, in words."""
    source, ledger, outcome = content.source, content.ledger, content.outcome
    return (
        {
            "run": content.run_id,
            "digest of the result": outcome.digest,
            "made by": f"nightbook {program_version}",
            "warehouse made by": f"nightbook {source.build['program_version']}",
            "book": source.snapshot_id,
            "read from": f"{source.snapshot['started_at']:%Y-%m-%d %H:%M:%S} UTC",
            "read until": f"{source.snapshot['finished_at']:%Y-%m-%d %H:%M:%S} UTC",
            "level": level_words(ledger),
            "tolerance": f"absolute {config.absolute}, relative {config.relative}",
            SETTINGS_DIGEST: config.digest,
        }
        | {f"SHA-256 of {OWN_WORDS}": digest for digest in config.words.get(OWN_WORDS, "").split()}
        | {f"tolerance of {asset}": str(limit) for asset, limit in config.per_asset.items()}
        | {f"SHA-256 of {file.name} {file.sheet}".strip(): file.sha256 for file in ledger.sources}
        | {result.words: str(count) for result, count in outcome.counts.items()}
    )


def store_result(
    record: Record, content: WorkbookContent, config: Config, inputs: RunInputs
) -> RunResult:
    """Store the result; what is stored is what `status` and `verify` say."""
    outcome = content.outcome
    return record.add_result(
        RunResult(
            name=config.name,
            day=content.day,
            run_id=content.run_id,
            digest=outcome.digest,
            snapshot_id=content.source.snapshot_id,
            fields=outcome.fields,
            counts={result.value: count for result, count in outcome.counts.items()},
            rejected=len(content.ledger.rejected),
            breaks=outcome.breaks,
            resolved=content.resolved,
            ties=content.ties,
            not_compared=outcome.not_compared,
            uncovered=outcome.uncovered,
            workbook=ShownTexts(
                names=_names(content),
                left_out=tuple(result.value for result in content.left_out),
                rolled=tuple(tuple(map(in_cell, line.line)) for line in content.rolled),
            ),
            coverage=Coverage(
                level=level_words(content.ledger),
                files=tuple(lines_of(content.ledger)),
                unused=tuple(content.unused),
                in_all=totals(content.unused),
                forgiven=outcome.forgiven,
            ),
            written=imprint.identity(content),
            day_settings=settings_of_day(record, config, content.day, content.run_id),
            sources=content.ledger.sources,
            notices=tuple(content.notices),
            evidence=content.evidence,
            revision=content.revision,
            made_at=inputs.now.isoformat(),
            by=inputs.by,
        )
    )


def _names(content: WorkbookContent) -> dict[str, dict[str, str]]:
    """Return the names that the workbook shows for ids, of those in it."""
    # Every key is in a tie, but for those of portfolios that the book does not have tonight.
    shown = {(tie.level, tie.of) for tie in content.ties}
    for level in content.names.keys() & set(content.outcome.fields):
        rows = content.source.connection.execute(
            f"select distinct {level} from compared where result = ?",  # noqa: S608 - a name of terms.dimensions
            [Result.NOT_DELIVERED.value],
        ).fetchall()
        shown |= {(level, id_) for (id_,) in rows}
    names: dict[str, dict[str, str]] = {}
    for level, id_ in sorted(shown):
        name = content.names.get(level, {}).get(id_, id_)
        if name != id_:
            names.setdefault(level, {})[id_] = name
    return names


_TWICE = 20

_LEAST_MEGABYTES, _KEYS_PER_MEGABYTE = 256, 1600


@dataclass(frozen=True, slots=True)
class RunFiles:
    """What a run left: no result where no ledger was there."""

    result: RunResult | None
    files: tuple[Path, ...]
    notices: tuple[Notice, ...]
    unused: tuple[Unused, ...] = ()


def reconcile_day(source: OpenBook, record: Record, config: Config, inputs: RunInputs) -> RunFiles:
    """Reconcile one book: read everything, store the result in one transaction, write the files.

    If a question is open, or the run is killed, nothing of it is stored. If it is killed after the
    transaction, the next run stores the same result in place of it and writes the files.
    """
    day = source.day
    workbooks, ours = edits.find_workbooks(record.out, record.inbox, record.known_workbooks())
    done = record.ledgers_before(day)
    contents = inbox.find_ledgers(
        record.inbox, day, ours=ours, pause=inputs.pause, config=config, done=done
    )
    if not contents.ledgers:
        return _without_ledger(record, source, contents.unused)
    reference = book.read_reference(source, config.stale_hours)
    ledger = read_ledgers(contents, reading_context(record, config, reference, day))
    scope_of(source, ledger, reference, config)  # refuses wrong names before anything is stored
    archive_inputs(record, contents.ledgers, config.digest)
    del contents  # the cells of a large ledger, which are not needed any more
    with record.transaction():
        inputs.before_writing()
        # The comments are read before the breaks are made, so that this very workbook shows them.
        annotations.read_comments(record, workbooks, day, config.close, notices_of=stray_notices)
        content = _compare_ledger(
            source, record, config, ledger=ledger, reference=reference, inputs=inputs
        )
        result = store_result(record, content, config, inputs)
    files = write_files(record, content, result)
    return RunFiles(result, files, tuple(content.notices), tuple(content.unused))


def write_files(record: Record, content: WorkbookContent, result: RunResult) -> tuple[Path, ...]:
    """Write the workbook, the breaks and all positions, and store the imprint of the workbook."""
    files = record.day_files(content.day)
    written = write_day(replace(content, written=result.written), files)
    with record.transaction():
        record.add_imprint(result.written, imprint.pack(written))
        # The run wrote this workbook, so it has no edits to read.
        record.add_workbooks([hashlib.sha256(written).hexdigest()])
    return files.workbook, files.breaks, files.positions


def _compare_ledger(
    source: OpenBook,
    record: Record,
    config: Config,
    *,
    ledger: Ledger,
    reference: Reference,
    inputs: RunInputs,
) -> WorkbookContent:
    """Compare the ledger with the book, and store what follows for comments and later ledgers."""
    unused = tuple(worst_first(ledger.unused))
    history = annotations.history(record, source.day)
    ledger = _at_stable_level(ledger, config, history.prior)
    outcome = in_little_memory(
        source.connection,
        _megabytes(source, ledger),
        lambda: reconcile(source, ledger, config, reference, history),
    )
    record.store_lessons(ledger.remembered)
    record.add_ledgers([file.sha256 for file in ledger.sources], source.day)
    annotations.store_entries(record, outcome, inputs.now)
    content = _content(
        source,
        record,
        config,
        ledger=ledger,
        outcome=outcome,
        names=reference.display_names,
        prior=history.prior,
    )
    loud = [*outcome.proposals, *(item.notice for item in unused if item.severity != "low")]
    return replace(
        content,
        notices=worst_first([*loud, *_notices(record, source, config, outcome, ledger)]),
        unused=unused,
        evidence=evidence_of(content, config, inputs.program_version),
        over_time=look_back(record, config, content),
    )


def reading_context(
    record: Record, config: Config, reference: Reference, day: date
) -> ReadingContext:
    """Return what reading the ledgers of a day depends on."""
    known = KnownNames.of(reference.names, config.aliases)
    return ReadingContext(
        config=config,
        day=day,
        remembered=record.lessons(),
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
    record: Record,
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
    now = state(record)
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
        signatures=signatures.valid(record, outcome.digest),
        void=signatures.why_void(record, source.day, outcome.digest, outcome.breaks, ties),
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


def _without_ledger(record: Record, source: OpenBook, unused: Iterable[Unused]) -> RunFiles:
    """Return what to say of a day for which no ledger was found."""
    left = tuple(worst_first(unused))
    days = record.days()
    last = f"; the last one that was reconciled is of {days[-1]}" if days else ""
    words = f"no ledger for {source.day} lies in the inbox{last}"
    if any(item.severity != "low" for item in left):
        words = f"no file in the inbox could be read as the ledger of {source.day}{last}"
    return RunFiles(None, (), (Notice("medium", words), *(item.notice for item in left)), left)


def _notices(
    record: Record, source: OpenBook, config: Config, outcome: Outcome, ledger: Ledger
) -> Iterator[Notice]:
    """Yield all that a reader must know, but for what was not used."""
    yield from _unlisted_notices(outcome, config, record.day_files(outcome.day).positions)
    yield from (Notice("medium", words) for words in source.notices)
    yield from annotations.notices_of_day(record, source.day)
    yield from outcome.notices
    yield from _ledger_notices(ledger, source)
    yield from settings_changes(record, config, source.day)
    for item in record.restatements:
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
        stated = conventions.day_of(file)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The result of a run: `exit_code` is 0 if all ties or is accepted, 3 if breaks are open.

    It is 3 as well if no position was compared; `extent` says how many of the book were.
    A run without a ledger has no `run_id` and says so in `notices`.
    """

    day: date
    run_id: str = ""
    digest: str = ""
    counts: Mapping[str, int]
    extent: str = ""
    open_breaks: int = 0
    breaks: int = 0
    rejected: int = 0
    files: tuple[Path, ...]
    notices: tuple[Notice, ...]
    exit_code: int
    unused: tuple[Unused, ...] = ()
    level: str = ""

    @property
    def words(self) -> str:
        """The result in one paragraph."""
        if not self.run_id:
            return "; ".join(": ".join(filter(None, (n.where, n.words))) for n in self.notices)
        equal = self.counts[Result.MATCHED.value] + self.counts[Result.MATCHED_ZERO.value]
        settled = (
            (self.counts[Result.TOLERANCE.value], "within tolerance"),
            (self.counts[Result.PRECISION.value], "within the ledger's precision"),
        )
        parts = [f"{equal:,} equal", *(f"{count:,} {how}" for count, how in settled if count)]
        return (
            f"{self.day}: {self.extent} "
            f"{per_words(self.level)}; {', '.join(parts)}, {count_of(self.breaks, 'break')} "
            f"({self.open_breaks:,} open), {count_of(self.rejected, 'row')} rejected; "
            f"not used: {totals(self.unused) or 'nothing'}."
        )


def summary_of(day: date, left: RunFiles) -> RunSummary:
    """Return what a run of a day came to, with or without a ledger."""
    return (
        _summary_without_ledger(day, left)
        if left.result is None
        else _summary_with_ledger(left.result, left)
    )


def _summary_without_ledger(day: date, left: RunFiles) -> RunSummary:
    is_quiet = all(item.severity == "low" for item in left.unused)
    return RunSummary(
        day=day,
        counts={},
        files=(),
        notices=left.notices,
        exit_code=TIED if is_quiet else OPEN_BREAKS,
        unused=left.unused,
    )


def _summary_with_ledger(result: RunResult, left: RunFiles) -> RunSummary:
    return RunSummary(
        day=result.day,
        run_id=result.run_id,
        digest=result.digest,
        counts=result.counts,
        extent=result.extent,
        open_breaks=result.open_breaks,
        breaks=len(result.breaks),
        rejected=result.rejected,
        files=left.files,
        notices=left.notices,
        exit_code=result.exit_code,
        unused=left.unused,
        level=result.coverage.level if result.coverage else "",
    )
