"""Functions that choose the tabs with the ledger, or ask about an unknown header."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import islice

from warehouse.reconcile.ledger.columns import has_amounts
from warehouse.reconcile.ledger.dates import is_date
from warehouse.reconcile.ledger.header import Header, find_header
from warehouse.reconcile.ledger.header_settings import ReadingContext, profile_of
from warehouse.reconcile.ledger.titles import fingerprint, samples, titles_of
from warehouse.reconcile.model import FilePart, Unused
from warehouse.reconcile.settings.layout import ALL, READ, UNUSED, day_in, name_pattern
from warehouse.reconcile.settings.toml import heading, quote_list, setting
from warehouse.reconcile.terms import CHOICE, FIELDS, Ambiguous, NotReconciled, choices, letters
from warehouse.spreadsheet.reading.grid import HEAD, Grid, OpenedFile
from warehouse.spreadsheet.reading.printed_tables import PRINTED, REMEDY
from warehouse.spreadsheet.reading.text import first_text, text_at

_TICKER = re.compile("[A-Z][A-Z0-9]{1,9}")

_NUMBER = re.compile(
    r"[(+\-\u2212]?[^\w\s(]{0,2}[0-9][0-9\s.,'\u2019]*(e[+-]?[0-9]+)?[\s)-]*", re.IGNORECASE
)

_SHOWN, _ROWS = 12, 200
_MIN_SHARE = 0.5  # propose a field for a column if more than this fraction of the cells match


@dataclass(frozen=True, slots=True, kw_only=True)
class _TitledColumn:
    """A column with a title, and the name that recon.toml can use for the column.

    `field` is the field that the title names. `second` is the field that the title names unless a
    different title names it. `names` is the field whose names are in most of the cells.
    """

    name: str
    title: str
    field: str
    second: str
    names: str
    is_number: bool
    is_ticker: bool


def unknown_header(
    grids: Sequence[Grid], file: str, context: ReadingContext
) -> Ambiguous | NotReconciled:
    """Return the question to ask about a file without a known header. It lists the columns."""
    # A contents page has titles, but no amounts.
    for grid in sorted(grids, key=lambda grid: not has_amounts(grid.rows)):
        if refusal := refusal_of(grid):
            line = f"[inbox]\n{setting(file, UNUSED)}"
            return Ambiguous(f"{file}: {refusal}, and remove this file from the inbox.", line)
        if grid.is_printed:
            return NotReconciled(f"{file} {PRINTED}. {REMEDY}. Nothing was reconciled.")
        row = _likely_header(grid)
        if row is not None:
            return _question(grid, row, file, context)
    return NotReconciled(
        f"{file} does not contain a table: expected a row with titles for at least the asset and "
        "the amount, and rows below it. Nothing was reconciled. `nightbook reconcile init` writes "
        "a template. If the file is not a ledger, remove it from the inbox, or add to recon.toml "
        f"under [inbox] {setting(file, UNUSED)}"
    )


def refusal_of(grid: Grid) -> str:
    """Return why a sheet from a known export is not a ledger, or an empty string."""
    profiles = (profile_of(titles_of(cells)) for cells in islice(grid.rows, HEAD))
    return next((profile.refusal for profile in profiles if profile and profile.refusal), "")


def _likely_header(grid: Grid) -> int | None:
    """Return the index of the row with the most titles, or None if no row has two titles.

    If several rows have the same number of titles, the first one counts. The last row is ignored.
    """
    titles = [
        sum(bool(title) and not _NUMBER.fullmatch(title) for title in titles_of(cells))
        for cells in islice(grid.rows, min(HEAD, len(grid.rows) - 1))
    ]
    most = max(titles, default=0)
    return titles.index(most) if most > 1 else None


def _question(grid: Grid, row: int, file: str, context: ReadingContext) -> Ambiguous:
    titles = titles_of(grid.rows[row])
    columns = [_column(grid, row, column, context) for column in range(len(titles))]
    table = heading("ledger", fingerprint(titles))
    shown = "; ".join(samples(grid, row, _SHOWN))
    message = (
        f"{file}: no row has titles for the asset and the amount. These are the columns and their "
        f"first values: {shown[:1500]}."
    )
    known = context.known
    dimension = known.shared_dimension([title for title in titles if title])
    labels = [item for item in columns if item.is_number and known.has(dimension, item.title)]
    if len(labels) > 1:
        message += f" The titles are {dimension} names, so each column seems to contain the "
        message += f"amounts of one {dimension}."
        return Ambiguous(
            message, _answer_of_pivot(columns, labels, dimension, table=table, file=file)
        )
    message += f" The settings for columns are {', '.join(READ)}. If the file is not a ledger, add "
    message += f"{setting(file, UNUSED)} under [inbox] instead."
    return Ambiguous(message, _answer(columns, table, file))


def _answer_of_pivot(
    columns: Sequence[_TitledColumn],
    labels: Sequence[_TitledColumn],
    dimension: str,
    *,
    table: str,
    file: str,
) -> str:
    """Return recon.toml lines for a pivot table, which has an amount column for each name."""
    lines = [heading("file", name_pattern(file)), setting("columns_are", dimension)]
    rest = [item for item in columns if item not in labels]
    # List the amount columns if a name is also a field's title or if other columns contain numbers.
    # Otherwise, the amount columns are obvious.
    if any(item.is_number for item in rest) or any(item.field or item.second for item in labels):
        lines.append(f"label_columns = {quote_list(item.title for item in labels)}")
    is_said = dimension == "asset" or any("asset" in (item.field, item.names) for item in rest)
    named = [] if is_said else _lines_of("asset", [item for item in rest if item.is_ticker])
    named += _named_by_cells(rest, dimension)
    return "\n".join([*lines, *([table, *named] if named else [])])


def _answer(columns: Sequence[_TitledColumn], table: str, file: str) -> str:
    """Return recon.toml lines for the asset, the amount, and columns recognised by their cells."""
    assets = (
        [item for item in columns if item.field == "asset"]
        or [item for item in columns if item.names == "asset"]
        or [item for item in columns if item.is_ticker and not item.names]
    )
    amounts = [item for item in columns if item.field == "amount"]
    amounts = amounts or [item for item in columns if item.is_number]
    lines = [table, *_lines_of("asset", assets), *_lines_of("amount", amounts)]
    if assets and amounts:
        return "\n".join([*lines, *_named_by_cells(columns, "asset")])
    return "\n".join([*lines, choices("[inbox]", setting(file, UNUSED))])


def _lines_of(field: str, columns: Sequence[_TitledColumn]) -> list[str]:
    """Return the recon.toml line that names a field's column, or several lines to choose from."""
    if len(columns) == 1:
        return [setting(field, columns[0].name)]
    lines = [setting(field, item.name) for item in columns] or [f'{field} = "..."']
    return [f"{CHOICE}{line}" for line in lines]


