"""The firm's versions of `nightbook run`, `status`, `doctor` and `rebuild`."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from functools import partial

from assets import commands
from assets.console.exit_codes import A_PERSON_MUST_DECIDE, DONE, FAILED
from assets.console.invocation import command_for, full_command
from assets.console.rows import JsonLog, print_rows
from assets.console.terminal import GREEN, RED, TerminalProgress, is_terminal, paint
from assets.home.source_nights import find_problems, take_nights
from assets.home.writer_lock import OfOneOrganisation, writing, writing_with_progress
from assets.nightbook import STARTED, EventCallback, Nightbook
from assets.publishing import firm
from assets.publishing.publish import rebuild_on_spark
from pipelines import night
from pipelines.settings import environment
from warehouse.contract.firm import NIGHTS
from warehouse.contract.model import count_of
from warehouse.contract.states import REMOVED
from warehouse.database.firm.publish import FirmBook
from warehouse.query.firm_state import FirmState, read_state
from warehouse.query.formats import printable
from warehouse.storage.firm import FIRM, OWNERS, Firm, Source, read_firm
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

_EXTRA_COLUMNS = ("problem", "held_nights", "undecided_portfolios", "gone_since")


def run(nightbook: Nightbook, *, day: date | None, unless_taken: bool) -> int:
    """Pull each organisation's night, then publish the firm's book, workbook and report."""
    layout = nightbook.layout
    members = read_firm(layout.home)
    chosen = day or night.business_date(nightbook.settings(), nightbook.now())
    with TerminalProgress() as progress:
        tell: EventCallback = progress
        if not is_terminal():
            tell = JsonLog(nightbook.now, {"night": chosen.isoformat()})
        count = count_of(len(members.sources), "organisation")
        tell(f"Pulling the night of {chosen} for {count} into {layout.home}", event=STARTED)
        problems = find_problems(layout, members)
        runs = take_nights(
            members.sources,
            members.at_once,
            day=day,
            unless_taken=unless_taken,
            tell=tell,
            problems=problems,
        )
        failed = {run.source: run.words for run in runs if run.code}
        with writing(nightbook, f"publishing the firm's book of {chosen}"):
            book = firm.publish(nightbook, day=chosen, notes=failed)
    code = _report(nightbook, book, members, problems)
    # If an organisation's run failed, the command fails, even if the organisation's night is in the
    # book.
    codes = {run.code for run in runs}
    return code or FAILED * bool(codes - {DONE, A_PERSON_MUST_DECIDE})


def rebuild(
    nightbook: Nightbook,
    *,
    from_landing: bool,
    engine: str | None = None,
    dry_run: bool = False,
    **_options: object,
) -> int:
    """Rebuild the firm's book from its organisations' published books.

    If an engine is given, first rebuild their lakes and warehouses, with all nights in one job.
    """
    for option, is_given in (("--from-landing", from_landing), ("--dry-run", dry_run)):
        if is_given:
            raise OfOneOrganisation(nightbook.layout, f"rebuild {option}")
    members = read_firm(nightbook.layout.home)
    problems = find_problems(nightbook.layout, members)
    with (
        writing_with_progress(nightbook, "rebuilding the firm's book") as reporting,
        contextlib.ExitStack() as locks,
    ):
        if engine is not None:
            keepers = [
                replace(reporting, variables=partial(_variables, source))
                for source in members.sources
                # Skip new organisations, which have no nights to rebuild, and missing homes, which
                # cannot be read.
                if source.name not in problems and source.layout.landing.is_dir()
            ]
            for keeper in keepers:
                locks.enter_context(writing(keeper, "rebuilding", reporting.tell))
            if keepers:
                rebuild_on_spark(keepers)
        book = firm.publish(reporting, fresh=True)
    return _report(nightbook, book, members, problems)


def _variables(source: Source) -> Mapping[str, str]:
    """Return an organisation's settings: the variables from its folder's `.env`, and its home."""
    return environment(source.folder, {}) | {HOME: str(source.layout.home.absolute())}


def status(nightbook: Nightbook, *, output_format: str | None) -> int:
    """Print the nights missing from the newest book, and the open decisions.

    Return 3 if a person must decide, or 1 if an organisation or its home is missing.
    """
    layout = nightbook.layout
    state, members = read_state(layout.database), read_firm(layout.home)
    problems = _problems_of_book(layout, state) | find_problems(layout, members)
    if output_format:
        print_rows(output_format, (*NIGHTS.names, *_EXTRA_COLUMNS), _rows(state, problems))
    else:
        _print(layout, members, state, problems)
    return _code(state, problems)


def _problems_of_book(layout: Layout, state: FirmState) -> dict[str, str]:
    """Return a message for each organisation whose home could not be read for the newest book.

    A home may be readable now, so each message says that it is about the time of the build. A
    message is not changed if it already appears in the reason why the night is missing.
    """
    reasons = {firm_night.source: firm_night.reason for firm_night in state.nights}
    remedy = f"Once this is fixed, type: {command_for(layout)} rebuild"
    return {
        name: problem
        if problem in reasons.get(name, "")
        else f"when this book was built, {problem}. {remedy}"
        for name, problem in state.problems.items()
    }


def _rows(state: FirmState, problems: Mapping[str, str]) -> Iterator[tuple[object, ...]]:
    """Yield a row for each organisation's newest night, then for each removed organisation."""
    for night_ in state.nights:
        undecided = [
            portfolio.portfolio_id
            for portfolio in state.unsettled_portfolios
            if night_.source in portfolio.sources
        ]
        _, held_count = state.waiting.get(night_.source, ("", 0))
        values = (getattr(night_, name) for name in NIGHTS.names)
        yield (*values, problems.get(night_.source), held_count, undecided, None)
    for name, since in state.removed.items():
        row = {"source": name, "is_in_book": False, "state": REMOVED, "reason": ""}
        yield (*(row.get(column) for column in NIGHTS.names), None, 0, [], since)


