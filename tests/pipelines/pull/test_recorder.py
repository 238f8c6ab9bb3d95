"""Tests of the recheck at the end of a pull: changed lists, and portfolios that disappeared."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from pipelines import night, settings
from pipelines.edge import errors
from pipelines.lake import lake_manifest
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import night_folders
from pipelines.landing import night_folders as sealed_json
from pipelines.landing import zone as landing
from pipelines.landing.manifest import (
    DELETED,
    MOVED,
    MOVING,
    REFUSED,
    STILL,
    THERE,
    UNKNOWN,
    UNTOLD,
    Manifest,
    Window,
    load_manifest,
)
from pipelines.pull import pull, recorder
from pipelines.sandbox.server import DEMO_KEY, DEMO_KEYS, DEMO_SECRET, application, serve, unix_ms
from pipelines.sandbox.world.world import LivingWorld, World
from tests.pipelines.pull.test_pull import DAY, PREFIX, Night
from tests.support import nights
from warehouse.storage.layout import Layout

WORLD = LivingWorld().at(DAY)
NEXT = LivingWorld().at(DAY + timedelta(days=1))
KNOWN = {str(one["id"]): True for one in WORLD.portfolios}
LARGEST = max(WORLD.portfolios, key=lambda one: len(one["positions"]))["id"]


@pytest.fixture
def pulled(layout: Layout) -> Night:
    """Return a night that has not been pulled yet."""
    return Night(layout)


def purposes(manifest: Manifest) -> dict[str, int]:
    """Count the requests of a pull by purpose."""
    return dict(Counter(one.purpose for one in manifest.answers))


def ids(pulled: Night, manifest: Manifest) -> set[str]:
    """Flatten a pull, and return the IDs of the portfolios in its book."""
    rows, parts = nights.staged(pulled.layout, manifest)
    assert nights.differing(parts) == []
    return {row["portfolio_id"] for row in rows["portfolios"]}


def test_an_unchanged_night_costs_two_more_requests(pulled: Night) -> None:
    """If nothing changed, the recheck reads both lists without `include` and stores neither."""
    manifest = pulled.take()
    assert manifest.window == Window(STILL)
    assert purposes(manifest) == {"book": 26, "closing": 2}
    closing = [one for one in manifest.answers if one.purpose == "closing"]
    assert [(one.path, one.query, one.file) for one in closing] == [
        (f"{PREFIX}/portfolios", "", None),
        (f"{PREFIX}/venues", "", None),
    ]
    assert all(one.sha256 and one.byte_count and one.error is None for one in closing)


def test_changed_portfolios_are_reread_for_the_book(pulled: Night) -> None:
    """If the portfolios changed, they are reread for the book, and the first list stays on disk."""
    manifest = pulled.take("next-day,path=/portfolios,after=1")
    assert manifest.window.state == MOVED
    assert manifest.window.moved[0].startswith("portfolios: ")
    assert purposes(manifest) == {"book": 26, "closing": 2, "replaced": 1}
    assert ids(pulled, manifest) == {str(one["id"]) for one in NEXT.portfolios}
    [first] = [one for one in manifest.answers if one.purpose == "replaced"]
    assert len(landing.body(pulled.layout, manifest, first)) == first.byte_count


def test_a_book_that_keeps_changing_has_a_moving_window(pulled: Night) -> None:
    """A changed list is reread only once. If it has changed once more, the window is `moving`."""
    manifest = pulled.take("next-day,path=/portfolios,after=1,count=1")
    assert manifest.window.state == MOVING
    assert ids(pulled, manifest) == set(KNOWN)


def test_a_venue_that_appears_during_a_pull_is_in_the_book(pulled: Night) -> None:
    """A venue that appears during a pull is in the book, and a venue that disappears is not.

    The instruments of the new venue are in the book too.
    """
    world = World(WORLD.portfolios, WORLD.venues, WORLD.instruments)
    changing = Changing(
        World(world.portfolios, world.venues[:-1], world.instruments),
        World(world.portfolios, world.venues[1:], world.instruments),
        after=1 + 1 + 2 * (len(world.venues) - 1),
    )
    manifest = pulled.take(world=changing)
    new, gone = str(world.venues[-1]["id"]), str(world.venues[0]["id"])
    assert manifest.window == Window(MOVED, (f"venues: 1 new ({new}), 1 gone ({gone})",))
    assert purposes(manifest) == {"book": 26 - 2, "closing": 2, "replaced": 1 + 2}
    rows, parts = nights.staged(pulled.layout, manifest)
    assert nights.differing(parts) == []
    assert new in {row["venue_id"] for row in rows["instruments"]}
    assert {row["venue_id"] for row in rows["instruments"]} <= {
        row["venue_id"] for row in rows["venues"]
    }
    assert gone not in {row["venue_id"] for row in rows["venues"]}


class Changing:
    """A world that changes into a second world after a number of requests."""

    def __init__(self, first: World, second: World, after: int) -> None:
        self.first, self.second, self.left = first, second, after

    def at(self, _day: object, /) -> World:
        """Count a request, and return the world for it."""
        self.left -= 1
        return self.first if self.left >= 0 else self.second


class Twin(str):
    """A string that equals only itself, so that a record can have the same key twice."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


