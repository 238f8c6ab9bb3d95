"""The home of a test, created as a person would create it, because a run without one is refused."""

import contextlib
from pathlib import Path

from assets.home.creation import create_home
from warehouse.storage.layout import Layout


def created_home(home: Path) -> Path:
    """Create a home if it does not exist, and return its path. Leave an unsuitable path alone."""
    with contextlib.suppress(OSError):
        create_home(Layout(home))
    return home