def _named_by_cells(columns: Sequence[_TitledColumn], taken: str) -> list[str]:
    """Return lines for columns with unknown titles but known names, like venues, in their cells."""
    said = {taken, *(item.field for item in columns)}
    named: dict[str, str] = {}
    for item in columns:
        if item.names and item.names not in said and not item.field:
            named.setdefault(item.names, item.name)
    return [setting(field, name) for field, name in named.items()]


def _column(grid: Grid, row: int, column: int, context: ReadingContext) -> _TitledColumn:
    title = titles_of(grid.rows[row])[column]
    rows = islice(grid.rows, row + 1, row + _ROWS)
    cells = [cell for below in rows if (cell := text_at(below, column))]
    names = Counter(context.known.dimension_of(cell) for cell in cells)
    dimension = max(names, key=lambda name: names[name], default="")
    words = context.words
    is_other = any(words.is_title(title, kind) for kind in ("figure", "number"))
    return _TitledColumn(
        name=title or letters(column),
        title=title,
        field=words.field_of(title),
        second=words.second_field_of(title),
        names=dimension if names[dimension] > _MIN_SHARE * len(cells) else "",
        is_number=not is_other and _are_most(cells, _is_number),
        is_ticker=_are_most(cells, lambda cell: bool(_TICKER.fullmatch(cell))),
    )


