"""A ledger preview: the columns and rows that a run would read, or the question it would ask."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
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
from warehouse.reconcile.model import FilePart, Ledger
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


@dataclass(frozen=True, slots=True)
class Preview:
    """Everything that a run would read from a file, as lines for a terminal.

    `answer` has the recon.toml lines that answer `question`.
    """

    lines: tuple[str, ...]
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
    heads = [head for file in files for head in _headers(file, context)]
    try:
        ledger = read_ledger(files, context)
    except Ambiguous as question:
        lines = [line for head in heads for line in _column_lines(head, {})]
        lines += [f"Question: {question.message}", how_to_answer(question.line)]
        lines += [f"    {line}" for line in question.line.splitlines()]
        return Preview(tuple(lines), question.message, question.line)
    check(ledger)
    return Preview(tuple(_lines(heads, ledger, context.day)))


def _headers(file: OpenedFile, context: ReadingContext) -> list[Header]:
    """Return the headers of the tabs that are read, or none if the tabs raise a question."""
    try:
        return chosen_tabs(file, context)
    except Ambiguous:
        return []


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


def _lines(heads: Iterable[Header], ledger: Ledger, day: date) -> Iterator[str]:
    """Yield the lines about a ledger that raises no question."""
    place_names = [source.place_name for source in ledger.sources]
    for head in heads:
        reasons = {item.name: item.reason for item in ledger.unused if item.file == head.place}
        yield from _column_lines(head, reasons)
        yield from _row_lines(ledger, place_names.index(head.place))
    for item in ledger.unused:
        if item.kind is not FilePart.COLUMN:
            yield f"Not used: {item.location}: {item.reason}"
    for row in ledger.rejected[:_FIRST_ROWS]:
        yield f"Rejected: {ledger.place(row)}: {row.raw[:60]!r}: {row.reason}"
    if len(ledger.rejected) > _FIRST_ROWS:
        yield f"Rejected: {count_of(len(ledger.rejected) - _FIRST_ROWS, 'more row')}"
    for source in ledger.sources:
        if (stated := day_of(source)) not in (None, day):
            yield f"Note: {source.name} is as of {stated}, but the book is as of {day}"
    yield from (f"Note: {item.line}" for item in ledger.notices)


def _column_lines(head: Header, reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield how each column of a tab is used, and why. `reasons` are those of unused columns."""
    rows = f"row {head.grid.line(head.row)}"
    if head.depth > 1:
        rows = f"rows {head.grid.line(head.row)} to {head.grid.line(head.body - 1)}"
    profile = f", an export of {head.profile.name}" if head.profile else ""
    yield f"{head.place}: the header is {rows}{profile}"
    width = min(max(map(len, head.titles), default=0), _MAX_WIDTH)
    for index, title in enumerate(head.titles):
        use = _use(head, index)
        reason = reasons.get(repr(title), _reason(head, use, title) if use else "")
        shown = f"{use or 'not used'}{f' ({reason})' if reason else ''}"
        texts = (text_at(row, index) for row in islice(head.grid.rows, head.body, None))
        values = " | ".join(text[:24] for text in islice(filter(None, texts), 2))
        letter = letters(index).rpartition(" ")[2]
        yield f"  {letter:>2}  {title:<{width}}  {shown}   {values}".rstrip()


def _row_lines(ledger: Ledger, number: int) -> Iterator[str]:
    """Yield a tab's row counts, its first used rows, and each asset's exact sum."""
    source, table = ledger.sources[number], ledger.lines.table
    skipped = ", ".join(f"{number} {reason}" for reason, number in source.skipped.items())
    yield (
        f"  compared by {', '.join(source.fields)}; {count_of(source.rows, 'amount')}: "
        f"{source.used} used, {source.rejected} rejected, skipped: {skipped or 'none'}"
    )
    shown = [*source.fields, "amount"]
    yield f"  first rows as read ({', '.join(shown)}):"
    own = table.filter(pc.equal(table["file"], number))
    for row in own.slice(0, _FIRST_ROWS).select(shown).to_pylist():
        yield f"    {'  '.join(row.values())}"
    yield "  totals:"
    texts: dict[str, list[str]] = {}
    for asset, amount in zip(own["asset"].to_pylist(), own["amount"].to_pylist(), strict=True):
        texts.setdefault(asset, []).append(amount)
    sums = {asset: total(amounts).partition(".") for asset, amounts in sorted(texts.items())}
    whole_width = max((len(whole) for whole, _, _ in sums.values()), default=0)
    decimals = max((len(part) for _, _, part in sums.values()), default=0)
    for asset, (whole, point, part) in islice(sums.items(), _MAX_ASSETS):
        amount = f"{whole:>{whole_width}}{point or ' '}{part:<{decimals}}"
        yield f"    {display_asset(asset):<10} {amount}  in {count_of(len(texts[asset]), 'row')}"
    if len(sums) > _MAX_ASSETS:
        yield f"    and {count_of(len(sums) - _MAX_ASSETS, 'more asset')}"
