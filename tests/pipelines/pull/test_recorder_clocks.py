"""Tests of clocks during a pull: the wall clock may jump, and waits end at the deadline (O2)."""

import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

import pytest

from pipelines import night
from pipelines.flatten import flatten
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing.manifest import STILL, Window
from pipelines.pull import recorder
from pipelines.sandbox.world.world import LivingWorld, World
from tests.pipelines.pull.test_pull import DAY, Night
from tests.support import nights
from warehouse.storage.layout import Layout

WORLD = LivingWorld().at(DAY)
KNOWN = {str(one["id"]): True for one in WORLD.portfolios}
HOUR = timedelta(hours=1)
JUMPS = [pytest.param(HOUR, id="forward"), pytest.param(-HOUR, id="back")]
SLOTS = 8


class Jumping:
    """A wall clock that jumps at request number `when`. It is also the world, to count requests."""

    def __init__(self, by: timedelta, when: int) -> None:
        self.by, self.left = by, when

    def at(self, _day: date, /) -> World:
        """Count a request, and return the world, which never changes."""
        self.left -= 1
        return WORLD

    def now(self) -> datetime:
        """Return the time that the clock shows."""
        return datetime.now(UTC) + (self.by if self.left <= 0 else timedelta(0))


@pytest.fixture
def pulled(layout: Layout) -> Night:
    """Return a night that has not been pulled yet."""
    return Night(layout)


def timed(work: Callable[[], object]) -> float:
    """Return the number of seconds that a function takes."""
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


@pytest.mark.parametrize("by", JUMPS)
def test_a_clock_jump_during_a_run_does_not_change_the_book(by: timedelta, pulled: Night) -> None:
    """If the clock jumps, requests in progress are signed once more, and the book is the same.

    The second signature uses the server's time. The deadline of one minute follows a clock that
    does not jump, so a jump of an hour does not end the pull.
    """
    yesterday = nights.STARTED - 24 * HOUR
    assert nights.take(pulled.layout, nights.of_world(WORLD), yesterday).state == "accepted"
    clock = Jumping(by, 10)
    manifest = pulled.take(world=clock, now=clock.now, known=KNOWN)
    assert 28 < len(pulled.asked) <= 28 + SLOTS
    assert [one.error for one in manifest.answers] == [None] * 28
    assert manifest.window == Window(STILL)
    assert manifest.clock_skew_ms == pytest.approx(-by.total_seconds() * 1000, abs=1500)
    assert manifest.snapshot_date == DAY
    rows, parts = nights.staged(pulled.layout, manifest)
    assert nights.differing(parts) == []
    assert {row["portfolio_id"] for row in rows["portfolios"]} == KNOWN.keys()
    folder = pulled.layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    assert night.finish(LakeManifests(pulled.layout), folder, clock.now()).state == "accepted"


@pytest.mark.torture
@pytest.mark.parametrize("by", JUMPS)
def test_the_deadline_does_not_jump_with_the_clock(by: timedelta, pulled: Night) -> None:
    """A hanging venue fails after 1.5 seconds, even if the wall clock jumps by an hour."""
    clock = Jumping(by, 5)

    def take() -> None:
        fault = "hang,path=/venues/kestrel/*"
        manifest = pulled.take(fault, world=clock, now=clock.now, deadline=1.5)
        assert "kestrel" in flatten.failed_venues(manifest)

    assert 1.4 < timed(take) < 6


@pytest.mark.parametrize("by", JUMPS)
def test_a_clock_jump_does_not_delay_the_second_read(by: timedelta, pulled: Night) -> None:
    """The second read is ten seconds after the first, even if the wall clock jumps in between."""
    waited = list[float]()
    clock = Jumping(by, 5)
    manifest = pulled.take(
        "portfolios-empty,path=/portfolios,count=1",
        world=clock,
        now=clock.now,
        known=KNOWN,
        pause=waited.append,
    )
    [pause] = waited
    assert recorder.CONFIRM_AFTER - 5 < pause <= recorder.CONFIRM_AFTER
    assert manifest.window.second_count == len(KNOWN)
    assert manifest.window.second_after in range(6)


def test_the_wait_for_a_second_read_respects_the_deadline(pulled: Night) -> None:
    """If the deadline is less than twice the wait away, the pull waits for half of that time.

    So the second read can still be made before the deadline.
    """
    waited = list[float]()

    def pause(seconds: float) -> None:
        waited.append(seconds)
        time.sleep(seconds)

    def take() -> None:
        manifest = pulled.take("portfolios-empty", known=KNOWN, pause=pause, deadline=4)
        assert manifest.window.second_count == 0
        assert manifest.window.second_after == round(sum(waited))

    assert timed(take) < 4
    assert 1 < sum(waited) <= 2


def test_the_pull_does_not_wait_after_the_deadline(pulled: Night) -> None:
    """After the deadline, the pull does not wait, and its closing requests fail.

    Their errors report that no time was left.
    """
    waited = list[float]()
    manifest = pulled.take(
        "portfolios-empty",
        "hang,path=/venues/kestrel/*",
        known=KNOWN,
        pause=waited.append,
        deadline=1.5,
    )
    assert waited == [0]
    assert manifest.window.second_count is None
    closing = [one.error or "" for one in manifest.answers if one.purpose == "closing"]
    assert closing
    assert all("there was no time left for another attempt" in one for one in closing)
