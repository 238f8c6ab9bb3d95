"""Tests of the landing zone's locks: a short check of the pull lock does not stop a pull."""

import contextlib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pipelines.landing.lock import PullRunning, acquire_if_free, hold_pull_lock
from warehouse.storage.layout import Layout

NOW = datetime(2026, 3, 6, 2, 15, tzinfo=UTC)


def test_a_pull_starts_although_status_briefly_holds_the_lock(tmp_path: Path) -> None:
    """`status` holds the lock for a moment, and a pull that begins in this moment still starts."""
    layout = Layout(tmp_path)
    with hold_pull_lock(layout, "pulling", NOW):
        """Create the lock file."""
    with contextlib.ExitStack() as status:
        assert status.enter_context(acquire_if_free(layout.pull_lock))
        with hold_pull_lock(layout, "pulling", NOW, lambda _: status.close()) as held:
            assert held.since == NOW


def test_a_pull_waits_only_a_second_for_a_running_pull(tmp_path: Path) -> None:
    """After a single pause of a second, the second pull gives up and names the first."""
    layout, pauses = Layout(tmp_path), list[float]()
    with (
        hold_pull_lock(layout, "pulling the snapshot of 2026-03-06", NOW),
        pytest.raises(PullRunning, match="pulling the snapshot of 2026-03-06"),
        hold_pull_lock(layout, "pulling", NOW, pauses.append),
    ):
        pytest.fail("the second pull started")
    assert pauses == [1.0]
