"""Tests of a night's date, which follows the server's clock if this machine's clock is wrong."""

from datetime import date, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import pytest

from pipelines import night, settings
from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import Manifest
from pipelines.night import NeverLanded
from pipelines.pull import pull
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import DEMO_KEY, DEMO_SECRET
from pipelines.settings import Settings
from tests.support.simulated_service import START, Simulation, Time
from warehouse.storage.layout import Layout

HOUR = timedelta(hours=1)
ANY_AHEAD = Choices(future_window_ms=None)


def chosen(home: Path, **more: str) -> Settings:
    """Return the settings of a home."""
    access = {
        "NIGHTBOOK_API_URL": "http://127.0.0.1:1",
        "NIGHTBOOK_API_KEY": DEMO_KEY,
        "NIGHTBOOK_API_SECRET": DEMO_SECRET,
        "NIGHTBOOK_HOME": str(home),
    }
    return settings.read(access | more, api=True)


def taken(home: Path, off: timedelta, true: datetime = START, **simulated: object) -> Manifest:
    """Pull a night on a machine whose clock is off, from a server whose clock is right."""
    simulation = Simulation(time=Time(true), **simulated)  # type: ignore[arg-type] # its own fields
    with simulation.time.running():
        return pull.pull_snapshot(
            chosen(home),
            lambda: simulation.time.now() + off,
            "0",
            pause=simulation.time.sleep,
            connect=simulation.connect,
        )


@pytest.mark.parametrize("choices", [Choices(), ANY_AHEAD], ids=["refused", "any time ahead"])
@pytest.mark.parametrize("hours", [20, -3, 70 / 3600, -20])
def test_a_night_has_the_date_of_the_servers_clock(
    hours: float, choices: Choices, tmp_path: Path
) -> None:
    """If this machine's clock is hours off, a night's date, ID and times follow the server's clock.

    It does not matter whether the server refuses the wrong timestamps or accepts them.
    """
    if hours < 0 and choices is ANY_AHEAD:
        choices = Choices(window_ms=10**9)
    manifest = taken(tmp_path, hours * HOUR, choices=choices)
    assert manifest.snapshot_date == START.date()
    started = datetime.fromisoformat(manifest.started_at)
    assert abs(started - START) < timedelta(seconds=2)
    assert manifest.snapshot_id == started.strftime("%Y%m%dT%H%M%SZ")
    assert manifest.clock_skew_ms == pytest.approx(-hours * 3_600_000, abs=1000)
    machine = START + hours * HOUR
    assert manifest.machine_started_at == machine.replace(microsecond=0).isoformat()
    assert manifest.is_date_doubtful == (machine.date() != START.date())
    moments = [one.sent_at for one in manifest.answers] + [manifest.finished_at]
    assert all(abs(datetime.fromisoformat(str(one)) - START) < HOUR / 60 for one in moments)
    [folder] = night_folders.folders(Layout(tmp_path))
    assert folder == Layout(tmp_path).snapshot(START.date(), manifest.snapshot_id)
    assert [one.name for one in Layout(tmp_path).landing.iterdir()] == [START.date().isoformat()]


@pytest.mark.parametrize("seconds", [-9, -2, 0, 9])
def test_a_clock_that_is_off_by_seconds_is_not_corrected(seconds: int, tmp_path: Path) -> None:
    """A clock that is off by at most 9 seconds is not corrected.

    `Date` has whole seconds and a round trip takes time, so a small difference proves nothing.
    """
    manifest = taken(tmp_path, timedelta(seconds=seconds))
    assert manifest.clock_skew_ms is None
    assert manifest.started_at == manifest.machine_started_at
    assert not manifest.is_date_doubtful


CACHED = {"Date": format_datetime(START, usegmt=True), "Age": "7200"}


@pytest.mark.parametrize("headers", [CACHED, {}], ids=["cached", "missing"])
def test_a_cached_or_missing_date_is_not_used(headers: dict[str, str], tmp_path: Path) -> None:
    """If each `Date` is from a cache or missing, a night has the date of this machine's clock."""

    def reach(_request: httpx.Request) -> httpx.Response | None:
        return httpx.Response(200, json={"data": [], "meta": {}}, headers=headers)

    manifest = taken(tmp_path, 22 * HOUR, reach=reach)
    assert manifest.snapshot_date == START.date() + timedelta(days=1)
    assert not manifest.is_date_doubtful


def test_snapshot_ids_ascend_in_true_time_despite_a_wrong_clock(tmp_path: Path) -> None:
    """Snapshot IDs ascend in true time, even if the clock is ahead, then right, then behind."""
    layout = Layout(tmp_path)
    offs = [20 * HOUR, timedelta(0), -20 * HOUR, 3 * HOUR]
    true = [START + timedelta(days=number) for number in range(len(offs))]
    taken_ids = [
        taken(tmp_path, off, moment, choices=Choices(window_ms=10**9, future_window_ms=None))
        for off, moment in zip(offs, true, strict=True)
    ]
    ids = [manifest.snapshot_id for manifest in taken_ids]
    assert ids == sorted(ids)
    assert [manifest.snapshot_date for manifest in taken_ids] == [one.date() for one in true]
    assert [one.snapshot_id for one in snapshots.landed_snapshots(layout)] == ids


@pytest.mark.parametrize("off", [22 * HOUR, -22 * HOUR])
def test_later_steps_of_a_run_find_its_landed_night(off: timedelta, tmp_path: Path) -> None:
    """Later steps of a run find the night that it landed, even if this machine's date is wrong.

    Dagster's date is the date by this machine's clock.
    """
    now = START + off
    before = taken(tmp_path, timedelta(0), START - timedelta(days=1))
    wide = Choices(window_ms=10**9, future_window_ms=None)
    manifest = taken(tmp_path, off, START, choices=wide)
    assert manifest.is_date_doubtful
    assert night.landed_for(chosen(tmp_path), now, now.date()) == manifest
    assert night.landed_for(chosen(tmp_path), START, START.date()) == manifest
    later = START + timedelta(days=3)
    assert night.landed_for(chosen(tmp_path), later, before.snapshot_date) == before
    with pytest.raises(NeverLanded):
        night.landed_for(chosen(tmp_path), later, date(2026, 11, 12))