def _are_most(cells: Sequence[str], is_like: Callable[[str], bool]) -> bool:
    return sum(map(is_like, cells)) > _MIN_SHARE * len(cells)


def _is_number(cell: str) -> bool:
    return bool(_NUMBER.fullmatch(cell)) and day_in(cell) is None and not is_date(cell)


def chosen_tabs(file: OpenedFile, context: ReadingContext) -> list[Header]:
    """Return the headers of the sheets that contain the ledger, including hidden sheets.

    Raises `Ambiguous` if several sheets may be the ledger.
    """
    name = file.path.name
    grids = _grids_to_read(file, context)
    tabs, unclear = _headers(grids, name, context)
    if not tabs:
        raise unknown_header(grids, name, context)
    wanted = {head.shape.sheet for head in tabs} - {""}
    if ALL in wanted or context.config.of_file(name).tab:
        for question in unclear.values():
            raise question
        return tabs
    if wanted:
        named = [head for head in tabs if head.grid.sheet in wanted]
        if not named:
            raise _no_such_sheet(file, wanted)
        tabs = named
    elif unclear:
        raise _question_of_others([grid for grid in grids if grid.sheet in unclear], tabs)
    tabs = _tabs_of_day(tabs, context.day)
    if len(tabs) > 1:
        raise _several_tabs(tabs)
    return tabs


def _grids_to_read(file: OpenedFile, context: ReadingContext) -> list[Grid]:
    """Return the sheets that recon.toml does not exclude. Raise an error if none has the name."""
    name = file.path.name
    stated = context.config.of_file(name).shape.sheet
    is_any = stated in ("", ALL)
    grids = [grid for grid in file.grids if is_any or grid.sheet == stated]
    if not grids and not is_any:
        raise _no_such_sheet(file, [stated])
    return [grid for grid in grids if not _is_put_aside(grid, name, context)]


def _headers(
    grids: Sequence[Grid], name: str, context: ReadingContext
) -> tuple[list[Header], dict[str, Ambiguous]]:
    """Return the headers of the sheets, and the questions about sheets that have none so far.

    Raises `Ambiguous` if there are only questions.
    """
    tabs: list[Header] = []
    questions: dict[str, Ambiguous] = {}
    for grid in grids:
        try:
            head = find_header(grid, context, name)
        except Ambiguous as question:
            questions[grid.sheet] = question
        else:
            tabs += [head] if head else []
    if questions and not tabs:
        raise next(iter(questions.values()))
    return tabs, questions


def _no_such_sheet(file: OpenedFile, wanted: Iterable[str]) -> NotReconciled:
    return NotReconciled(
        f"{file.path.name} has no sheet {', '.join(sorted(wanted))}; its sheets are "
        f"{', '.join(grid.sheet for grid in file.grids)}. Nothing was reconciled. Correct "
        "`sheet` in recon.toml."
    )


def _tabs_of_day(tabs: list[Header], day: date) -> list[Header]:
    """Return the tab for the last day up to the book's day, if all tab names contain dates.

    If a tab name has no date, return all tabs. `read_ledgers` decides later whether a ledger for
    another day may be used.
    """
    days = {named: head for head in tabs if (named := day_in(head.grid.sheet)) is not None}
    if len(days) < len(tabs):
        return tabs
    return [days[max([named for named in days if named <= day] or days)]]


def _is_put_aside(grid: Grid, file: str, context: ReadingContext) -> bool:
    """Return whether [inbox] in recon.toml marks a tab (for example `book.xlsx!Old`) as unused."""
    return bool(grid.sheet) and context.config.inbox_setting(f"{file}!{grid.sheet}") == UNUSED


def _names(grids: Iterable[Grid]) -> str:
    return ", ".join(f"{grid.sheet!r}{'' if grid.is_visible else ' (hidden)'}" for grid in grids)


