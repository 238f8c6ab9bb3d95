"""Tests of nights with an uncertain date, which are held and do not replace a book."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from pipelines import night
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.snapshots import Snapshot
from pipelines.landing.zone import PendingSnapshot
from tests.support import nights
from warehouse.contract.states import ACCEPTED, HELD, REJECTED
from warehouse.storage.layout import Layout

START = nights.STARTED
DAY = timedelta(days=1)


def judged(layout: Layout, manifest: Manifest) -> Snapshot:
    """Finish a landed night, and return its snapshot."""
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    return night.finish(LakeManifests(layout), folder, datetime.fromisoformat(manifest.finished_at))


def reasons(snapshot: Snapshot) -> str:
    """Return the reasons of a snapshot's decision as one string."""
    return "; ".join(snapshot.decision.reasons) if snapshot.decision else ""


def land(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, started: datetime, **more: object
) -> Manifest:
    """Land a night whose pull has recorded the facts in `more`."""
    finish = PendingSnapshot.finish

    def noted(self: PendingSnapshot, *given: object, **named: object) -> Manifest:
        for name, value in more.items():
            setattr(self, name, value)
        return finish(self, *given, **named)  # type: ignore[arg-type]  # passed on as it is

    with monkeypatch.context() as patch:
        patch.setattr(PendingSnapshot, "finish", noted)
        return nights.land(layout, nights.small(), started)


def test_a_night_whose_clocks_disagree_on_the_date_is_held(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A night is held if the two clocks give different dates, and the book of the date stays.

    A difference within the same date does not hold a night.
    """
    book = nights.take(layout, nights.small(), START)
    assert book.state == ACCEPTED
    machine = START + timedelta(hours=23)
    manifest = land(layout, monkeypatch, START + timedelta(hours=1), machine_started_at=machine)
    snapshot = judged(layout, manifest)
    assert snapshot.state == HELD
    assert "2026-11-20 by the server's clock, but 2026-11-21 by this machine's" in reasons(snapshot)
    assert snapshots.books(snapshots.landed_snapshots(layout)) == {book.snapshot_date: book}
    near = land(layout, monkeypatch, START + DAY, machine_started_at=START + DAY + DAY / 24)
    assert judged(layout, near).state == ACCEPTED


def test_a_night_after_a_clock_was_moved_back_is_held(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A night that begins before the previous night is held, because one of the dates is wrong."""
    book = nights.take(layout, nights.small(), START + 3 * DAY)
    first = land(layout, monkeypatch, START, follows=book.snapshot_id)
    assert judged(layout, first).state == HELD
    assert "The clock has been moved back since then, or it was ahead" in reasons(
        judged(layout, first)
    )
    snapshots.decide_by_hand(
        layout, book.snapshot_id, REJECTED, by="ann", at=START, why="the clock was ahead"
    )
    second = land(layout, monkeypatch, START + DAY, follows=snapshots.newest(layout))
    assert judged(layout, second).state == ACCEPTED


def test_a_second_night_in_a_different_time_zone_is_held(layout: Layout) -> None:
    """If a date already has a book in a different time zone, its next night is held."""
    book = nights.take(layout, nights.small(), START)
    moved = nights.land(layout, nights.small("2"), START + DAY, "America/New_York")
    assert moved.snapshot_date == book.snapshot_date
    snapshot = judged(layout, moved)
    assert snapshot.state == HELD
    assert "uses the time zone UTC, but this night uses America/New_York" in reasons(snapshot)
    assert snapshots.books(snapshots.landed_snapshots(layout)) == {book.snapshot_date: book}
    next_one = nights.land(layout, nights.small("2"), START + 2 * DAY, "America/New_York")
    assert judged(layout, next_one).state == ACCEPTED


def test_an_older_manifest_has_no_uncertain_date(layout: Layout) -> None:
    """An older manifest without the machine's time and the previous night has no uncertain date."""
    manifest = nights.land(layout, nights.small())
    assert manifest.follows is None
    assert not replace(manifest, machine_started_at=None).is_date_doubtful
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    assert load_manifest(folder) == manifest
