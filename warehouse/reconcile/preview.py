"""A ledger preview: the columns and rows that a run would read, or the question it would ask."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path

import pyarrow.compute as pc

from warehouse.contract.model import count_of
from warehouse.exact import total
from warehouse.reconcile.ledger.days import day_of
from warehouse.reconcile.ledger.header import Header
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.inbox import files_in
from warehouse.reconcile.ledger.read import read_ledger
from warehouse.reconcile.ledger.tabs import chosen_tabs
from warehouse.reconcile.ledger.titles import count_fields
from warehouse.reconcile.model import FilePart, Ledger, LedgerSource, Unused
from warehouse.reconcile.terms import (
    Ambiguous,
    NotReconciled,
    display_asset,
    how_to_answer,
    letters,
    reading_files,
)
from warehouse.spreadsheet.reading.grid import OpenedFile, open_file
from warehouse.spreadsheet.reading.text import fold, text_at

_FIRST_ROWS = 5
_MAX_ASSETS = 40
_MAX_WIDTH = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnUse:
    """A ledger column: its letter, title and first values, how it is used, and why.

    `use` and `reason` are empty if the column is not read.
    """

    letter: str
    title: str
    use: str
    reason: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TabPreview:
    """A tab of a ledger: its columns, and the row numbers of its header in the spreadsheet.

    `source` has the tab's row counts, and is None while a question is open. `rows` are the first
    used rows, with the amount last. `totals` has each asset's exact sum and number of rows.
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
    """Everything that a run would read from a file.

    `answer` has the recon.toml lines that answer `question`.
    """

    tabs: tuple[TabPreview, ...]
    unused: tuple[Unused, ...] = ()
    notices: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    question: str = ""
    answer: str = ""


def preview_file(path: Path, context: ReadingContext, check: Callable[[Ledger], object]) -> Preview:
    """Read a file as a run would, without comparing or storing anything.

    Raises `NotReconciled` if the file cannot be opened, and any error that `check` raises for the
    ledger.
    """
    if not path.is_file():
        raise NotReconciled(
            f"There is no file {path}. Nothing was read. Give the path relative to the current "
            "folder: nightbook reconcile preview FILE. The inbox is the reconcile/inbox folder in "
            "the home."
        )
    count = partial(count_fields, own_words=context.config.own_words)
    with reading_files():
        files = [open_file(file, count) for file, problem in files_in(path) if not problem]
    tabs = [tab for file in files for tab in _preview_tabs(file, context)]
    try:
        ledger = read_ledger(files, context)
    except Ambiguous as question:
        return Preview(tabs=tuple(tabs), question=question.message, answer=question.line)
    check(ledger)
    days = [(source.name, day_of(source)) for source in ledger.sources]
    late = [
        f"{name} is as of {day}, but the book is as of {context.day}"
        for name, day in days
        if day not in (None, context.day)
    ]
    return Preview(
        tabs=tuple(_with_rows(tab, ledger) for tab in tabs),
        unused=ledger.unused,
        notices=(*late, *(item.line for item in ledger.notices)),
        rejected=tuple(
            f"{ledger.place(row)}: {row.raw[:60]!r}: {row.reason}" for row in ledger.rejected
        ),
    )


def _preview_tabs(file: OpenedFile, context: ReadingContext) -> Iterator[TabPreview]:
    """Yield the tabs that are read, up to the first tab that raises a question."""
    try:
        for header in chosen_tabs(file, context):
            grid = header.grid
            rows = f"row {grid.line(header.row)}"
            if header.depth > 1:
                rows = f"rows {grid.line(header.row)} to {grid.line(header.body - 1)}"
            yield TabPreview(
                place=header.place,
                header=rows,
                columns=tuple(_column_uses(header)),
                profile=header.profile.name if header.profile else "",
            )
    except Ambiguous:
        return


def _column_uses(header: Header) -> Iterator[ColumnUse]:
    for index, title in enumerate(header.titles):
        use = _use(header, index)
        rows = islice(header.grid.rows, header.body, None)
        values = islice((text for row in rows if (text := text_at(row, index))), 2)
        yield ColumnUse(
            letter=letters(index).rpartition(" ")[2],
            title=title,
            use=use,
            reason=_reason(header, use, title) if use else "",
            values=tuple(value[:24] for value in values),
        )


def _use(header: Header, index: int) -> str:
    """Describe how a column is used. Return an empty string if the column is not read."""
    for name, column in header.columns.items():
        if column == index and name != "amount":
            return name
    for layer in header.layers:
        for term in layer.terms:
            if term.column == index:
                label = "".join(f" of {name}" for name in layer.names.values())
                return f"amount subtracted{label}" if term.is_negative else f"amount{label}"
    row_filters = dict.fromkeys(header.rows.values(), "row filter")
    return ({header.sign: "sign", header.unit: "unit"} | row_filters).get(index, "")


