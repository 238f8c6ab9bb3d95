"""A look at one ledger before it is used: what is read of it, why, and what is still asked."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

import pyarrow.compute as pc

from warehouse.contract.model import count_of
from warehouse.exact import total
from warehouse.reconcile import book
from warehouse.reconcile.book import open_book
from warehouse.reconcile.ledger import conventions
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.inbox import files_in
from warehouse.reconcile.ledger.read import read_ledger, with_sources
from warehouse.reconcile.ledger.tabs import chosen_tabs
from warehouse.reconcile.ledger.titles import count_fields
from warehouse.reconcile.match.sides import scope_of
from warehouse.reconcile.model import FilePart, Ledger, LedgerSource, Unused
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.run import reading_context
from warehouse.reconcile.settings.config import TEMPLATE, Config, parse_config, read_config
from warehouse.reconcile.terms import (
    FIELDS,
    Ambiguous,
    NotReconciled,
    choices_of,
    display_asset,
    letters,
    reading_files,
)
from warehouse.spreadsheet.reading.grid import Grid, OpenedFile, open_file
from warehouse.spreadsheet.reading.text import fold, text_at
from warehouse.storage.layout import written_aside

FIRST_ROWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnUse:
    """One column: its letter and title, what it is used for, why, and its first values."""

    letter: str
    title: str
    use: str
    reason: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TabPreview:
    """One tab: its header rows as its program numbers them, and every column of it.

    `source` is what came of its rows, None where a question is open; `rows` are the first ones as
    they are read, the amount last, `totals` the exact sums of each asset.
    """

    place: str
    header: str
    columns: tuple[ColumnUse, ...]
    profile: str = ""
    source: LedgerSource | None = None
    rows: tuple[tuple[str, ...], ...] = ()
    totals: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """All that would be read of a file, and what must be settled first: `answer` does that."""

    tabs: tuple[TabPreview, ...]
    unused: tuple[Unused, ...] = ()
    notices: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    question: str = ""
    answer: str = ""


def preview(
    path: Path, context: ReadingContext, check: Callable[[Ledger], object] = lambda _: None
) -> Preview:
    """Read a file as a run would, without comparing or storing anything.

    Raises `NotReconciled` if the file cannot be opened, or whatever `check` raises for its ledger.
    """
    if not path.is_file():
        raise NotReconciled(
            f"There is no file {path}. Nothing was read. Give its path from here: nightbook "
            "reconcile preview FILE. What a run reads lies in the home, under reconcile/inbox."
        )
    config = context.config
    count = partial(count_fields, own_words=config.own_words)
    with reading_files():
        files = [
            with_sources(open_file(file, count, starts=_starts_of(file.name, config)), context)
            for file, problem in files_in(path)
            if not problem
        ]
    tabs = list(chain.from_iterable(_heads(file, context) for file in files))
    try:
        ledger = read_ledger(files, context)
    except Ambiguous as question:
        return Preview(
            tabs=tuple(_tab(grid, head, place) for grid, head, place in tabs),
            question=question.words,
            answer=question.line,
        )
    check(ledger)
    late = [
        source for source in ledger.sources if conventions.day_of(source) not in (None, context.day)
    ]
    days = [
        f"{source.name} is of {conventions.day_of(source)}, the book of {context.day}"
        for source in late
    ]
    return Preview(
        tabs=tuple(_with_rows(_tab(grid, head, place), ledger) for grid, head, place in tabs),
        unused=ledger.unused,
        notices=(*days, *(f"{item.where}: {item.words}" for item in ledger.notices)),
        rejected=tuple(
            f"{ledger.place(row)}: {row.raw[:60]!r}: {row.reason}" for row in ledger.rejected
        ),
    )


def _starts_of(file: str, config: Config) -> tuple[int, ...]:
    return config.of_file(file).shape.column_starts


def _heads(file: OpenedFile, context: ReadingContext) -> Iterator[tuple[Grid, Header, str]]:
    """Yield the tabs that are read with their headers, as far as nothing is asked about them."""
    name = file.path.name
    try:
        for grid, head in chosen_tabs(file, context):
            yield grid, head, f"{name}!{grid.sheet}" if grid.sheet else name
    except Ambiguous:
        return


def _tab(grid: Grid, head: Header, place: str) -> TabPreview:
    lines = f"row {grid.line(head.row)}"
    if head.depth > 1:
        lines = f"rows {grid.line(head.row)} to {grid.line(head.body - 1)}"
    return TabPreview(
        place=place,
        header=lines,
        columns=tuple(_columns(grid, head)),
        profile=head.profile.name if head.profile else "",
    )


def _columns(grid: Grid, head: Header) -> Iterator[ColumnUse]:
    for place, title in enumerate(head.titles):
        use = _use(head, place)
        rows = islice(grid.rows, head.body, None)
        values = islice((text for row in rows if (text := text_at(row, place))), 2)
        yield ColumnUse(
            letter=letters(place).rpartition(" ")[2],
            title=title,
            use=use,
            reason=_reason(head, use, title) if use else "",
            values=tuple(value[:24] for value in values),
        )


def _use(head: Header, place: int) -> str:
    """Return what a column is read for; nothing where it is not read."""
    for name, column in head.columns.items():
        if column == place and name != "amount":
            return name
    for layer in head.layers:
        for term in layer.terms:
            if term.column == place:
                label = "".join(f" of {name}" for name in layer.names.values())
                return f"amount taken off{label}" if term.is_negative else f"amount{label}"
    uses = {head.sign: "sign", head.unit: "unit"} | dict.fromkeys(head.rows.values(), "row filter")
    return uses.get(place, "")


def _reason(head: Header, use: str, title: str) -> str:
    """Return why a column is what it is taken for."""
    use = use.split(maxsplit=1)[0]
    shape = head.shape
    said = (shape.sign or "", shape.unit_column, *shape.row_columns)
    settled = {fold(text) for text in (*shape.columns.values(), *shape.amounts, *said)}
    if fold(title) in settled or (shape.columns_are and use == "amount"):
        return f"as is known of {head.profile.name}" if head.profile else "recon.toml says so"
    return f"its title is a word for {use}" if head.words.field_of(title) == use else "by its title"


def _with_rows(tab: TabPreview, ledger: Ledger) -> TabPreview:
    """Return a tab with what came of its rows."""
    number, source = next(
        (number, source)
        for number, source in enumerate(ledger.sources)
        if source.place_name == tab.place
    )
    table = ledger.lines.table
    own = table.filter(pc.equal(table["file"], number))
    first = own.slice(0, FIRST_ROWS).select([*FIELDS, "amount"]).to_pylist()
    amounts: dict[str, list[str]] = {}
    for asset, amount in zip(own["asset"].to_pylist(), own["amount"].to_pylist(), strict=True):
        amounts.setdefault(asset, []).append(amount)
    return replace(
        tab,
        source=source,
        rows=tuple(tuple(row[name] for name in (*source.fields, "amount")) for row in first),
        totals=tuple((asset, total(texts), len(texts)) for asset, texts in sorted(amounts.items())),
    )


_MOST_ASSETS = 40

_WIDEST = 30


def preview_lines(seen: Preview) -> Iterator[str]:
    """Yield a preview as lines for a terminal."""
    for tab in seen.tabs:
        reasons = {item.name: item.reason for item in seen.unused if item.file == tab.place}
        yield from _column_lines(tab, reasons)
        yield from _row_lines(tab)
    for item in seen.unused:
        if item.kind is not FilePart.COLUMN:
            yield f"Not used: {item.where}: {item.reason}"
    yield from (f"Rejected: {line}" for line in seen.rejected[:FIRST_ROWS])
    if len(seen.rejected) > FIRST_ROWS:
        yield f"Rejected: {count_of(len(seen.rejected) - FIRST_ROWS, 'more row')}"
    yield from (f"Note: {line}" for line in seen.notices)
    if seen.question:
        yield f"Question: {seen.question}"
        if choices_of(seen.answer):
            yield "One of these lines in recon.toml answers it; remove its #:"
        else:
            yield "These lines in recon.toml answer it; change them where they are wrong:"
        yield from (f"    {line}" for line in seen.answer.splitlines())


def _column_lines(tab: TabPreview, reasons: Mapping[str, str]) -> Iterator[str]:
    profile = f", as {tab.profile} writes it" if tab.profile else ""
    yield f"{tab.place}: the header is {tab.header}{profile}"
    width = min(max((len(column.title) for column in tab.columns), default=0), _WIDEST)
    for column in tab.columns:
        reason = reasons.get(repr(column.title), column.reason)
        use = f"{column.use or 'not used'}{f' ({reason})' if reason else ''}"
        values = " | ".join(column.values)
        yield f"  {column.letter:>2}  {column.title:<{width}}  {use}   {values}".rstrip()


def _row_lines(tab: TabPreview) -> Iterator[str]:
    source = tab.source
    if source is None:
        return
    skipped = ", ".join(f"{number} {reason}" for reason, number in source.skipped.items())
    yield (
        f"  compared at {', '.join(source.fields)}; {count_of(source.rows, 'amount')}: "
        f"{source.used} used, {source.rejected} rejected, skipped: {skipped or 'none'}"
    )
    yield f"  first rows as read ({', '.join((*source.fields, 'amount'))}):"
    yield from (f"    {'  '.join(row)}" for row in tab.rows)
    yield "  totals:"
    wide, long = (
        max((len(text.partition(".")[part]) for _, text, _ in tab.totals), default=0)
        for part in (0, 2)
    )
    for asset, text, rows in tab.totals[:_MOST_ASSETS]:
        whole, point, part = text.partition(".")
        amount = f"{whole:>{wide}}{point or ' '}{part:<{long}}"
        yield f"    {display_asset(asset):<10} {amount}  in {count_of(rows, 'row')}"
    if len(tab.totals) > _MOST_ASSETS:
        yield f"    and {count_of(len(tab.totals) - _MOST_ASSETS, 'more asset')}"


def look_at(database: Path, folder: Path, file: Path) -> Preview:
    """Return what a run would read of a file for the newest book; nothing is stored.

    Raises `NotReconciled` if the file cannot be opened or covers a name that the book does not
    have, `NotExported` if there is no book.
    """
    record = Record(folder)
    config = read_config(record.config)
    with open_book(database, None) as source:
        reference = book.read_reference(source, config.stale_hours)
        context = reading_context(record, config, reference, source.day)
        return preview(file, context, lambda ledger: scope_of(source, ledger, reference, config))


def settle(folder: Path, lines: str) -> None:
    """Add lines to recon.toml, after everything in it; nothing is written where they are wrong.

    Raises `NotReconciled` where the file could not be used with them.
    """
    record = Record(folder)
    record.make()
    before = record.config.read_text(encoding="utf-8") if record.config.exists() else TEMPLATE
    with written_aside(record.config) as file:
        content = f"{before.rstrip()}\n\n{lines.strip()}\n".encode()
        parse_config(content, record.config)
        file.write(content)
