"""Dry runs, which run a command on a temporary copy of the home and show the changes.

The copy consists of links in the folder for temporary files (TMPDIR). The original is safe, because
commands replace a home's files and never modify them in place.
"""

# ruff: noqa: S608 - table names are constants, and a date is a literal

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from assets.nightbook import Nightbook
from pipelines.lakehouse.entrance import CATALOG, SHELF
from pipelines.landing import snapshots
from warehouse.contract.book import BOOK
from warehouse.contract.model import literal
from warehouse.contract.reconciliation import RECORD_FOLDERS
from warehouse.query.read import run as ask
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

ROWS, STATE, TOTAL = "rows", "state", "total"
AMOUNTS = "balances"
# Facts about a warehouse. A key consists of a date, a kind, a name, and a flag for custom assets. A
# value consists of the text to show, and a hash of the content that is not shown.
Values = dict[tuple[str, str, str, bool | None], tuple[str | None, str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change that a dry run found: in a table's rows, an asset's total or a snapshot's state.

    `before` and `after` are the row counts, totals or states, or None if there is none. If two row
    counts are equal, the content of the rows differs.
    """

    date: str
    what: str
    name: str
    is_custom_asset: bool | None = None
    before: str | None
    after: str | None


@contextlib.contextmanager
def rehearsing(nightbook: Nightbook, *, is_empty: bool = False) -> Iterator[Nightbook]:
    """Yield a temporary copy of the home, or an empty temporary home."""
    with tempfile.TemporaryDirectory(prefix="nightbook-dry-run-") as scratch:
        home = Path(scratch) / "home"
        if not is_empty:
            _link_home(nightbook.layout, home)
        # Disable the shelf, so that other machines do not see the result of the dry run.
        variables = dict(nightbook.variables()) | {HOME: str(home), SHELF: "", CATALOG: ""}
        try:
            yield replace(nightbook, variables=lambda: variables)
        except Exception as error:
            # In error messages, replace paths in the copy with paths in the original home.
            paths = (str(home), str(nightbook.layout.home))
            error.args = tuple(
                part.replace(*paths) if isinstance(part, str) else part for part in error.args
            )
            raise


def _link_home(layout: Layout, home: Path) -> None:
    """Create a copy of a home's folders, with links to its files."""
    # Do not copy working files (locks, temporary files, Dagster's records) or old versions of the
    # warehouse.
    kept = (layout.home / name for name in (*RECORD_FOLDERS.values(), "reference/kept"))
    for folder in (layout.landing, layout.lake, *kept):
        _link_files(folder, home / folder.relative_to(layout.home))
    current = layout.warehouse / "current"
    if current.is_symlink():
        version = current.readlink()
        _link_files(current.resolve(), home / "warehouse" / version)
        (home / "warehouse" / "current").symlink_to(version)
    for file in layout.home.iterdir():
        if file.is_file() and not file.name.startswith("."):
            (home / file.name).symlink_to(file.resolve())


def _link_files(source: Path, target: Path) -> None:
    for folder, _, names in os.walk(source):
        new_folder = target / Path(folder).relative_to(source)
        new_folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (new_folder / name).symlink_to((Path(folder) / name).absolute())


def state_changes(before: Layout, after: Layout) -> list[Change]:
    """Return the changes in the states of landed snapshots between two homes."""
    states = {
        snapshot.snapshot_id: snapshot.state for snapshot in snapshots.landed_snapshots(before)
    }
    return [
        Change(
            date=snapshot.snapshot_date.isoformat(),
            what=STATE,
            name=snapshot.snapshot_id,
            before=states.get(snapshot.snapshot_id),
            after=snapshot.state,
        )
        for snapshot in snapshots.landed_snapshots(after)
        if states.get(snapshot.snapshot_id) != snapshot.state
    ]


def changes(before: Layout, after: Layout) -> list[Change]:
    """Return the differences between the published rows and totals of two homes, by date."""
    rows = _differences(_counts(before), _counts(after))
    days = sorted({change.date for change in rows if change.name == AMOUNTS})
    return [*rows, *_differences(_totals(before, days), _totals(after, days))]


def _differences(old: Values, new: Values) -> list[Change]:
    absent = (None, None)
    return [
        Change(
            date=day,
            what=what,
            name=name,
            is_custom_asset=is_custom,
            before=old.get(key, absent)[0],
            after=new.get(key, absent)[0],
        )
        for key in sorted(old.keys() | new.keys())
        if old.get(key, absent) != new.get(key, absent)
        for day, what, name, is_custom in [key]
    ]


def _counts(layout: Layout) -> Values:
    """Return the row count and a content hash for each date and table."""
    if not layout.database.exists():
        return {}
    counts: Values = {}
    for table in BOOK:
        sql = (
            "select snapshot_date::varchar, count(*)::varchar, sum(hash(row_))::varchar "
            f"from history.{table.name} as row_ group by all"
        )
        for day, count, digest in ask(layout.database, sql).rows:
            counts[day, ROWS, table.name, None] = (count, digest)
    return counts


def _totals(layout: Layout, days: list[str]) -> Values:
    """Return each asset's exact total on each of these dates."""
    if not days or not layout.database.exists():
        return {}
    totals: Values = {}
    for day in days:
        sql = (
            "select asset_id, is_custom_asset, exact_sum(amount_text) from history.balances "
            f"where snapshot_date = date {literal(day)} group by all"
        )
        for asset, is_custom, total in ask(layout.database, sql).rows:
            totals[day, TOTAL, asset, is_custom] = (total, None)
    return totals
