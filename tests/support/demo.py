"""The demo's home for tests: `nightbook demo` on the same morning every time."""

import contextlib
import io
from datetime import UTC, datetime
from pathlib import Path

from assets.cli import main
from assets.nightbook import Nightbook
from warehouse.storage.layout import Layout

MORNING = datetime(2026, 11, 20, 6, tzinfo=UTC)


def nightbook_of(home: Path, morning: datetime = MORNING) -> Nightbook:
    """The settings of a home, on that morning."""
    return Nightbook(lambda: {"NIGHTBOOK_HOME": str(home)}, lambda: morning)


def take_demo(home: Path, morning: datetime = MORNING) -> Layout:
    """Three nights of the seeded world, the last of them that morning's."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main(("demo",), nightbook_of(home, morning))
    assert code == 0, said.getvalue()
    return Layout(home)
