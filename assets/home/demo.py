"""The home of a demo. A marker file keeps simulated and real nights out of the same book."""

import contextlib
import csv
import io
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from assets.home.creation import create_home
from pipelines.landing import night_folders
from pipelines.landing.lock import hold_lock, hold_writer_lock
from pipelines.sandbox.world.transactions import COLUMNS, transactions
from pipelines.sandbox.world.world import LivingWorld
from pipelines.settings import Settings
from warehouse.contract.model import count_of
from warehouse.contract.reconciliation import RECORD_FOLDERS
from warehouse.query.formats import as_csv
from warehouse.query.read import run
from warehouse.storage.layout import Layout, json_bytes, write_bytes, write_json

MARK = "demo.json"
_REFERENCE = Path(__file__).parent / "demo_reference"
LOCK = ".demo"
FIRST_NIGHTS = 3
DEMO_CURRENCY, DEMO_PRICE_MAX_AGE = "USD", 7
MARK_CONTENT = {"what": "invented nights of nightbook demo"}


class OnlyADemo(Exception):
    """A command was refused, because it would write a real night into a demo's home."""

    exit_code = 2

    def __init__(self, layout: Layout) -> None:
        super().__init__(
            f"{layout.home} contains a demo's simulated nights, and real nights must not be mixed "
            "with them. Nothing was read or written. Remove that folder, or choose another one: "
            "set NIGHTBOOK_HOME, or run `nightbook --home DIR run`"
        )


class RealNights(Exception):
    """A demo was refused, because it would overwrite a home that contains real nights."""

    exit_code = 2

    def __init__(self, layout: Layout, nights: int) -> None:
        super().__init__(
            f"{layout.home} contains {count_of(nights, 'real snapshot')}, and the simulated nights "
            "of a demo must not be mixed with them. Nothing was written. Choose another home: "
            "nightbook --home DIR demo"
        )


class NoDemo(Exception):
    """The next simulated night was requested, but the home does not contain a demo."""

    exit_code = 2

    def __init__(self, layout: Layout) -> None:
        super().__init__(
            f"{layout.home} does not contain a demo, so it has no next night. Nothing was written. "
            "Simulate the first nights: nightbook demo"
        )


class NotADemo(Exception):
    """A demo was refused, because it would delete folders that no demo created."""

    exit_code = 2

    def __init__(self, layout: Layout, names: Sequence[str]) -> None:
        super().__init__(
            f"{layout.home} contains {', '.join(names)}, but no {MARK} of an earlier demo. A "
            "demo would start by deleting these folders. Nothing was deleted or written. Choose an "
            "empty folder: nightbook --home DIR demo"
        )


def with_demo_prices(layout: Layout, settings: Settings) -> Settings:
    """Return the settings of a home. A demo, whose user has set nothing, shows values."""
    if not is_demo(layout):
        return settings
    return replace(
        settings,
        currency=settings.currency or DEMO_CURRENCY,
        price_max_age=settings.price_max_age or DEMO_PRICE_MAX_AGE,
    )


def is_demo(layout: Layout) -> bool:
    """Return whether a home contains a demo."""
    return (layout.home / MARK).is_file()


def require_real(layout: Layout) -> None:
    """Raise `OnlyADemo` if a home contains a demo."""
    if is_demo(layout):
        raise OnlyADemo(layout)


@contextlib.contextmanager
def the_demo(layout: Layout, now: datetime) -> Iterator[None]:
    """Empty and mark a home for a demo, and lock it during the `with` block.

    Raises `RealNights` or `NotADemo` if the home contains data other than a demo, and `WriterBusy`
    if another demo or writer is active.
    """
    # Check the folder before creating locks in it, because it may belong to another program.
    _require_place(layout)
    # Hold the demo's own lock throughout the demo. Each night also acquires the writer's lock.
    with hold_lock(layout, layout.home / LOCK, "the demo", now):
        with hold_writer_lock(layout, "starting the demo", now):
            make_demo(layout)
        yield


@contextlib.contextmanager
def next_of_demo(layout: Layout, now: datetime) -> Iterator[list[date]]:
    """Lock a demo's home and yield the dates of its nights.

    Raises `NoDemo` if the home contains no demo.
    """
    days = night_folders.dates(layout)
    if not is_demo(layout) or len(days) < FIRST_NIGHTS:
        raise NoDemo(layout)
    with hold_lock(layout, layout.home / LOCK, "the demo", now):
        yield days


def make_demo(layout: Layout) -> None:
    """Empty a home and mark it as a demo's home. The caller must hold the writer's lock.

    Raises `RealNights`, `NotADemo`.
    """
    # Write the marker first, so that a demo that was killed can start over.
    _require_place(layout)
    write_json(layout.home / MARK, MARK_CONTENT)
    for path in _places(layout):
        shutil.rmtree(path, ignore_errors=True)
    create_home(layout)


def _require_place(layout: Layout) -> None:
    """Raise an error unless the home is empty or contains an earlier demo."""
    mark = layout.home / MARK
    # Compare the content of the marker file, because a different program may use the same file
    # name.
    if mark.is_file() and mark.read_bytes() == json_bytes(MARK_CONTENT):
        return
    if nights := len(list(night_folders.folders(layout))):
        raise RealNights(layout, nights)
    names = [path.name for path in (*_places(layout), mark) if os.path.lexists(path)]
    if names:
        raise NotADemo(layout, names)


def _places(layout: Layout) -> tuple[Path, ...]:
    """Return the folders that a demo creates, and deletes before starting."""
    return (
        layout.landing,
        layout.lake,
        layout.warehouse,
        layout.exports,
        layout.reports,
        layout.runs,
        layout.dagster,
        layout.work,
        *(layout.home / name for name in (*RECORD_FOLDERS.values(), "reference", "checks")),
    )


def drop_tables(layout: Layout) -> None:
    """Drop the tables and checks that people bring, made from the newest book."""
    for query in sorted(_REFERENCE.glob("*.sql")):
        rows = as_csv(run(layout.database, query.read_text("utf-8")))
        write_bytes(layout.home / "reference" / query.stem / f"{query.stem}.csv", rows.encode())
    for check in sorted(_REFERENCE.glob("checks/*.sql")):
        write_bytes(layout.home / "checks" / check.name, check.read_bytes())


def drop_transactions(layout: Layout, before: datetime, after: datetime) -> tuple[str, ...]:
    """Drop the transactions between two nights, with three errors. Return the errors."""
    moment = timedelta(minutes=1)
    first, second = (LivingWorld().at(night.astimezone(UTC).date()) for night in (before, after))
    rows = list(transactions(first, second, before + moment, after - moment))
    gone, twice, turned = (rows[len(rows) * part // 4] for part in (1, 2, 3))
    amount = turned["amount_text"]
    turned["amount_text"] = amount[1:] if amount.startswith("-") else f"-{amount}"
    rows.remove(gone)
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows([*rows, twice])
    path = layout.home / "reference" / "transactions" / f"{after.date()}.csv"
    write_bytes(path, text.getvalue().encode())
    errors = {"is missing": gone, "is in the file twice": twice, "has the wrong sign": turned}
    return tuple(f"{what}: {row['asset_id']}, {row['account']}" for what, row in errors.items())
