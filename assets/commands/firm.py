"""`nightbook run`, `status` and `rebuild` in the home of a firm: the same of all organisations."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial

from assets.console.color import GREEN, RED, paint
from assets.console.declaration import A_PERSON_MUST_DECIDE, DONE, FAILED
from assets.console.json_log import JsonLog
from assets.console.rows import print_records
from assets.console.terminal import TerminalProgress, is_terminal
from assets.home.gate import OfOneOrganisation
from assets.home.source_nights import sources_of, take_nights
from assets.home.writer_lock import writing, writing_aloud
from assets.nightbook import STARTED, Nightbook, Tell
from assets.publishing import firm
from assets.publishing.rebuild import rebuild_on_spark
from pipelines import night
from warehouse.contract.firm import NIGHTS
from warehouse.contract.states import HELD
from warehouse.contract.wording import count_of
from warehouse.database.firm.gate import FirmNight, read_last_nights
from warehouse.database.firm.publish import FirmBook
from warehouse.query.printable import printable
from warehouse.storage.firm import Source, read_firm
from warehouse.storage.home import HOME, merged_environment


def run(nightbook: Nightbook, *, day: date | None, unless_taken: bool) -> int:
    """Take the night of each organisation, then publish the firm's book, workbook and report."""
    layout = nightbook.layout
    named = read_firm(layout.home)
    chosen = day or night.business_date(nightbook.settings(), nightbook.now())
    with TerminalProgress() as teller:
        tell: Tell = teller
        if not is_terminal():
            tell = JsonLog(nightbook.now, {"night": chosen.isoformat()})
        count = count_of(len(named.sources), "organisation")
        tell(f"Taking the book of {chosen} of {count} into {layout.home}", event=STARTED)
        ended = take_nights(
            sources_of(named, None), named.at_once, day=day, unless_taken=unless_taken, tell=tell
        )
        with writing(nightbook, f"publishing the firm's book of {chosen}"):
            book = firm.publish(
                nightbook,
                day=chosen,
                notes={
                    firm_night.source: firm_night.words for firm_night in ended if firm_night.code
                },
            )
    return _tell(nightbook, book)


def rebuild(
    nightbook: Nightbook,
    *,
    from_landing: bool,
    engine: str | None = None,
    dry_run: bool = False,
    **_options: object,
) -> int:
    """Make the firm's book again of what its organisations have published.

    With an engine their lakes and warehouses are made again first, all nights in one job.
    """
    for option, is_given in (("--from-landing", from_landing), ("--dry-run", dry_run)):
        if is_given:
            raise OfOneOrganisation(nightbook.layout, f"rebuild {option}")
    with (
        writing_aloud(nightbook, "rebuilding the firm's book") as heard,
        contextlib.ExitStack() as locks,
    ):
        if engine is not None:
            keepers = [
                replace(heard, variables=partial(_variables, source))
                for source in read_firm(nightbook.layout.home).sources
                if source.layout.landing.is_dir()  # one that never took a night has nothing
            ]
            for keeper in keepers:
                locks.enter_context(writing(keeper, "rebuilding", heard.tell))
            if keepers:
                rebuild_on_spark(keepers)
        book = firm.publish(heard, fresh=True)
    return _tell(nightbook, book)


def _variables(source: Source) -> Mapping[str, str]:
    """Return the settings of an organisation: those of its own folder, and its home."""
    return merged_environment(source.folder, {}) | {HOME: str(source.layout.home.absolute())}


def status(nightbook: Nightbook, *, form: str | None) -> int:
    """Print which organisations the newest night holds; 3 where one is held, 1 where one lacks."""
    nights = read_last_nights(nightbook.layout.database)
    if form:
        print_records(form, NIGHTS.names, nights)
    else:
        _print(nights)
    return _code(nights)


def _tell(nightbook: Nightbook, book: FirmBook) -> int:
    """Write workbook and report of the firm's book, and say what it holds."""
    files = firm.write_files(nightbook, book)
    for change in book.changes:
        print(printable(change))
    _print(book.nights)
    for file in (book.database, *files):
        print(f"  {file}")
    return _code(book.nights)


def _print(nights: Sequence[FirmNight]) -> None:
    """Print a line for the night, and one for each organisation that it lacks."""
    within = sum(firm_night.is_in_book for firm_night in nights)
    words = f"{within} of {count_of(len(nights), 'organisation')}"
    day = nights[0].snapshot_date if nights else "no night yet"
    print(f"book of {day}: {paint(words, GREEN if within == len(nights) else RED)}")
    for firm_night in nights:
        if not firm_night.is_in_book:
            last = f"last book {firm_night.as_of}" if firm_night.as_of else "no book yet"
            print(
                printable(
                    f"  {firm_night.source}: {firm_night.state} ({last}): {firm_night.reason}"
                )
            )


def _code(nights: Sequence[FirmNight]) -> int:
    if any(firm_night.state == HELD for firm_night in nights):
        return A_PERSON_MUST_DECIDE
    is_whole = nights and all(firm_night.is_in_book for firm_night in nights)
    return DONE if is_whole else FAILED
