"""Read the ledgers of a day: one that is late is left out where others can do without it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.inbox import dating
from warehouse.reconcile.ledger.inbox.inbox import InboxContents
from warehouse.reconcile.ledger.model import FilePart, Ledger, LedgerSource, Unused
from warehouse.reconcile.ledger.rows import read_ledger
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.scope import FileSettings
from warehouse.reconcile.settings.toml_table import setting


def read_ledgers(contents: InboxContents, context: ReadingContext) -> Ledger:
    """Read the ledgers of a day.

    Raises `Late` where one is of another day and the others cannot be compared without it.
    """
    ledger = read_ledger(contents.ledgers, context)
    late = dating.late_sources(ledger, context.config, context.day)
    names = {source.name for source in late}
    # A file that covers a part of the book leaves just that part out; one that covers all of it
    # stops the run, for nothing would be left to compare with.
    usable = [file for file in contents.ledgers if file.path.name not in names]
    unused = [*contents.unused]
    if late and usable and all(source.covers for source in late):
        unused += [_late(source, context.day) for source in late]
        ledger = read_ledger(usable, context)
        late = []
    if late:
        raise dating.question_of_late(late, context.day)
    unused += _missing(ledger, context.config, context.day)
    return replace(ledger, unused=(*unused, *ledger.unused))


def _late(source: LedgerSource, day: date) -> Unused:
    words = f"it is of {dating.day_of(source)}, and the book is of {day}: what it covers was not "
    words += (
        f"compared. To use it all the same, say under [late.{day}] {setting(source.name, 'used')}"
    )
    return Unused(
        file=source.name, kind=FilePart.FILE, name=source.name, reason=words, severity="high"
    )


def _missing(ledger: Ledger, config: Config, day: date) -> Iterator[Unused]:
    """Yield each file that recon.toml expects and of which nothing was read."""
    for expected in config.files:
        is_there = any(expected.is_of(source.name, source.sheet) for source in ledger.sources)
        if expected.is_expected and not is_there:
            words = f"no such ledger of {day} was read: {_scope_words(expected)} was not compared"
            yield Unused(
                file=expected.pattern,
                kind=FilePart.FILE,
                name=expected.pattern,
                reason=words,
                severity="high",
            )


def _scope_words(file: FileSettings) -> str:
    covered = (f"{name} {', '.join(names)}" for name, names in file.covers.items())
    return "; ".join(covered) or "what it covers"
