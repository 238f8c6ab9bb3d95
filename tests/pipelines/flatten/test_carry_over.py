"""Tests of venues whose lists become empty with status 200: the last good rows stay (D3)."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import pytest

from pipelines import night
from pipelines.flatten import carry_over
from pipelines.lake import lake_manifest
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from tests.pipelines.lake.test_placement import instrument, portfolio, venue
from tests.support import nights
from warehouse.contract.states import ACCEPTED, HELD
from warehouse.storage.layout import Layout

START, DAY = nights.STARTED, timedelta(days=1)
VENUES = [f"v{number}" for number in range(12)]
FUTURE = {"type": "future", "expiration": (START + DAY).isoformat()}
Lists = Mapping[str, list[dict[str, Any]]]


def book(lists: Lists | None = None, failed: tuple[str, ...] = ()) -> nights.Book:
    """Return a book with twelve venues of one instrument each, except for the venues in `lists`."""
    listed = {one: [instrument("X")] for one in VENUES} | dict(lists or {})
    typed = {
        (one, kind): [record for record in records if record["type"] == kind]
        for one, records in listed.items()
        if one not in failed
        for kind in ("spot", "future")
    }
    venues = [venue(one) for one in VENUES]
    return nights.Book([portfolio()], venues, typed, frozenset(failed))


def shown(layout: Layout, snapshot: Snapshot) -> dict[str, list[tuple[str, date | None]]]:
    """Return the instruments of each venue, with the date of their last successful read."""
    found: dict[str, list[tuple[str, date | None]]] = {}
    place = (snapshot.snapshot_date, snapshot.snapshot_id)
    path = layout.parquet("instruments", *place)
    path = path if path.is_file() else layout.staged_file("instruments", snapshot.snapshot_id)
    for row in nights.rows_of(path):
        assert row["snapshot_date"] == snapshot.snapshot_date
        found.setdefault(row["venue_id"], []).append((row["instrument_id"], row["stale_since"]))
    return found


def test_an_empty_list_keeps_the_last_good_instruments(layout: Layout) -> None:
    """If a venue's lists become empty, its last good rows stay until a list has rows.

    The rows keep the date of the last good read. Only the first empty night reports the venue.
    """
    nights.take(layout, book(), START)
    for number in (1, 2, 3):
        taken = nights.take(layout, book({"v3": []}), START + number * DAY)
        assert taken.state == ACCEPTED
        assert shown(layout, taken)["v3"] == [("X", START.date())]
        newly = lake_manifest.read_manifest(layout, taken.snapshot_id)["emptied"]
        assert newly == (["v3"] if number == 1 else [])
    back = nights.take(layout, book({"v3": [instrument("Y")]}), START + 4 * DAY)
    assert shown(layout, back)["v3"] == [("Y", None)]


def test_after_a_week_an_empty_venue_has_no_rows(layout: Layout) -> None:
    """From the eighth night with empty lists, the venue has no rows."""
    nights.take(layout, book(), START)
    seen = [
        shown(layout, nights.take(layout, book({"v3": []}), START + number * DAY)).get("v3")
        for number in range(1, 10)
    ]
    assert seen == [[("X", START.date())]] * 7 + [None] * 2
    assert carry_over.BELIEVED_AFTER == 7 * DAY


def test_a_pause_does_not_count_as_empty_nights(layout: Layout) -> None:
    """After a pause of a month, the first empty list does not remove the rows."""
    nights.take(layout, book(), START)
    taken = nights.take(layout, book({"v3": []}), START + 30 * DAY)
    assert shown(layout, taken)["v3"] == [("X", START.date())]


def test_expired_futures_are_not_carried_over(layout: Layout) -> None:
    """Expired futures are not carried over, because a list without them is correct."""
    nights.take(layout, book({"v3": [instrument("F") | FUTURE]}), START)
    mixed = {"v4": [instrument("X"), instrument("F") | FUTURE]}
    nights.take(layout, book({"v3": [instrument("F") | FUTURE]} | mixed), START + DAY / 2)
    taken = nights.take(layout, book({"v3": [], "v4": []}), START + 2 * DAY)
    assert "v3" not in shown(layout, taken)
    assert shown(layout, taken)["v4"] == [("X", START.date())]
    assert lake_manifest.read_manifest(layout, taken.snapshot_id)["emptied"] == ["v4"]


def test_one_empty_list_of_two_carries_nothing_over(layout: Layout) -> None:
    """If only one of a venue's two lists is empty, nothing is carried over.

    A list of spot instruments without futures is a complete response. `findings` shows the missing
    instruments.
    """
    both = [instrument("X"), instrument("F") | FUTURE]
    nights.take(layout, book({"v3": both}), START)
    taken = nights.take(layout, book({"v3": both[:1]}), START + DAY / 2)
    assert shown(layout, taken)["v3"] == [("X", None)]


def test_a_venue_that_never_had_instruments_is_not_reported(layout: Layout) -> None:
    """If a venue never had instruments, nothing is carried over or reported."""
    nights.take(layout, book({"v3": []}), START)
    taken = nights.take(layout, book({"v3": []}), START + DAY)
    assert "v3" not in shown(layout, taken)
    assert lake_manifest.read_manifest(layout, taken.snapshot_id)["emptied"] == []


@pytest.mark.parametrize("failed", [(), ("v5",)])
def test_a_night_with_many_empty_venues_is_held(layout: Layout, failed: tuple[str, ...]) -> None:
    """A night is held if more than a tenth of the venues have empty or failed lists.

    After a person has accepted the night, the next night is not held for the same venues.
    """
    nights.take(layout, book(), START)
    empty: dict[str, list[Any]] = {"v3": []} if failed else {"v3": [], "v4": []}
    held = nights.take(layout, book(empty, failed), START + DAY)
    assert held.state == HELD
    assert held.decision
    [reason] = held.decision.reasons
    assert reason.startswith("the instruments of 2 of 12 venues could not be read, or are no long")
    assert reason.endswith(f"listed ({', '.join(empty)}) (limit: a tenth)")
    snapshots.decide_by_hand(
        layout, held.snapshot_id, ACCEPTED, by="ann", at=START + DAY, why="known"
    )
    again = nights.take(layout, book(empty), START + 2 * DAY)
    assert again.state == ACCEPTED
    assert shown(layout, again)["v3"] == [("X", START.date())]


def test_a_rebuilt_night_has_the_same_rows(layout: Layout) -> None:
    """Carried-over rows depend only on landed nights and decisions, so a rebuild is identical."""
    nights.take(layout, book(), START)
    taken = nights.take(layout, book({"v3": []}), START + DAY)
    before = lake_manifest.read_manifest(layout, taken.snapshot_id)["tables"]
    night.finish(LakeManifests(layout), taken.folder, START + 9 * DAY)
    assert lake_manifest.read_manifest(layout, taken.snapshot_id)["tables"] == before
