"""A demo's home is marked, so that invented nights and real ones never meet in one book."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from pathlib import Path

from pipelines.landing import night_folders
from pipelines.landing.lock import hold_lock, hold_writer_lock
from warehouse.contract.model import count_of
from warehouse.storage.layout import Layout, json_bytes, write_json

MARK = "demo.json"
LOCK = ".demo"
LEAST = 3  # nights that a demo begins with
WHAT = {"what": "invented nights of nightbook demo"}


class OnlyADemo(Exception):
    """A real night was to be written over a demo's."""

    exit_code = 2

    def __init__(self, layout: Layout) -> None:
        super().__init__(
            f"{layout.home} holds the demo's invented nights, and a real night does not belong "
            "among them. Nothing was read or written. Remove that folder, or choose another: "
            "set NIGHTBOOK_HOME, or nightbook --home DIR run"
        )


class RealNights(Exception):
    """A demo was to be written over real nights."""

    exit_code = 2

    def __init__(self, layout: Layout, nights: int) -> None:
        super().__init__(
            f"{layout.home} holds {count_of(nights, 'real snapshot')}, and the demo's "
            "invented nights do not belong among them. Nothing was written. Choose another place: "
            "nightbook --home DIR demo"
        )


class NoDemo(Exception):
    """A next night was asked for where no demo is."""

    exit_code = 2

    def __init__(self, layout: Layout) -> None:
        super().__init__(
            f"{layout.home} holds no demo, so there is no next night of one. Nothing was written. "
            "Take its first nights: nightbook demo"
        )


class NotADemo(Exception):
    """A demo was to be made where something else lies."""

    exit_code = 2

    def __init__(self, layout: Layout, names: Sequence[str]) -> None:
        super().__init__(
            f"{layout.home} holds {', '.join(names)}, and nothing there says that an earlier demo "
            f"made it ({MARK} would); a demo begins by removing such folders. Nothing was removed "
            "or written. Choose a place of its own: nightbook --home DIR demo"
        )


def is_demo(layout: Layout) -> bool:
    """Whether a home holds a demo."""
    return (layout.home / MARK).is_file()


def require_real(layout: Layout) -> None:
    """Raise `OnlyADemo` where a home holds a demo."""
    if is_demo(layout):
        raise OnlyADemo(layout)


@contextlib.contextmanager
def the_demo(layout: Layout, now: datetime) -> Iterator[None]:
    """Be the only demo of a home, which is empty and marked when the `with` begins.

    Raises `RealNights` and `NotADemo` where a demo may not be, `WriterBusy` where another demo or
    a writer is at work.
    """
    _require_place(layout)  # before the locks: they are files, and this may be a foreign folder
    # Its nights take the writer's lock one after another: between them only this one is held.
    with hold_lock(layout, layout.home / LOCK, "the demo", now):
        with hold_writer_lock(layout, "beginning the demo", now):
            make_demo(layout)
        yield


@contextlib.contextmanager
def next_of_demo(layout: Layout, now: datetime) -> Iterator[list[date]]:
    """Be the only demo of a home that has one, and yield the dates of its nights.

    Raises `NoDemo` where there is none.
    """
    days = night_folders.dates(layout)
    if not is_demo(layout) or len(days) < LEAST:
        raise NoDemo(layout)
    with hold_lock(layout, layout.home / LOCK, "the demo", now):
        yield days


def make_demo(layout: Layout) -> None:
    """Make an empty, marked home; the caller is the writer. Raises `RealNights`, `NotADemo`."""
    # The mark is written first, so that a demo that was killed can begin again.
    _require_place(layout)
    write_json(layout.home / MARK, WHAT)
    for path in _places(layout):
        shutil.rmtree(path, ignore_errors=True)


def _require_place(layout: Layout) -> None:
    """Let a demo be only where an earlier one was, or where nothing of a home is."""
    mark = layout.home / MARK
    # By its content: a folder of somebody else's may have a file of that name.
    if mark.is_file() and mark.read_bytes() == json_bytes(WHAT):
        return
    if nights := len(list(night_folders.folders(layout))):
        raise RealNights(layout, nights)
    names = [path.name for path in (*_places(layout), mark) if os.path.lexists(path)]
    if names:
        raise NotADemo(layout, names)


def _places(layout: Layout) -> tuple[Path, ...]:
    """Return what a demo makes, and removes before it begins."""
    return (
        layout.landing,
        layout.lake,
        layout.warehouse,
        layout.exports,
        layout.reports,
        layout.dagster,
        layout.work,
        layout.home / "reconcile",
    )
