"""One reconciliation from start to finish. Only this module combines all steps."""

import gc
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
from msgspec import structs

from warehouse.query.book import OpenBook, count_rows, in_little_memory
from warehouse.reconcile import book
from warehouse.reconcile.book import Reference
from warehouse.reconcile.ledger import inbox
from warehouse.reconcile.ledger.days import day_of
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.read import read_ledgers
from warehouse.reconcile.match.breaks import reconcile
from warehouse.reconcile.match.compare import roll_forward, tie_totals
from warehouse.reconcile.match.inputs import MatchInputs
from warehouse.reconcile.match.sides import scope_of
from warehouse.reconcile.model import (
    DERIVED,
    FINGERPRINT,
    OPEN_BREAKS,
    SETTINGS_DIGEST,
    TIED,
    Coverage,
    Ledger,
    Notice,
    Outcome,
    ResolvedBreak,
    Restatement,
    Result,
    RollForwardLine,
    Run,
    ShownTexts,
    State,
    TrendNight,
    Unused,
    count_ages,
    describe_levels,
    in_cell,
    lines_of,
    moment,
    pending_breaks,
    stacked_twice,
    totals,
    worst_first,
)
from warehouse.reconcile.movement import Movement, require_own
from warehouse.reconcile.record import annotations, signatures
from warehouse.reconcile.record.archive import archive_inputs, settings_changes, settings_of_day
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.views import trail, trends
from warehouse.reconcile.settings.config import OWN_WORDS, Config
from warehouse.reconcile.terms import FIELDS
from warehouse.reconcile.workbook import edits, imprint
from warehouse.reconcile.workbook.content import (
    UNMATCHED,
    OverTime,
    WorkbookContent,
    left_out,
)
from warehouse.reconcile.workbook.strays import stray_notices
from warehouse.reconcile.workbook.summary import TREND_NIGHTS
from warehouse.reconcile.workbook.write import write_day

_DUPLICATE_NOTICES = 20
_MIN_MEGABYTES, _KEYS_PER_MEGABYTE = 256, 1600


@contextmanager
def for_large_tables() -> Iterator[None]:
    """Use the system's memory allocator for tables, and pause Python's garbage collection.

    With a million keys, this saves 10 % of the CPU time (measured), because Arrow's own allocator
    clears pages repeatedly and each garbage collection visits all breaks.
    """
    pool, is_collecting = pa.default_memory_pool(), gc.isenabled()
    pa.set_memory_pool(pa.system_memory_pool())
    gc.disable()
    try:
        yield
    finally:
        pa.set_memory_pool(pool)
        if is_collecting:
            gc.enable()


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The program version, the time and the user of a run.

    `pause` waits before a ledger is checked for changes. `by` is the user. For a closed day,
    `restatement` is stored before the result. `movement` is the expected result of a movement
    proof.
    """

    program_version: str
    now: datetime
    pause: Callable[[], None]
    by: str = ""
    restatement: Restatement | None = None
    movement: Movement | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """A day's stored run and the files that it wrote. `run` is None if there was no ledger."""

    day: date
    run: Run | None = None
    files: tuple[Path, ...] = ()
    notices: tuple[Notice, ...]
    unused: tuple[Unused, ...]

    @property
    def run_id(self) -> str:
        """The ID of the run, or an empty string if there was no ledger."""
        return self.run.run_id if self.run else ""

    @property
    def exit_code(self) -> int:
        """The exit code. Without a ledger, it is 3 if a file in the inbox could not be used."""
        if self.run:
            return self.run.exit_code
        return TIED if all(item.severity == "low" for item in self.unused) else OPEN_BREAKS

    @property
    def message(self) -> str:
        """A summary of the result, in one paragraph."""
        if self.run:
            return self.run.message
        return "; ".join(": ".join(filter(None, (n.location, n.message))) for n in self.notices)


