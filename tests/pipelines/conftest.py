"""A home for each test."""

from pathlib import Path

import pytest

from warehouse.storage.layout import Layout


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Return an empty home."""
    return Layout(tmp_path)