@pytest.mark.parametrize("again", ["another", "", ".", 7, None])
def test_both_reads_use_the_same_id_of_a_venue_with_two_ids(pulled: Night, again: object) -> None:
    """If a record has two IDs, both reads of a list use the same one, so only one venue changes."""
    venue = {str(key): value for key, value in WORLD.venues[0].items()}
    twice = {"id": venue.pop("id"), **venue, Twin("id"): again}
    moved = twice | {"updatedAt": "2026-11-20T02:16:00.000Z"}
    rest = WORLD.venues[1:]
    manifest = pulled.take(
        world=Changing(
            World(WORLD.portfolios, (twice, *rest), WORLD.instruments),
            World(WORLD.portfolios, (moved, *rest), WORLD.instruments),
            after=2 + 2 * len(WORLD.venues),
        )
    )
    assert manifest.window == Window(MOVED, (f"venues: 1 changed ({twice['id']})",))
    assert purposes(manifest) == {"book": 26, "closing": 2, "replaced": 1 + 2}


@pytest.mark.parametrize("path", ["/portfolios", "/venues"])
def test_a_failed_recheck_leaves_the_book_complete(pulled: Night, path: str) -> None:
    """If the recheck fails, the book is still complete, and the window is `unknown`.

    The manifest contains the error of the closing request.
    """
    manifest = pulled.take(f"access-denied-400,path={path},after=1")
    assert manifest.window == Window(UNKNOWN)
    told = [one for one in manifest.answers if one.error is not None]
    assert [(one.purpose, one.path) for one in told] == [("closing", f"{PREFIX}{path}")]
    assert ids(pulled, manifest) == set(KNOWN)


def test_a_briefly_empty_list_loses_no_portfolio(pulled: Night) -> None:
    """If the list is empty once but complete when reread, the book has all portfolios."""
    waited = list[float]()
    manifest = pulled.take(
        "portfolios-empty,path=/portfolios,count=1", known=KNOWN, pause=waited.append
    )
    assert ids(pulled, manifest) == set(KNOWN)
    assert manifest.window.state == MOVED
    assert manifest.window.missing == {}
    assert manifest.window.second_count == len(KNOWN)
    [pause] = waited
    assert 0 < pause <= recorder.CONFIRM_AFTER


FATES = {
    "access-lost": dict.fromkeys(sorted(KNOWN)[: recorder.MAX_ASKED], REFUSED),
    "portfolio-vanished": {LARGEST: DELETED},
    "data-ten,path=/portfolios": None,
    "portfolios-empty,path=/portfolios": dict.fromkeys(sorted(KNOWN)[: recorder.MAX_ASKED], THERE),
}


@pytest.mark.parametrize("fault", FATES)
def test_missing_portfolios_are_requested_by_id(pulled: Night, fault: str) -> None:
    """A request by ID shows if a missing portfolio is refused, deleted or just not listed."""
    manifest = pulled.take(fault, known=KNOWN, order="sorted")
    expected = FATES[fault]
    if expected is None:
        assert set(manifest.window.missing.values()) == {THERE}
        assert len(manifest.window.missing) == len(KNOWN) - 10
    else:
        assert manifest.window.missing == expected
    asked = [one for one in manifest.answers if one.purpose == "confirming"]
    assert len(asked) == len(manifest.window.missing)
    assert {one.operation for one in asked} == {"get_portfolio"}


def test_a_wrong_id_in_a_response_leaves_the_state_unknown(pulled: Night) -> None:
    """If the response to a request by ID has a different ID, the portfolio's state is unknown."""
    manifest = pulled.take(
        "portfolio-vanished,path=/portfolios", "other-object,path=/portfolios/*", known=KNOWN
    )
    assert manifest.window.missing == {LARGEST: UNTOLD}


def test_missing_portfolios_with_money_are_requested_first() -> None:
    """Missing portfolios are requested only if one had money, or if all portfolios are missing.

    At most ten are requested, and portfolios with money come first.
    """
    assert recorder.to_request({"a": False, "b": False}, ["a"]) == []
    assert recorder.to_request({"a": False, "b": True, "c": True}, ["c"]) == ["b", "a"]
    assert recorder.to_request({"a": False}, []) == ["a"]
    assert recorder.to_request({}, []) == []
    many = {f"p{number:02}": number % 2 == 1 for number in range(30)}
    assert recorder.to_request(many, []) == [f"p{number:02}" for number in range(1, 21, 2)]


