"""Read a ledger whole: every row is used, skipped or rejected, and counted."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from itertools import islice

from warehouse.reconcile.ledger.cells.conventions import dates_of, rules_of
from warehouse.reconcile.ledger.column_questions import (
    ask_for_asset,
    ask_for_scope,
    ask_for_words,
    question_of_columns,
)
from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.header_row import Header
from warehouse.reconcile.ledger.inbox.dating import title_day
from warehouse.reconcile.ledger.layout.amount_reader import AmountReader
from warehouse.reconcile.ledger.layout.labels import row_labels
from warehouse.reconcile.ledger.layout.merged_cells import merged_cells
from warehouse.reconcile.ledger.layout.source_column import with_sources
from warehouse.reconcile.ledger.layout.spellings import ask_for_spellings, renames_of
from warehouse.reconcile.ledger.layout.units import unit_of
from warehouse.reconcile.ledger.model import (
    Ledger,
    LedgerRows,
    LedgerSource,
    Unused,
)
from warehouse.reconcile.ledger.sheet_rows import SheetReading, heading_of, read_rows
from warehouse.reconcile.ledger.tabs import chosen_tabs, level_of, other_tabs
from warehouse.reconcile.ledger.unread import (
    LedgerBody,
    lacking_fields,
    rows_above,
    rows_of_other_dates,
    unused_columns,
)
from warehouse.reconcile.settings.scope import ALL
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.reconcile.terms.errors import Ambiguous, together
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.reading.grid import Grid, OpenedFile


def read_ledger(files: Sequence[OpenedFile], context: ReadingContext) -> Ledger:
    """Read the chosen files for the book of a day; nothing is resolved or matched yet.

    Raises `Ambiguous` where a person must settle something, `NotReconciled` where a file cannot be
    read at all.
    """
    readings: list[SheetReading] = []
    sources: list[LedgerSource] = []
    lines = LedgerRows()
    unused: list[Unused] = []
    questions: list[Ambiguous] = []
    for file in [with_sources(file, context) for file in files]:
        tabs: list[tuple[Grid, Header]] = []
        with _collecting(questions):
            tabs = chosen_tabs(file, context)
            unused += other_tabs(file, tabs, context)
        for grid, head in tabs:
            with _collecting(questions):
                reading = _start_reading(file, grid, head, context)
                reading.number, reading.lines = len(sources), lines
                read_rows(reading)
                readings.append(reading)
                sources.append(_source(file, reading))
                unused += reading.unused
    if questions:
        raise together(questions)
    stated = {name for source in sources for name in (*source.fields, *source.covers)}
    return Ledger(
        fields=tuple(name for name in FIELDS if name in stated),
        lines=lines,
        rejected=[row for reading in readings for row in reading.rejected],
        sources=tuple(sources),
        notices=tuple(notice for reading in readings for notice in reading.notices),
        remembered=context.remembered,
        unused=tuple(unused),
    )


@contextmanager
def _collecting(questions: list[Ambiguous]) -> Iterator[None]:
    """Put a question aside, so that those of all files are asked at once."""
    try:
        yield
    except Ambiguous as question:
        questions.append(question)


def _start_reading(
    file: OpenedFile, grid: Grid, head: Header, context: ReadingContext
) -> SheetReading:
    """Settle what a sheet says as a whole: its level, its conventions, and its unused parts."""
    name = file.path.name
    where = f"{name} {grid.sheet}".strip()
    place = f"{name}!{grid.sheet}" if grid.sheet else name
    lacking = lacking_fields(head, context.config, head.covers)
    unused = list(rows_above(grid, head, place))
    labels = row_labels(grid, head, context.known, where)
    body = LedgerBody(grid, head, context.known)
    ask_for_asset(body, place)
    ask_for_spellings(body, place)
    columns, asked = unused_columns(body, lacking, place)
    if asked:
        raise question_of_columns(asked, body, lacking, context, file=name, where=place)
    positive_word = ask_for_words(body, place)
    ask_for_scope(context, head, name, grid.sheet, lacking=lacking)
    fields = level_of(head, context.config, where)
    rules = rules_of(grid, head, context.remembered, where)
    days, undated = dates_of(grid, head, context.remembered, where, context.day)
    chosen = _day_of_rows(days, context.day)
    unused += [*columns, *rows_of_other_dates(grid, head, days, chosen, place)]
    _remember(head, context)
    unit, unit_notices = unit_of(grid, body, place)
    amounts = AmountReader(head=head, rules=rules, unit=unit, positive_word=positive_word)
    notices = [Notice("low", words_, name) for words_ in file.notices]
    return SheetReading(
        number=0,
        grid=grid,
        head=head,
        fields=fields,
        amounts=amounts,
        labels=labels,
        merged=merged_cells(grid, head),
        days=days,
        undated=undated,
        day=chosen,
        context=context,
        place=place,
        lines=LedgerRows(),
        renames=renames_of(head, context.known),
        headings=frozenset(filter(None, map(heading_of, islice(grid.rows, head.row)))),
        notices=[*notices, *unit_notices, *_hidden(grid, head, where)],
        unused=unused,
    )


def _day_of_rows(days: Sequence[date | None], day: date) -> date | None:
    """Return the day whose rows are read: that of the book, else the newest one, if any is said."""
    # Whether a ledger of another day is used at all is decided later (`reading.read_ledgers`).
    stated = sorted({row_day for row_day in days if row_day is not None})
    return day if day in stated else (stated[-1] if stated else None)


def _remember(head: Header, context: ReadingContext) -> None:
    """Keep which column is which field; an amount of several columns follows from the settings."""
    is_single = len(head.layers) == 1 and len(head.layers[0].terms) == 1 and head.day is None
    context.remembered[head.fingerprint] = context.remembered.get(head.fingerprint, {}) | {
        name: head.titles[column]
        for name, column in head.columns.items()
        if head.titles[column] and (name != "amount" or is_single)
    }


def _hidden(grid: Grid, head: Header, where: str) -> Iterator[Notice]:
    """Yield what was read though its program does not show it."""
    if not grid.is_visible:
        yield Notice("medium", "the sheet is hidden, and it was read", where)
    if grid.hidden_rows:
        words = f"{grid.hidden_rows} hidden or filtered rows were read like the others"
        yield Notice("medium", words, where)
    hidden = sorted(head.places & grid.hidden_columns)
    if hidden:
        names = " and ".join(repr(head.title_of(column)) for column in hidden)
        yield Notice("medium", f"the hidden column {names} was read like the others", where)


def _source(file: OpenedFile, reading: SheetReading) -> LedgerSource:
    head, grid, context = reading.head, reading.grid, reading.context
    tab = {name: (text,) for name, text in head.names.items() if name not in head.covers}
    return LedgerSource(
        name=file.path.name,
        sheet=grid.sheet,
        sha256=file.sha256,
        as_of=reading.day or head.day or title_day(grid.rows[: head.row], context.day),
        rows=(len(grid.rows) - head.body) * len(head.layers),
        used=reading.used,
        skipped=dict(sorted(reading.skipped.items())),
        rejected=len(reading.rejected),
        fingerprint=head.fingerprint,
        fields=reading.fields,
        covers=tab | {name: names for name, names in head.covers.items() if names != (ALL,)},
        profile=head.profile.name if head.profile else "",
    )