def _several_tabs(tabs: Sequence[Header]) -> Ambiguous:
    """Return the question to ask if several of a file's tabs may be the ledger."""
    first, grids = tabs[0], [head.grid for head in tabs]
    message = f"{first.file}: each of the sheets {_names(grids)} may be the ledger."
    lacking = [name for name in FIELDS if name not in first.fields]
    dimension = first.context.known.shared_dimension([grid.sheet for grid in grids])
    if dimension in lacking:
        return Ambiguous(
            f"{message} Their names are {dimension} names, and no column contains the {dimension}.",
            f'{first.file_table}\ntab = "{dimension}"'
            "   # each tab's name applies to all of its rows",
        )
    lines = [setting("sheet", grid.sheet) for grid in grids]
    return Ambiguous(
        message,
        choices(first.table, *lines, f"{setting('sheet', ALL)}   # all these sheets together"),
    )


def level_of(head: Header) -> tuple[str, ...]:
    """Return a sheet's level: the fields by which it is compared with the book.

    Raises `Ambiguous` if the sheet lacks a field of the level in recon.toml.
    """
    has, level = head.fields, head.context.config.level
    if level is None:
        return has
    lacking = [name for name in level if name not in has]
    if lacking:
        common = ", ".join(f'"{name}"' for name in has if name in level)
        raise Ambiguous(
            f"{head.location} has no column for {', '.join(lacking)}, but `level` in recon.toml is "
            f"{', '.join(level)}. Name the column under {head.table}, like "
            f'{lacking[0]} = "...", or use a level that the ledger has.',
            f"[settings]\nlevel = [{common}]",
        )
    return level


def other_tabs(file: OpenedFile, chosen: Sequence[Header]) -> Iterator[Unused]:
    """Yield the tabs that are not read. Raise `Ambiguous` if one of them may contain a ledger."""
    name = file.path.name
    asked = []
    for grid in file.grids:
        if any(grid is head.grid for head in chosen):
            continue
        reason, severity = _reason_of_tab(grid, chosen[0])
        if reason:
            hidden = "" if grid.is_visible else "it is hidden, and "
            yield Unused(name, FilePart.TAB, grid.sheet, f"{hidden}{reason}", severity)
        else:
            asked.append(grid)
    for title, kind in file.others:
        yield Unused(name, FilePart.TAB, title, f"it does not contain cells ({kind})")
    if asked:
        raise _question_of_others(asked, chosen)


def _reason_of_tab(grid: Grid, chosen: Header) -> tuple[str, str]:
    """Return the reason for not reading a tab, and its severity.

    If the reason is empty, the tab may be a ledger.
    """
    if _is_put_aside(grid, chosen.file, chosen.context):
        return "it is set to unused under [inbox] in recon.toml", "medium"
    if not any(map(first_text, grid.rows)):
        return "it is empty", "low"
    if not has_amounts(grid.rows):
        return "it does not contain any amounts", "low"
    if sheet := chosen.shape.sheet:
        return f"recon.toml says {setting('sheet', sheet)}", "medium"
    day, day_of_chosen = day_in(grid.sheet), day_in(chosen.grid.sheet)
    if day is not None and day_of_chosen not in (None, day):
        return f"the date in its name is {day}", "low"
    return refusal_of(grid), "medium"


def _question_of_others(asked: Sequence[Grid], chosen: Sequence[Header]) -> Ambiguous:
    """Return the question to ask about tabs with amounts in unknown columns."""
    head = chosen[0]
    file, sheet = head.file, head.grid.sheet
    lines = [head.table, setting("sheet", sheet)]
    if head.context.config.of_file(file).tab or len(chosen) > 1:
        lines = ["[inbox]", *(setting(f"{file}!{grid.sheet}", UNUSED) for grid in asked)]
    return Ambiguous(
        f"{file}: the ledger is in {sheet!r}, but there are also amounts in {_names(asked)}, and "
        "their columns are unknown. Use this setting only if the ledger is complete without them.",
        choices(*lines),
    )
