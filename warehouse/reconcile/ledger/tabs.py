"""Which tabs of a file are the ledger, at which level, and what becomes of the other tabs."""

from collections.abc import Iterator, Sequence

from warehouse.reconcile.ledger.header.header_row import Header, header, question_of_columns
from warehouse.reconcile.ledger.model import FilePart, Remembered, Unused
from warehouse.reconcile.ledger.unread import holds_amounts
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.settings.toml_table import setting
from warehouse.reconcile.terms.dimensions import FIELDS
from warehouse.reconcile.terms.errors import Ambiguous, NotReconciled
from warehouse.spreadsheet.reading.grid import Grid, OpenedFile
from warehouse.spreadsheet.reading.text import as_text

ALL = "*"  # of the setting `sheet`: every tab that has the headers of a ledger


def chosen_tabs(file: OpenedFile, config: Config, shapes: Remembered) -> list[tuple[Grid, Header]]:
    """Return the sheets that are the ledger, hidden ones among them; two are a question."""
    tabs = []
    for grid in file.grids:
        head = header(grid, config, shapes, file.path.name)
        if head is not None:
            tabs.append((grid, head))
    wanted = {head.shape.sheet for _, head in tabs} - {""}
    if ALL in wanted:
        return tabs
    if wanted:
        named = [tab for tab in tabs if tab[0].sheet in wanted]
        if not named:
            raise NotReconciled(
                f"{file.path.name} has no sheet {', '.join(sorted(wanted))}; its sheets are "
                f"{', '.join(grid.sheet for grid in file.grids)}. Nothing was reconciled. Mend "
                "`sheet` in recon.toml."
            )
        tabs = named
    if not tabs:
        raise question_of_columns(file.grids, file.path.name)
    if len(tabs) > 1:
        names = ", ".join(
            f"{grid.sheet!r}{'' if grid.is_visible else ' (hidden)'}" for grid, _ in tabs
        )
        raise Ambiguous(
            f"{file.path.name}: the sheets {names} may each be the ledger.",
            f'[ledger."{tabs[0][1].fingerprint}"]\n{setting("sheet", tabs[0][0].sheet)}'
            f'   # or "{ALL}", where all of them together are',
        )
    return tabs


def level_of(head: Header, config: Config, where: str) -> tuple[str, ...]:
    """Return the level of a sheet; raise `Ambiguous` where one is asked for that it cannot give."""
    has = tuple(name for name in FIELDS if name in head.columns)
    if config.level is None:
        return has
    lacking = [name for name in config.level if name not in has]
    if lacking:
        common = ", ".join(f'"{name}"' for name in has if name in config.level)
        raise Ambiguous(
            f"{where} has no column for {', '.join(lacking)}, and `level` in recon.toml asks for "
            f'{", ".join(config.level)}. Name the column under [ledger."{head.fingerprint}"], like '
            f'{lacking[0]} = "...", or ask for a level that it has.',
            f"level = [{common}]   # in place of the line that is there",
        )
    return config.level


def other_tabs(file: OpenedFile, chosen: Sequence[tuple[Grid, Header]]) -> Iterator[Unused]:
    """Yield the tabs that are not read; raise `Ambiguous` where one may hold amounts."""
    name = file.path.name
    head = chosen[0][1]
    asked = []
    for grid in file.grids:
        if any(grid is tab for tab, _ in chosen):
            continue
        hidden = "" if grid.is_visible else "it is hidden, and "
        if not any(as_text(cell).strip() for row in grid.rows for cell in row):
            yield Unused(name, FilePart.TAB, grid.sheet, f"{hidden}it is empty")
        elif not holds_amounts(grid.rows):
            yield Unused(name, FilePart.TAB, grid.sheet, f"{hidden}it holds no amounts")
        elif head.shape.sheet:
            words = f"{hidden}recon.toml says {setting('sheet', head.shape.sheet)}"
            yield Unused(name, FilePart.TAB, grid.sheet, words, "medium")
        else:
            asked.append(grid)
    for title, kind in file.others:
        yield Unused(name, FilePart.TAB, title, f"it holds no cells ({kind})")
    if asked:
        names = ", ".join(
            f"{question.sheet!r}{'' if question.is_visible else ' (hidden)'}" for question in asked
        )
        raise Ambiguous(
            f"{name}: the ledger was found in {chosen[0][0].sheet!r}, and there are amounts in "
            f"{names}, whose columns are not understood.",
            f'[ledger."{head.fingerprint}"]\n{setting("sheet", chosen[0][0].sheet)}'
            "   # the others are then left out",
        )
