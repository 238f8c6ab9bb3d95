"""`nightbook run`, `status` and `rebuild` in the home of a firm: the same of all organisations."""

from collections import Counter
from datetime import date

from assets.console.color import GREEN, RED, paint
from assets.console.json_log import JsonLog
from assets.console.rows import print_rows
from assets.console.terminal import TerminalProgress, is_terminal
from assets.console.version import program_version
from assets.home.writer_lock import writing
from assets.nightbook import STARTED, Nightbook, Tell
from assets.publishing.firm import publish
from assets.runs.firm import sources_of, take_nights
from pipelines import night
from warehouse.contract.firm import NIGHTS
from warehouse.contract.states import HELD
from warehouse.contract.wording import count_of
from warehouse.database.firm.publish import FirmBook, FirmNight
from warehouse.export.export import export
from warehouse.query.firm import newest_nights
from warehouse.query.printable import printable
from warehouse.report.build import report
from warehouse.storage.firm import read_firm

INCOMPLETE, A_PERSON_MUST_DECIDE = 1, 3


def run(nightbook: Nightbook, *, day: date | None, unless_taken: bool) -> int:
    """Take the night of each organisation, then publish the firm's book, workbook and report."""
    layout, settings = nightbook.layout, nightbook.settings()
    firm = read_firm(layout.home)
    chosen = day or night.business_date(settings, nightbook.now())
    with TerminalProgress() as teller:
        log = JsonLog(nightbook.now, {"night": chosen.isoformat()})
        tell: Tell = teller if is_terminal() else log
        count = count_of(len(firm.sources), "organisation")
        tell(f"Taking the book of {chosen} of {count} into {layout.home}", event=STARTED)
        runs = take_nights(
            sources_of(firm, None), firm.at_once, day=day, unless_taken=unless_taken, tell=tell
        )
        notes = {each.source: each.words for each in runs if each.code}
        with writing(nightbook, f"publishing the firm's book of {chosen}"):
            book = publish(nightbook, day=chosen, notes=notes)
    return _tell(nightbook, book, is_whole=_write(nightbook, book))


def rebuild(nightbook: Nightbook, **options: object) -> int:
    """Make the firm's book again of what its organisations have published."""
    with writing(nightbook, "rebuilding the firm's book"):
        book = publish(nightbook, fresh=True)
    return _tell(nightbook, book)


def status(nightbook: Nightbook, *, form: str | None) -> int:
    """Print which organisations the newest book holds; 3 where one is held, 1 where one lacks."""
    nights = newest_nights(nightbook.layout.database)
    if form:
        rows = [tuple(getattr(each, name) for name in NIGHTS.names) for each in nights]
        print_rows(form, NIGHTS.names, rows)
    else:
        _print(nights)
    return _code(nights)
