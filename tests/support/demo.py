"""The demo's home for tests, which `nightbook demo` always creates on the same morning."""

import contextlib
import io
from datetime import UTC, datetime
from pathlib import Path

from assets.cli import main
from assets.nightbook import Nightbook
from warehouse.storage.layout import Layout

MORNING = datetime(2026, 11, 20, 6, tzinfo=UTC)


def nightbook_of(home: Path, morning: datetime = MORNING) -> Nightbook:
    """Return the settings of a home, with a clock that shows the given morning."""
    return Nightbook(lambda: {"NIGHTBOOK_HOME": str(home)}, lambda: morning)


def take_demo(home: Path, morning: datetime = MORNING) -> Layout:
    """Create three nights of the seeded world. The last one is from the given morning."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main(("demo",), nightbook_of(home, morning))
    assert code == 0, said.getvalue()
    return Layout(home)