@pytest.mark.parametrize(
    ("error", "fate"),
    [
        (None, THERE),
        (errors.AccessDenied("x", 401), REFUSED),
        (errors.ResourceNotFound("x", 400), DELETED),
        (errors.ServerError("x", 500), UNTOLD),
        (errors.InvalidRequestError("x", 400), UNTOLD),
    ],
)
def test_a_response_shows_the_state_of_a_missing_portfolio(
    error: errors.EdgeError | None, fate: str
) -> None:
    """Only a success, ACCESS_DENIED and RESOURCE_NOT_FOUND show a missing portfolio's state."""
    assert recorder.final_state(error) == fate


def test_a_difference_is_described_in_one_sentence() -> None:
    """A difference counts new, missing and changed records, each with the first three IDs."""
    first = {one: (one, None) for one in "abcdef"}
    last = {"a": ("a", None), "b": ("x", None)} | {one: (one, None) for one in "ghijk"}
    assert recorder.difference("venues", first, first) == ""
    assert recorder.difference("venues", first, last) == (
        "venues: 5 new (g, h, i and 2 more), 4 gone (c, d, e and 1 more), 1 changed (b)"
    )


def test_an_older_manifest_loads_with_defaults(layout: Layout) -> None:
    """A manifest from an older version, without window and purposes, loads with the defaults."""
    manifest = nights.land(layout, nights.Book())
    path = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id) / night_folders.MANIFEST
    content = sealed_json.read(path)
    del content["window"]
    for answer in content["answers"]:
        del answer["purpose"]
    sealed_json.write(path, content)
    loaded = load_manifest(path.parent)
    assert loaded.window == Window()
    assert {one.purpose for one in loaded.answers} == {"book"}


def test_judging_a_night_offline_gives_the_same_decision(pulled: Night) -> None:
    """If a landed night is judged a second time, the decision is the same.

    The manifest contains all results of the recheck.
    """
    base = nights.STARTED - timedelta(days=1)
    before = nights.take(pulled.layout, nights.of_world(WORLD), base)
    assert before.state == "accepted"
    known = lake_manifest.portfolios_before(
        pulled.layout, "29991231T235959Z", datetime(2999, 12, 31, tzinfo=UTC)
    )
    assert known.keys() == KNOWN.keys()
    manifest = pulled.take("access-lost", known=known)
    folder = pulled.layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    first = night.finish(LakeManifests(pulled.layout), folder, nights.STARTED)
    (folder / "decision.json").unlink()
    again = night.finish(LakeManifests(pulled.layout), folder, nights.STARTED)
    assert first.decision == again.decision
    assert first.decision is not None
    assert "10 with access removed" in first.decision.reasons[0]


@pytest.mark.parametrize(
    ("clock", "zone", "day"),
    [
        ("2026-11-20T23:59:59.999999+00:00", "UTC", "2026-11-20"),
        ("2026-11-20T22:59:58+00:00", "Europe/Zurich", "2026-11-20"),
        ("2026-11-20T23:00:00+00:00", "Europe/Zurich", "2026-11-21"),
    ],
)
def test_a_night_has_the_date_of_its_start(clock: str, zone: str, day: str, tmp_path: Path) -> None:
    """A night has the date of its start, even if its ID contains a time after midnight."""
    started, layout = datetime.fromisoformat(clock), Layout(tmp_path)
    for _ in range(3):
        pulling = landing.PendingSnapshot(layout, started, ZoneInfo(zone))
        pulling.land("0001-x", b"{}")
        manifest = pulling.finish(
            started + timedelta(minutes=5),
            (),
            origin="http://127.0.0.1",
            program_version="0",
            clock_skew_ms=None,
        )
        assert str(manifest.snapshot_date) == day
    assert len(list((layout.landing / day).iterdir())) == 3
    assert [one.parent.name for one in night_folders.folders(layout)] == [day] * 3


def test_midnight_during_a_pull_changes_no_date(tmp_path: Path) -> None:
    """A pull that starts a tenth of a second before midnight has that date, whenever it ends."""
    started = datetime.fromisoformat("2026-11-20T23:59:59.9+00:00")
    app = application(WORLD, DEMO_KEYS, unix_ms, today=lambda: DAY)
    with serve(app) as served:
        variables = {
            "NIGHTBOOK_API_URL": served.origin,
            "NIGHTBOOK_API_KEY": DEMO_KEY,
            "NIGHTBOOK_API_SECRET": DEMO_SECRET,
            "NIGHTBOOK_HOME": str(tmp_path),
        }
        chosen = settings.read(variables, api=True)
        manifest = pull.pull_snapshot(chosen, lambda: datetime.now(UTC), "0", started=started)
    assert str(manifest.snapshot_date) == "2026-11-20"
    assert manifest.started_at == "2026-11-20T23:59:59+00:00"
    assert night.landed_on(Layout(tmp_path), started.date()) is not None
