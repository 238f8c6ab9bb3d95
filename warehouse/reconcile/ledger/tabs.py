"""Which tabs of a file are the ledger, at which level, and what becomes of the other tabs."""

from collections.abc import Iterator, Sequence

from warehouse.reconcile.config import Config, setting
from warehouse.reconcile.dimensions import FIELDS
from warehouse.reconcile.errors import Ambiguous, NotReconciled
from warehouse.reconcile.ledger.header import Header, header, unknown
from warehouse.reconcile.ledger.model import Kind, Remembered, Unused
from warehouse.reconcile.ledger.unread import holds_amounts
from warehouse.spreadsheet.reading.grid import Grid, OpenedFile
from warehouse.spreadsheet.reading.text import as_text

ALL = "*"  # of the setting `sheet`: every tab that has the headers of a ledger


def chosen_tabs(file: OpenedFile, config: Config, known: Remembered) -> list[tuple[Grid, Header]]:
    """Return the sheets that are the ledger, hidden ones among them; two are a question."""
    found = []
    for grid in file.grids:
        head = header(grid, config, known, file.path.name)
        if head is not None:
            found.append((grid, head))
    wanted = {head.shape.sheet for _, head in found} - {""}
    if ALL in wanted:
        return found
    if wanted:
        named = [tab for tab in found if tab[0].sheet in wanted]
        if not named:
            raise NotReconciled(
                f"{file.path.name} has no sheet {', '.join(sorted(wanted))}; its sheets are "
                f"{', '.join(grid.sheet for grid in file.grids)}. Nothing was reconciled. Mend "
                "`sheet` in recon.toml."
            )
        found = named
    if not found:
        raise unknown(file.grids, file.path.name)
    if len(found) > 1:
        names = ", ".join(
            f"{grid.sheet!r}{'' if grid.is_visible else ' (hidden)'}" for grid, _ in found
        )
        raise Ambiguous(
            f"{file.path.name}: the sheets {names} may each be the ledger.",
            f'[ledger."{found[0][1].print}"]\n{setting("sheet", found[0][0].sheet)}'
            f'   # or "{ALL}", where all of them together are',
        )
    return found


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
            f'{", ".join(config.level)}. Name the column under [ledger."{head.print}"], like '
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
            yield Unused(name, Kind.TAB, grid.sheet, f"{hidden}it is empty")
        elif not holds_amounts(grid.rows):
            yield Unused(name, Kind.TAB, grid.sheet, f"{hidden}it holds no amounts")
        elif head.shape.sheet:
            words = f"{hidden}recon.toml says {setting('sheet', head.shape.sheet)}"
            yield Unused(name, Kind.TAB, grid.sheet, words, "medium")
        else:
            asked.append(grid)
    for title, kind in file.others:
        yield Unused(name, Kind.TAB, title, f"it holds no cells ({kind})")
    if asked:
        shown = ", ".join(
            f"{question.sheet!r}{'' if question.is_visible else ' (hidden)'}" for question in asked
        )
        raise Ambiguous(
            f"{name}: the ledger was found in {chosen[0][0].sheet!r}, and there are amounts in "
            f"{shown}, whose columns are not understood.",
            f'[ledger."{head.print}"]\n{setting("sheet", chosen[0][0].sheet)}   # the others are '
            "then left out",
        )