def doctor(
    nightbook: Nightbook, *, alert: bool, output_format: str | None, turn_on: bool = False
) -> int:
    """Print the findings about the firm's own home and each organisation."""
    if turn_on:
        raise OfOneOrganisation(nightbook.layout, "doctor --turn-on")
    findings = list(commands.doctor.findings_of_place(nightbook, alert=alert))
    members = read_firm(nightbook.layout.home)
    problems = find_problems(nightbook.layout, members)
    for source in members.sources:
        if problem := problems.get(source.name):
            found_home = commands.doctor.Finding(
                f"{source.name} home", is_well=False, message=problem
            )
            findings.append(found_home)
        if source.problem:  # Skip this organisation, because its settings cannot be read.
            continue
        keeper = replace(nightbook, variables=partial(_variables, source))
        found = commands.doctor.findings_of(keeper, alert=alert, folder=source.folder)
        findings += [
            replace(finding, subject=f"{source.name} {finding.subject}") for finding in found
        ]
    return commands.doctor.show(findings, output_format)


def _report(
    nightbook: Nightbook, book: FirmBook, members: Firm, problems: Mapping[str, str]
) -> int:
    """Write the firm's workbook and report, and print a summary. Return the exit code."""
    files = firm.write_files(nightbook, book)
    problems = dict(book.state.problems) | dict(problems)
    for change in book.changes:
        print(printable(change))
    _print(nightbook.layout, members, book.state, problems)
    for file in (book.database, *files):
        print(f"  {file}")
    return _code(book.state, problems)


def _print(layout: Layout, members: Firm, state: FirmState, problems: Mapping[str, str]) -> None:
    """Print one line about the newest book, and one for each problem and open decision."""
    nights = state.nights
    included = sum(firm_night.is_in_book for firm_night in nights)
    count = f"{included} of {count_of(len(nights), 'organisation')}"
    day = nights[0].snapshot_date if nights else "no night yet"
    print(f"book of {day}: {paint(count, GREEN if included == len(nights) else RED)}")
    for line in (
        *_missing(state, problems),
        *_waiting(members, state),
        *_name_changes(members, state),
        *_open_portfolios(layout, members, state),
    ):
        print(printable(f"  {line}"))


def _open_portfolios(layout: Layout, members: Firm, state: FirmState) -> Iterator[str]:
    """Yield lines to add to firm.toml, which assign each undecided portfolio to an organisation."""
    if not state.unsettled_portfolios:
        return
    count = count_of(len(state.unsettled_portfolios), "portfolio")
    yield (
        f"{count} in the books of several organisations. A portfolio counts for only one "
        f"organisation, currently the one listed below. Correct these lines, add them to the table "
        f"[{OWNERS}] in {layout.home / FIRM}, then type {command_for(layout)} rebuild:"
    )
    if not members.owners:
        yield f"  [{OWNERS}]"
    for portfolio in state.unsettled_portfolios:
        pair = (portfolio.portfolio_id, portfolio.counted_for)
        line = " = ".join(json.dumps(text, ensure_ascii=False) for text in pair)
        differs = ", with different amounts" if portfolio.differs else ""
        yield f"  {line}   # {portfolio.name}: seen by {', '.join(portfolio.sources)}{differs}"


def _missing(state: FirmState, problems: Mapping[str, str]) -> Iterator[str]:
    """Yield a line for each organisation missing from the book, and each home with a problem."""
    for firm_night in state.nights:
        name, problem = firm_night.source, problems.get(firm_night.source, "")
        if not firm_night.is_in_book:
            last = f"last book {firm_night.as_of}" if firm_night.as_of else "no book yet"
            yield f"{name}: {firm_night.state} ({last}): {firm_night.reason}"
        if problem and (firm_night.is_in_book or problem not in firm_night.reason):
            yield f"{name}: {problem}"


def _waiting(members: Firm, state: FirmState) -> Iterator[str]:
    """Yield lines about held nights, and about shared portfolios whose owner is not in the book."""
    for source in members.sources:
        if source.name in state.waiting:
            snapshot_id, count = state.waiting[source.name]
            verb = "waits" if count == 1 else "wait"
            command = full_command(source.layout, "snapshots", folder=source.folder)
            yield (
                f"{source.name}: {count_of(count, 'held night')} {verb} for a decision. The newest "
                f"is {snapshot_id}: {command}"
            )
    missing = {firm_night.source for firm_night in state.nights if not firm_night.is_in_book}
    for portfolio in state.shared:
        if portfolio.is_settled and portfolio.counted_for in missing:
            yield str(portfolio)


def _name_changes(members: Firm, state: FirmState) -> Iterator[str]:
    """Yield a line for each organisation that was added to or removed from firm.toml."""
    names = {source.name for source in members.sources}
    known = {firm_night.source for firm_night in state.nights}
    for name, since in state.removed.items():
        if name not in names:
            yield f"{name}: not in {FIRM} since {since:%Y-%m-%d}, so no table contains its nights"
    for name in sorted(names - known):
        yield f"{name}: new in {FIRM}, but not in the book until the next run or rebuild"
    for name in sorted(known - names):
        yield f"{name}: no longer in {FIRM}, but in the book until the next run or rebuild"


def _code(state: FirmState, problems: Mapping[str, str]) -> int:
    if state.waits:
        return A_PERSON_MUST_DECIDE
    return DONE if state.is_whole and not problems else FAILED