def reconcile_day(source: OpenBook, record: Record, config: Config, inputs: RunInputs) -> RunFiles:
    """Reconcile one book: read everything, store the result in one transaction, write the files.

    If a question is open, or the run is killed, nothing is stored. If the run is killed after the
    transaction, the next run replaces the stored result with the same one and writes the files.
    """
    day = source.day
    workbooks, ours = edits.find_workbooks(record.out, record.inbox, record.known_workbooks())
    done = record.ledgers_before(day)
    contents = inbox.find_ledgers(
        record.inbox, day, ours=ours, pause=inputs.pause, config=config, done=done
    )
    if not contents.ledgers:
        return _without_ledger(record, day, contents.unused)
    reference = book.read_reference(source, config)
    if inputs.movement:
        require_own(contents.ledgers, record, inputs.movement)
        # A portfolio that left the book is a break, because only a transaction explains it.
        reference = replace(reference, delivered=frozenset(reference.names["portfolio"]))
    ledger = read_ledgers(contents, reading_context(record, config, reference, day))
    given = MatchInputs(source=source, ledger=ledger, config=config, reference=reference)
    scope_of(given)  # This raises an error for an unknown name before anything is stored.
    archive_inputs(record, contents.ledgers, config.digest)
    del contents  # Free the memory of a large ledger's cells, because they are no longer needed.
    with record.transaction():
        if inputs.restatement:
            record.restatements.add(inputs.restatement)
        # Read comments before building the breaks, so that the new workbook shows the comments.
        annotations.store_edits(record, workbooks, day, config.close, notices_of=stray_notices)
        content = _compare_ledger(record, given, inputs)
        run = record.add_result(content.run)
    files = write_files(record, replace(content, run=run))
    return RunFiles(day=day, run=run, files=files, notices=run.notices, unused=run.coverage.unused)


def reading_context(
    record: Record, config: Config, reference: Reference, day: date
) -> ReadingContext:
    """Collect everything needed to read a day's ledgers."""
    return ReadingContext(
        config=config,
        day=day,
        remembered=record.lessons(),
        known=reference.known_names(config.aliases),
    )


def _without_ledger(record: Record, day: date, unused: Iterable[Unused]) -> RunFiles:
    """Return the result for a day without a ledger."""
    left = tuple(worst_first(unused))
    days = record.days()
    last = f"; the last reconciled day is {days[-1]}" if days else ""
    message = f"the inbox has no ledger for {day}{last}"
    if any(item.severity != "low" for item in left):
        message = f"no file in the inbox could be read as the ledger for {day}{last}"
    notices = (Notice("medium", message), *(item.notice for item in left))
    return RunFiles(day=day, notices=notices, unused=left)


def write_files(record: Record, content: WorkbookContent) -> tuple[Path, ...]:
    """Write the workbook, the breaks and all positions, and store the workbook's cells."""
    files = record.day_files(content.run.day)
    written = write_day(content, files)
    with record.transaction():
        record.add_imprint(content.run.written, imprint.pack(written))
        # Mark the workbook as read, because nobody has edited it yet.
        record.add_workbooks([hashlib.sha256(written).hexdigest()])
    return files.workbook, files.breaks, files.positions


def _compare_ledger(record: Record, given: MatchInputs, inputs: RunInputs) -> WorkbookContent:
    """Compare the ledger with the book.

    Also store the decisions on how to read ledgers, the ledgers' digests, and nightbook's own
    entries.
    """
    history = annotations.history(record, given.source.day)
    given = _at_stable_level(given, history.prior)
    megabytes = _megabytes(given)
    outcome = in_little_memory(given.connection, megabytes, lambda: reconcile(given, history))
    record.store_lessons(given.ledger.remembered)
    record.add_ledgers([file.sha256 for file in given.ledger.sources], given.source.day)
    annotations.store_entries(record, outcome, inputs.now)
    run = _run_of(record, given, outcome, inputs, history.prior)
    rolled = roll_forward(run.ties, history.prior, outcome.opening)
    content = WorkbookContent(
        run=structs.replace(run, workbook=_shown_texts(given, run, rolled)),
        source=given.source,
        aliases=outcome.aliases,
        break_ids=outcome.ids,
        rolled=rolled,
        signatures=signatures.valid(record, outcome.digest),
        void=signatures.why_void(record, run),
        names=given.reference.display_names,
        listed=given.config.listed,
        over_time=_over_time(record, given.config, run),
    )
    return replace(content, run=structs.replace(content.run, written=imprint.identity(content)))


