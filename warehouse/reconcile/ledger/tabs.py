"""Which tabs of a file are the ledger, at which level, and what becomes of the other tabs."""

from collections.abc import Iterable, Iterator, Sequence

from warehouse.reconcile.ledger.header.context import ReadingContext
from warehouse.reconcile.ledger.header.header_row import Header, header
from warehouse.reconcile.ledger.header.questions import refusal_of, unknown_header
from warehouse.reconcile.ledger.model import FilePart, Unused
from warehouse.reconcile.ledger.unread import holds_amounts
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.scope import ALL
from warehouse.reconcile.settings.shape import UNUSED
from warehouse.reconcile.settings.toml_table import heading, setting
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.reconcile.terms.errors import Ambiguous, NotReconciled, choices
from warehouse.reconcile.terms.file_names import day_in, name_pattern
from warehouse.spreadsheet.reading.grid import Grid, OpenedFile
from warehouse.spreadsheet.reading.text import first_text


def chosen_tabs(file: OpenedFile, context: ReadingContext) -> list[tuple[Grid, Header]]:
    """Return the sheets that are the ledger, hidden ones among them; two are a question."""
    tabs = []
    name = file.path.name
    for grid in file.grids:
        head = None if _is_put_aside(grid, name, context) else header(grid, context, name)
        if head is not None:
            tabs.append((grid, head))
    if not tabs:
        raise unknown_header(file.grids, name, context)
    wanted = {head.shape.sheet for _, head in tabs} - {""}
    if ALL in wanted or context.config.of_file(name).tab:
        return tabs
    if wanted:
        named = [tab for tab in tabs if tab[0].sheet in wanted]
        if not named:
            raise NotReconciled(
                f"{name} has no sheet {', '.join(sorted(wanted))}; its sheets are "
                f"{', '.join(grid.sheet for grid in file.grids)}. Nothing was reconciled. Mend "
                "`sheet` in recon.toml."
            )
        tabs = named
    tabs = _tabs_of_day(tabs, context)
    if len(tabs) > 1:
        raise _several_tabs(tabs, name, context)
    return tabs


def _tabs_of_day(
    tabs: Sequence[tuple[Grid, Header]], context: ReadingContext
) -> list[tuple[Grid, Header]]:
    """Return the tab of the day of the book, or of the newest day before it, if all have a day.

    Whether a ledger of another day is used at all is decided later (`reading.read_ledgers`).
    """
    days = {day: tab for tab in tabs if (day := day_in(tab[0].sheet)) is not None}
    if len(days) < len(tabs):
        return list(tabs)
    return [days[max([day for day in days if day <= context.day] or days)]]


def _is_put_aside(grid: Grid, file: str, context: ReadingContext) -> bool:
    """Return whether recon.toml says under [inbox] that a tab is unused, as `book.xlsx!Old`."""
    return bool(grid.sheet) and context.config.inbox_setting(f"{file}!{grid.sheet}") == UNUSED


def _names(grids: Iterable[Grid]) -> str:
    return ", ".join(f"{grid.sheet!r}{'' if grid.is_visible else ' (hidden)'}" for grid in grids)


def _several_tabs(
    tabs: Sequence[tuple[Grid, Header]], file: str, context: ReadingContext
) -> Ambiguous:
    """Return the question which of several tabs are the ledger, and what their names say."""
    words = f"{file}: the sheets {_names(grid for grid, _ in tabs)} may each be the ledger."
    lacking = [name for name in FIELDS if name not in tabs[0][1].fields]
    dimension = context.known.shared_dimension([grid.sheet for grid, _ in tabs])
    if dimension in lacking:
        return Ambiguous(
            f"{words} Their names are those of a {dimension}, which no column says.",
            f'{heading("file", name_pattern(file))}\ntab = "{dimension}"'
            "   # the name of each tab is that of its rows",
        )
    lines = [setting("sheet", grid.sheet) for grid, _ in tabs]
    return Ambiguous(
        words,
        choices(tabs[0][1].table, *lines, f"{setting('sheet', ALL)}   # all of them together"),
    )


def level_of(head: Header, config: Config, where: str) -> tuple[str, ...]:
    """Return the level of a sheet; raise `Ambiguous` where one is asked for that it cannot give."""
    has = head.fields
    if config.level is None:
        return has
    lacking = [name for name in config.level if name not in has]
    if lacking:
        common = ", ".join(f'"{name}"' for name in has if name in config.level)
        raise Ambiguous(
            f"{where} has no column for {', '.join(lacking)}, and `level` in recon.toml asks for "
            f"{', '.join(config.level)}. Name the column under {head.table}, like "
            f'{lacking[0]} = "...", or ask for a level that it has.',
            f"[settings]\nlevel = [{common}]",
        )
    return config.level


def other_tabs(
    file: OpenedFile, chosen: Sequence[tuple[Grid, Header]], context: ReadingContext
) -> Iterator[Unused]:
    """Yield the tabs that are not read; raise `Ambiguous` where one may hold amounts."""
    name = file.path.name
    asked = []
    for grid in file.grids:
        if any(grid is tab for tab, _ in chosen):
            continue
        reason, severity = _reason_of_tab(grid, name, chosen[0], context)
        if reason:
            hidden = "" if grid.is_visible else "it is hidden, and "
            yield Unused(
                file=name,
                kind=FilePart.TAB,
                name=grid.sheet,
                reason=f"{hidden}{reason}",
                severity=severity,
            )
        else:
            asked.append(grid)
    for title, kind in file.others:
        yield Unused(name, FilePart.TAB, title, f"it holds no cells ({kind})")
    if asked:
        raise _question_of_others(asked, chosen, name, context)


def _reason_of_tab(
    grid: Grid, file: str, chosen: tuple[Grid, Header], context: ReadingContext
) -> tuple[str, str]:
    """Return why a tab is not read and how loud that is said; nothing where it may be a ledger."""
    if _is_put_aside(grid, file, context):
        return "recon.toml says under [inbox] that it is unused", "medium"
    if not any(map(first_text, grid.rows)):
        return "it is empty", "low"
    if not holds_amounts(grid.rows):
        return "it holds no amounts", "low"
    if sheet := chosen[1].shape.sheet:
        return f"recon.toml says {setting('sheet', sheet)}", "medium"
    day, day_of_chosen = day_in(grid.sheet), day_in(chosen[0].sheet)
    if day is not None and day_of_chosen not in (None, day):
        return f"its name is of {day}", "low"
    return refusal_of(grid), "medium"


def _question_of_others(
    asked: Sequence[Grid],
    chosen: Sequence[tuple[Grid, Header]],
    file: str,
    context: ReadingContext,
) -> Ambiguous:
    """Return the question about tabs with amounts whose columns are not understood."""
    sheet, head = chosen[0][0].sheet, chosen[0][1]
    lines = [head.table, setting("sheet", sheet)]
    if context.config.of_file(file).tab or len(chosen) > 1:
        lines = ["[inbox]", *(setting(f"{file}!{grid.sheet}", UNUSED) for grid in asked)]
    return Ambiguous(
        f"{file}: the ledger was found in {sheet!r}, and there are amounts in {_names(asked)}, "
        "whose columns are not understood. If the ledger is complete without them, take the line.",
        choices(*lines),
    )
