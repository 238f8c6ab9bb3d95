"""Tests of the server of a night: another server than on the last accepted night is found."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from pipelines import night
from pipelines.lake import placement
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.lake.origins import find_other_server, server_of
from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest
from tests.support import nights
from warehouse.storage.layout import Layout

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://API.example.com", "https://api.example.com:443/"),
        ("http://api.example.com.", "https://api.example.com"),
        ("http://127.0.0.1:40001", "http://localhost:52000"),
    ],
)
def test_spellings_of_one_server_are_equal(one: str, other: str) -> None:
    """Case, default port, final dot and a changing port of this machine do not matter."""
    assert server_of(one) == server_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://api.example.com", "https://test.example.com"),
        ("https://api.example.com", "https://api.example.com:8443"),
        ("http://127.0.0.1:8001", "http://127.0.0.1:8002"),
    ],
)
def test_different_servers_differ(one: str, other: str) -> None:
    """Hosts, and ports that somebody chose, are different servers."""
    assert server_of(one) != server_of(other)


def taken(
    layout: Layout, day: int, origin: str, portfolios: Sequence[str] = ("p1",)
) -> tuple[Manifest, str]:
    """Take a night with these portfolios from a server. Return its manifest and state."""
    started, book = nights.STARTED + day * DAY, nights.small()
    listed = [book.portfolios[0] | {"id": portfolio} for portfolio in portfolios]
    manifest = nights.land(layout, replace(book, portfolios=listed), started, origin=origin)
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    return manifest, night.finish(LakeManifests(layout), folder, started).state


def test_a_night_of_another_server_is_held_once(layout: Layout) -> None:
    """The first night of another server is held. After a person accepts it, later ones are not."""
    assert taken(layout, 0, "https://a.example")[1] == "accepted"
    manifest, state = taken(layout, 1, "https://b.example")
    assert state == "held"
    held = snapshots.find(layout, manifest.snapshot_id)
    assert [cause.key for cause in held.held_for] == ["origin: b.example"]
    found = find_other_server(manifest, snapshots.landed_snapshots(layout))
    assert found is not None
    assert found.before == "a.example"
    snapshots.decide_by_hand(
        *(layout, held.snapshot_id, "accepted"),
        by="ann",
        at=nights.STARTED + DAY,
        why="the API has moved",
    )
    placement.move_into_place(layout)
    assert taken(layout, 2, "https://b.example")[1] == "accepted"
    assert taken(layout, 3, "https://a.example")[1] == "held"


@pytest.mark.parametrize(
    ("portfolios", "state"),
    [(("p1",), "accepted"), (("p2",), "held")],
)
def test_a_key_with_other_portfolios_holds_the_night(
    layout: Layout, portfolios: tuple[str, ...], state: str
) -> None:
    """A new key of the same server holds the night if it no longer lists portfolios with money.

    A manifest never contains the key, but the guards compare the portfolios themselves.
    """
    assert taken(layout, 0, "https://a.example")[1] == "accepted"
    assert taken(layout, 1, "https://a.example", portfolios)[1] == state