def _at_stable_level(given: MatchInputs, prior: Run | None) -> MatchInputs:
    """Add the previous run's fields to the ledger, in case a file is missing this time."""
    # A break's ID depends on the level. If the only file with accounts is missing one night, a less
    # detailed level would change the IDs of all breaks in the other files.
    if prior is None or given.config.level is not None or not given.config.files:
        return given
    fields = tuple(name for name in FIELDS if name in {*given.fields, *prior.fields})
    return replace(given, ledger=replace(given.ledger, fields=fields))


def _megabytes(given: MatchInputs) -> int:
    """Return DuckDB's memory limit in megabytes. It is low, because the ledger is in memory too."""
    accounts = count_rows(given.connection, "accounts", given.source.day)
    return max(_MIN_MEGABYTES, max(accounts, len(given.ledger.lines)) // _KEYS_PER_MEGABYTE)


def _resolved_breaks(
    prior: Run | None, outcome: Outcome, comments: State
) -> tuple[ResolvedBreak, ...]:
    """Return the previous run's breaks that no longer exist, each with the reason."""
    now = {break_.id for break_ in (*outcome.breaks, *outcome.not_compared)}
    now |= set(outcome.renamed.values())
    return tuple(
        ResolvedBreak(
            **structs.asdict(break_)
            | {field: comments.of(id_, field) for field in ("status", "owner", "comment")}
            | ({"status": break_.status} if break_.status in DERIVED else {}),
            closed_on=outcome.day,
            closed_because=outcome.closing_reason(break_),
        )
        for id_, break_ in pending_breaks(prior).items()
        if id_ not in now
    )


def _evidence(given: MatchInputs, outcome: Outcome, program_version: str) -> dict[str, str]:
    """Return the evidence for a result, by label: digests, versions, settings and counts."""
    source, ledger, config = given.source, given.ledger, given.config
    return (
        {
            "run": f"{outcome.day:%Y%m%d}-{outcome.digest[:12]}",
            "SHA-256 of the result": outcome.digest,
            "reconciled by": f"nightbook {program_version}",
            "book written by": f"nightbook {source.build['program_version']}",
            "book": source.snapshot_id,
            "started reading the API": f"{source.snapshot['started_at']:%Y-%m-%d %H:%M:%S} UTC",
            "finished reading the API": f"{source.snapshot['finished_at']:%Y-%m-%d %H:%M:%S} UTC",
            FINGERPRINT: source.build.get("fingerprint") or "none",
            "level": describe_levels(ledger),
            "tolerance": f"absolute {config.absolute}, relative {config.relative}",
            SETTINGS_DIGEST: config.digest,
        }
        | ({"materiality": config.materiality.description} if config.materiality else {})
        | {f"SHA-256 of {OWN_WORDS}": digest for digest in config.words.get(OWN_WORDS, "").split()}
        | {f"tolerance of {asset}": str(limit) for asset, limit in config.per_asset.items()}
        | {f"SHA-256 of the file {file.name}": file.sha256 for file in ledger.sources}
        | {result.label: str(count) for result, count in outcome.counts.items()}
    )


def _over_time(record: Record, config: Config, run: Run) -> OverTime:
    """Return the month's audit trail, the open breaks on recent nights, and the signing roles."""
    day, unsolved = run.day, run.unsolved_breaks
    days = [earlier for earlier in record.days() if earlier < day][-(TREND_NIGHTS - 1) :]
    owners = dict(Counter(break_.owner.strip() for break_ in unsolved))
    return OverTime(
        trail=tuple(trail(record, day.replace(day=1), day, run.run_id)),
        nights=(*trends(record, days), TrendNight(day, count_ages(unsolved, day), owners)),
        roles=(*config.close.roles, *(("approver",) if config.close.needs_approver else ())),
    )


def _run_of(
    record: Record, given: MatchInputs, outcome: Outcome, inputs: RunInputs, prior: Run | None
) -> Run:
    """Build the run to store, except for the texts of its workbook."""
    source, ledger, config = given.source, given.ledger, given.config
    comments, moved = annotations.state(record), inputs.movement
    unused = tuple(worst_first(ledger.unused))
    run_id = f"{outcome.day:%Y%m%d}-{outcome.digest[:12]}"
    return Run(
        name=config.name,
        day=outcome.day,
        run_id=run_id,
        digest=outcome.digest,
        snapshot_id=source.snapshot_id,
        fields=outcome.fields,
        counts={result.value: count for result, count in outcome.counts.items()},
        rejected=len(ledger.rejected),
        breaks=outcome.breaks,
        resolved=_resolved_breaks(prior, outcome, comments),
        ties=tuple(tie_totals(source.connection, outcome.fields)),
        not_compared=outcome.not_compared,
        uncovered=outcome.uncovered,
        coverage=Coverage(
            level=describe_levels(ledger),
            files=tuple(lines_of(ledger)),
            unused=unused,
            in_all=totals(unused),
            forgiven=outcome.forgiven,
            materiality=config.materiality,
        ),
        day_settings=settings_of_day(record, config, outcome.day, run_id),
        sources=ledger.sources,
        notices=tuple(worst_first(_notices(record, given, outcome, moved))),
        evidence=_evidence(given, outcome, inputs.program_version)
        | (dict(moved.evidence) if moved else {}),
        revision=comments.revision,
        made_at=inputs.now.isoformat(),
        by=inputs.by,
    )


def _shown_texts(given: MatchInputs, run: Run, rolled: Sequence[RollForwardLine]) -> ShownTexts:
    """Return the workbook's strings. Names that equal their ID are omitted."""
    names: dict[str, dict[str, str]] = {}
    shown = given.reference.display_names
    for field in sorted(shown.keys() & set(run.fields)):
        query = f"select distinct {field} from compared order by 1"  # noqa: S608 - a name of terms.DIMENSIONS
        for (id_,) in given.connection.execute(query).fetchall():
            name = shown[field].get(id_, id_)
            if name != id_:
                names.setdefault(field, {})[id_] = name
    return ShownTexts(
        names=names,
        left_out=tuple(result.value for result in left_out(run.counts, given.config.listed)),
        rolled=tuple(tuple(map(in_cell, line.line)) for line in rolled),
    )


def _notices(
    record: Record, given: MatchInputs, outcome: Outcome, movement: Movement | None
) -> Iterator[Notice]:
    """Yield a run's notices, except low-severity notices about unused parts.

    The ledger of a movement proof has its own notices, because nobody can replace its file.
    """
    source, ledger, config = given.source, given.ledger, given.config
    yield from movement.notices if movement else outcome.proposals
    yield from (item.notice for item in worst_first(ledger.unused) if item.severity != "low")
    yield from _unlisted_notices(outcome.counts, config, record.day_files(source.day).positions)
    yield from (Notice("medium", message) for message in source.notices)
    yield from annotations.notices_of_day(record, source.day)
    yield from outcome.notices
    yield from _ledger_notices(ledger, source)
    yield from settings_changes(record, config, source.day)
    for item in record.restatements:
        if item.day == source.day:
            before = f"the previous run was {item.run_before}"
            before = before if item.run_before else "it had no result before"
            message = f"this day was closed, but was restated by {item.who}: {item.why}; {before}"
            yield Notice("high", message, f"{moment(item.at)} UTC")


def _unlisted_notices(
    counts: Mapping[Result, int], config: Config, positions: Path
) -> Iterator[Notice]:
    """Yield a notice about where to find the positions that the workbook does not list."""
    number = sum(counts.values())
    if number > config.listed:
        codes = {result.value: count for result, count in counts.items()}
        is_many = Result.PRECISION in left_out(codes, config.listed)
        rest = "are not within the ledger's precision" if is_many else "do not match exactly"
        yield Notice(
            "medium",
            f"the workbook does not list all {number:,} positions (listed = {config.listed} in "
            f"recon.toml). The {UNMATCHED} sheet lists those that {rest}. {positions.name} next to "
            "the workbook contains all of them",
        )


def _ledger_notices(ledger: Ledger, source: OpenBook) -> Iterator[Notice]:
    """Yield notices about ledgers that overlap, have no usable rows, or are for a different day."""
    for file in ledger.sources:
        stated = day_of(file)
        if stated not in (None, source.day):
            message = (
                f"the ledger is as of {stated}, but the book is as of {source.day}. It was used "
                f"because recon.toml says so under [late.{source.day}]"
            )
            yield Notice("high", message, file.name)
        if not file.used:
            yield Notice("high", "no row in the ledger could be used", file.name)
    for _, places in zip(range(_DUPLICATE_NOTICES), stacked_twice(ledger), strict=False):
        message = "the same position is in two files, so both amounts were added up"
        yield Notice("medium", message, places)
