"""A dry run: the command itself, on a copy of the home that is gone afterwards, and what differs.

The copy is made of links in the folder for temporary files (TMPDIR), which holds what the command
would make: files of a home are replaced and never written in place, so that none is touched.
"""

# ruff: noqa: S608 - names are ours, and a date is a literal

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from pipelines.shelf.object_store import SETTING as SHELF
from warehouse.contract.book import BOOK
from warehouse.contract.model import literal
from warehouse.query.read import run as ask
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

ROWS, STATE, TOTAL = "rows", "state", "total"
AMOUNTS = "balances"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What would change on a date: a table's rows, an asset's exact total, a snapshot's state.

    `before` and `after` are None where there is nothing; where they are equal, the content differs.
    """

    date: str
    what: str
    name: str
    is_custom_asset: bool | None = None
    before: str | None
    after: str | None


@contextlib.contextmanager
def rehearsing(nightbook: Nightbook, *, is_empty: bool = False) -> Iterator[Nightbook]:
    """Keep a copy of the home, or an empty one, as long as a command is rehearsed on it."""
    with tempfile.TemporaryDirectory(prefix="nightbook-dry-run-") as scratch:
        home = Path(scratch) / "home"
        if not is_empty:
            _link(nightbook.layout, home)
        # What is rehearsed is not shelved: others would see it.
        variables = dict(nightbook.variables()) | {HOME: str(home), SHELF: ""}
        try:
            yield replace(nightbook, variables=lambda: variables)
        except Exception as error:
            # What is wrong with a file is wrong with that of the home.
            places = (str(home), str(nightbook.layout.home))
            error.args = tuple(
                part.replace(*places) if isinstance(part, str) else part for part in error.args
            )
            raise


def _link(layout: Layout, home: Path) -> None:
    """Make folders as those of a home, with links to its files."""
    # What the home keeps for its own work (locks, scratch, Dagster's records) is left out, and of
    # the versions of the warehouse all but the one that people see.
    for place in (layout.landing, layout.lake, layout.home / "reconcile"):
        _link_files(place, home / place.name)
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
    """Return the snapshots whose state would change."""
    now = {snapshot.snapshot_id: snapshot.state for snapshot in snapshots.landed_snapshots(before)}
    return [
        Change(
            date=snapshot.snapshot_date.isoformat(),
            what=STATE,
            name=snapshot.snapshot_id,
            before=now.get(snapshot.snapshot_id),
            after=snapshot.state,
        )
        for snapshot in snapshots.landed_snapshots(after)
        if now.get(snapshot.snapshot_id) != snapshot.state
    ]


def changes(before: Layout, after: Layout) -> list[Change]:
    """Return what differs between what two homes have published, by date."""
    old, new = (_counts(layout) for layout in (before, after))
    differences = []
    days = set()
    for day, table in sorted(old.keys() | new.keys()):
        if old.get((day, table)) == new.get((day, table)):
            continue
        (was, _), (will_be, _) = (side.get((day, table), (None, None)) for side in (old, new))
        differences.append(Change(date=day, what=ROWS, name=table, before=was, after=will_be))
        days |= {day} if table == AMOUNTS else set()
    return [*differences, *_total_changes(before, after, sorted(days))]


def _counts(layout: Layout) -> dict[tuple[str, str], tuple[str | None, str | None]]:
    """Return the rows of each date and table, with a mark that another content does not have."""
    if not layout.database.exists():
        return {}
    counts: dict[tuple[str, str], tuple[str | None, str | None]] = {}
    for table in BOOK:
        sql = (
            "select snapshot_date::varchar, count(*)::varchar, sum(hash(row_))::varchar "
            f"from history.{table.name} as row_ group by all"
        )
        for day, count, mark in ask(layout.database, sql).rows:
            counts[day, table.name] = (count, mark)
    return counts


def _total_changes(before: Layout, after: Layout, days: list[str]) -> Iterator[Change]:
    old, new = (_totals(layout, days) for layout in (before, after))
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) != new.get(key):
            day, asset, is_custom = key
            yield Change(
                date=day,
                what=TOTAL,
                name=asset,
                is_custom_asset=is_custom,
                before=old.get(key),
                after=new.get(key),
            )


def _totals(layout: Layout, days: list[str]) -> dict[tuple[str, str, bool], str]:
    """Return the exact total of each asset on these dates."""
    if not days or not layout.database.exists():
        return {}
    totals = {}
    for day in days:
        sql = (
            "select asset_id, is_custom_asset, exact_sum(amount_text) from history.balances "
            f"where snapshot_date = date {literal(day)} group by all"
        )
        for asset, is_custom, total in ask(layout.database, sql).rows:
            totals[day, asset, is_custom] = total
    return totals