def _reason(header: Header, use: str, title: str) -> str:
    """Return the reason why a column is used this way."""
    use, shape = use.split(maxsplit=1)[0], header.shape
    others = (shape.sign or "", shape.unit_column, *shape.row_columns)
    settled = {fold(text) for text in (*shape.columns.values(), *shape.amounts, *others)}
    if fold(title) in settled or (shape.columns_are and use == "amount"):
        return f"known from {header.profile.name}" if header.profile else "specified in recon.toml"
    if header.words.field_of(title) == use:
        return f"its title is a known word for {use}"
    return "recognised by its title"


def _with_rows(tab: TabPreview, ledger: Ledger) -> TabPreview:
    """Return a copy of a tab preview, with the tab's row counts, first rows and totals."""
    place_names = [source.place_name for source in ledger.sources]
    number = place_names.index(tab.place)
    source, table = ledger.sources[number], ledger.lines.table
    own = table.filter(pc.equal(table["file"], number))
    first = own.slice(0, _FIRST_ROWS).select([*source.fields, "amount"]).to_pylist()
    amounts: dict[str, list[str]] = {}
    for asset, amount in zip(own["asset"].to_pylist(), own["amount"].to_pylist(), strict=True):
        amounts.setdefault(asset, []).append(amount)
    return replace(
        tab,
        source=source,
        rows=tuple(tuple(row.values()) for row in first),
        totals=tuple((asset, total(texts), len(texts)) for asset, texts in sorted(amounts.items())),
    )


def preview_lines(seen: Preview) -> Iterator[str]:
    """Yield a preview as lines for a terminal."""
    for tab in seen.tabs:
        reasons = {item.name: item.reason for item in seen.unused if item.file == tab.place}
        yield from _column_lines(tab, reasons)
        if tab.source:
            yield from _row_lines(tab, tab.source)
    for item in seen.unused:
        if item.kind is not FilePart.COLUMN:
            yield f"Not used: {item.location}: {item.reason}"
    yield from (f"Rejected: {line}" for line in seen.rejected[:_FIRST_ROWS])
    if len(seen.rejected) > _FIRST_ROWS:
        yield f"Rejected: {count_of(len(seen.rejected) - _FIRST_ROWS, 'more row')}"
    yield from (f"Note: {line}" for line in seen.notices)
    if seen.question:
        yield f"Question: {seen.question}"
        yield how_to_answer(seen.answer)
        yield from (f"    {line}" for line in seen.answer.splitlines())


def _column_lines(tab: TabPreview, reasons: Mapping[str, str]) -> Iterator[str]:
    profile = f", an export of {tab.profile}" if tab.profile else ""
    yield f"{tab.place}: the header is {tab.header}{profile}"
    width = min(max((len(column.title) for column in tab.columns), default=0), _MAX_WIDTH)
    for column in tab.columns:
        reason = reasons.get(repr(column.title), column.reason)
        use = f"{column.use or 'not used'}{f' ({reason})' if reason else ''}"
        values = " | ".join(column.values)
        yield f"  {column.letter:>2}  {column.title:<{width}}  {use}   {values}".rstrip()


def _row_lines(tab: TabPreview, source: LedgerSource) -> Iterator[str]:
    skipped = ", ".join(f"{number} {reason}" for reason, number in source.skipped.items())
    yield (
        f"  compared by {', '.join(source.fields)}; {count_of(source.rows, 'amount')}: "
        f"{source.used} used, {source.rejected} rejected, skipped: {skipped or 'none'}"
    )
    yield f"  first rows as read ({', '.join((*source.fields, 'amount'))}):"
    yield from (f"    {'  '.join(row)}" for row in tab.rows)
    yield "  totals:"
    amounts = [text.partition(".") for _, text, _ in tab.totals]
    whole_width = max((len(whole) for whole, _, _ in amounts), default=0)
    decimals = max((len(part) for _, _, part in amounts), default=0)
    rows = zip(tab.totals, amounts, strict=True)
    for (asset, _, count), (whole, point, part) in islice(rows, _MAX_ASSETS):
        amount = f"{whole:>{whole_width}}{point or ' '}{part:<{decimals}}"
        yield f"    {display_asset(asset):<10} {amount}  in {count_of(count, 'row')}"
    if len(tab.totals) > _MAX_ASSETS:
        yield f"    and {count_of(len(tab.totals) - _MAX_ASSETS, 'more asset')}"
