"""Reading all of a day's ledgers as one ledger, with checks for late and missing ledgers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from itertools import islice

from warehouse.reconcile.ledger.amount_reader import AmountReader
from warehouse.reconcile.ledger.column_questions import (
    ask_for_asset,
    ask_for_parts,
    ask_for_scope,
    ask_for_words,
    question_of_columns,
)
from warehouse.reconcile.ledger.columns import (
    LedgerBody,
    doubled_signs,
    missing_fields,
    require_no_use,
    rows_above,
    rows_of_other_dates,
    unused_columns,
)
from warehouse.reconcile.ledger.days import day_of, late_sources, question_of_late, title_day
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.inbox import InboxContents
from warehouse.reconcile.ledger.labels import row_labels
from warehouse.reconcile.ledger.notation import dates_of, rules_of
from warehouse.reconcile.ledger.notes import ask_for_notes, day_of_notes
from warehouse.reconcile.ledger.rows import BodyRows, SheetReading, heading_of, read_rows
from warehouse.reconcile.ledger.spellings import ask_for_paths, ask_for_spellings, renames_of
from warehouse.reconcile.ledger.tabs import chosen_tabs, level_of, other_tabs
from warehouse.reconcile.ledger.units import unit_of
from warehouse.reconcile.model import (
    FilePart,
    Ledger,
    LedgerRows,
    LedgerSource,
    Notice,
    RejectedRow,
    Unused,
)
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.layout import ALL
from warehouse.reconcile.settings.toml import setting
from warehouse.reconcile.terms import FIELDS, Ambiguous, together
from warehouse.spreadsheet.reading.grid import OpenedFile


def read_ledger(files: Sequence[OpenedFile], context: ReadingContext) -> Ledger:
    """Read the chosen files for a day's book. Names are not resolved yet.

    Raises `Ambiguous` if a person must decide something, and `NotReconciled` if a file cannot be
    read at all.
    """
    rejected: list[RejectedRow] = []
    notices: list[Notice] = []
    sources: list[LedgerSource] = []
    lines = LedgerRows()
    unused: list[Unused] = []
    questions: list[Ambiguous] = []
    for file in files:
        tabs: list[Header] = []
        with _collecting(questions):
            tabs = chosen_tabs(file, context)
            unused += other_tabs(file, tabs)
        for head in tabs:
            with _collecting(questions):
                reading = _start_reading(file, head, number=len(sources))
                rows = read_rows(reading, lines)
                ask_for_notes(head, rows.notes, _stated_day(reading))
                rejected += rows.rejected
                notices += reading.notices
                unused += reading.unused
                sources.append(_source(file, reading, rows))
    if questions:
        raise together(questions)
    stated = {name for source in sources for name in (*source.fields, *source.covers)}
    return Ledger(
        fields=tuple(name for name in FIELDS if name in stated),
        lines=lines,
        rejected=rejected,
        sources=tuple(sources),
        notices=tuple(notices),
        remembered=context.remembered,
        unused=tuple(unused),
    )


@contextmanager
def _collecting(questions: list[Ambiguous]) -> Iterator[None]:
    """Collect the questions about all files, so that a person sees them all at once."""
    try:
        yield
    except Ambiguous as question:
        questions.append(question)


def _start_reading(file: OpenedFile, head: Header, number: int) -> SheetReading:
    """Find a sheet's level of detail, its conventions, and its unused parts."""
    lacking = missing_fields(head)
    unused = list(rows_above(head))
    labels = row_labels(head)
    body = LedgerBody(head)
    require_no_use(head)
    ask_for_asset(body)
    ask_for_paths(body, lacking)
    ask_for_spellings(body)
    columns, asked = unused_columns(body, lacking)
    ask_for_parts(body, asked)
    if asked:
        raise question_of_columns(asked, body, lacking)
    positive_word = ask_for_words(body)
    ask_for_scope(head, lacking)
    fields = level_of(head)
    rules = rules_of(head)
    days, undated = dates_of(head)
    chosen = _day_of_rows(days, head.context.day)
    unused += [*columns, *rows_of_other_dates(head, days, chosen)]
    _remember(head)
    unit, unit_notices = unit_of(body)
    amounts = AmountReader(head=head, rules=rules, unit=unit, positive_word=positive_word)
    notices = [Notice("low", message, head.file) for message in file.notices]
    return SheetReading(
        body=body,
        fields=fields,
        amounts=amounts,
        labels=labels,
        days=days,
        undated=undated,
        day=chosen,
        number=number,
        renames=renames_of(head),
        headings=frozenset(filter(None, map(heading_of, islice(head.grid.rows, head.row)))),
        notices=[*notices, *unit_notices, *doubled_signs(body), *_hidden(head)],
        unused=unused,
    )


def _day_of_rows(days: Sequence[date | None], day: date) -> date | None:
    """Return the date of the rows to read: the book's date, or else the latest date in any row."""
    # `read_ledgers` decides later whether a ledger for another day may be used.
    stated = sorted({row_day for row_day in days if row_day is not None})
    return day if day in stated else (stated[-1] if stated else None)


def _remember(head: Header) -> None:
    """Store the title of each field's column for later runs.

    The amount is left out if it has several columns, because the settings name them.
    """
    first = head.layers[0]
    is_single = len(head.layers) == 1 and len(first.terms) == 1 and first.day is None
    remembered = head.context.remembered
    remembered[head.fingerprint] = remembered.get(head.fingerprint, {}) | {
        name: head.titles[column]
        for name, column in head.columns.items()
        if head.titles[column] and (name != "amount" or is_single)
    }


def _hidden(head: Header) -> Iterator[Notice]:
    """Yield notices about hidden rows and columns that were read."""
    grid = head.grid
    if not grid.is_visible:
        yield Notice("medium", "the sheet is hidden, but it was read", head.location)
    if grid.hidden_rows:
        message = f"{grid.hidden_rows} hidden or filtered rows were also read"
        yield Notice("medium", message, head.location)
    hidden = sorted(head.used_columns & grid.hidden_columns)
    if hidden:
        names = " and ".join(repr(head.title_of(column)) for column in hidden)
        yield Notice("medium", f"the hidden column {names} was also read", head.location)


def _stated_day(reading: SheetReading) -> date | None:
    """Return the day of the amounts by their dates, their titles, or the lines above the header."""
    head = reading.head
    above = head.grid.rows[: head.row]
    return reading.day or head.layers[0].day or title_day(above, head.context.day)


def _source(file: OpenedFile, reading: SheetReading, rows: BodyRows) -> LedgerSource:
    head, grid = reading.head, reading.grid
    tab = {name: (text,) for name, text in head.names.items() if name not in head.covers}
    return LedgerSource(
        name=file.path.name,
        sheet=grid.sheet,
        sha256=file.sha256,
        as_of=_stated_day(reading) or day_of_notes(rows.notes, head.context.day),
        rows=(len(grid.rows) - head.body) * len(head.layers),
        used=rows.used,
        skipped=dict(sorted(rows.skipped.items())),
        rejected=len(rows.rejected),
        fingerprint=head.fingerprint,
        fields=reading.fields,
        covers=tab | {name: names for name, names in head.covers.items() if names != (ALL,)},
        profile=head.profile.name if head.profile else "",
    )


def read_ledgers(contents: InboxContents, context: ReadingContext) -> Ledger:
    """Read a day's ledgers.

    Raises `LateError` if a ledger is for another day, and the other ledgers cannot be compared
    without it.
    """
    ledger = read_ledger(contents.ledgers, context)
    late = late_sources(ledger, context.config, context.day)
    names = {source.name for source in late}
    # If a late file covers a part of the book, only that part is not compared. If it covers the
    # whole book, the run stops, because nothing could be compared.
    usable = [file for file in contents.ledgers if file.path.name not in names]
    unused = [*contents.unused]
    if late and usable and all(source.covers for source in late):
        unused += [_late(source, context.day) for source in late]
        ledger = read_ledger(usable, context)
        late = []
    if late:
        raise question_of_late(late, context.day)
    unused += _missing(ledger, context.config, context.day)
    return replace(ledger, unused=(*unused, *ledger.unused))


def _late(source: LedgerSource, day: date) -> Unused:
    reason = (
        f"this ledger is as of {day_of(source)}, but the book is as of {day}, so the "
        "ledger's part of the book was not compared. To use the ledger anyway, add to recon.toml "
        f"under [late.{day}]: {setting(source.name, 'used')}"
    )
    return Unused(source.name, FilePart.FILE, source.name, reason, "high")


def _missing(ledger: Ledger, config: Config, day: date) -> Iterator[Unused]:
    """Yield a notice for each file that recon.toml expects but that was not read."""
    for expected in config.files:
        is_there = any(expected.is_of(source.name, source.sheet) for source in ledger.sources)
        if expected.is_expected and not is_there:
            covers = (f"{name} {', '.join(names)}" for name, names in expected.covers.items())
            scope = "; ".join(covers) or "its part of the book"
            reason = f"no file with such a name was read for {day}, so {scope} was not compared"
            yield Unused(expected.pattern, FilePart.FILE, expected.pattern, reason, "high")
