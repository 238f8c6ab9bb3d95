"""Tests of whole nights without Dagster: states, decisions, kills at any time, and rebuilds."""

import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pipelines import night
from pipelines.flatten import resources
from pipelines.lake import lake_manifest, placement
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import night_folders, snapshots
from pipelines.landing import night_folders as sealed_json
from pipelines.landing.lock import machine_name
from pipelines.landing.reasons import Reason
from pipelines.landing.snapshots import DecisionNotAllowed, ReasonRequired
from pipelines.sandbox.world.world import LivingWorld
from tests.support import nights
from warehouse.contract.book import BOOK
from warehouse.contract.states import ACCEPTED, COMPLETE, HELD, REJECTED
from warehouse.storage.layout import Layout

START = nights.STARTED
DAY = timedelta(days=1)
ME = "someone"


def portfolio(name: str = "p1", amount: str = "1") -> dict[str, Any]:
    """Return a portfolio with one amount."""
    times = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
    account = {"venueId": "v1", "name": "main", "balance": {"margin": {"locked": amount}}}
    position = {"assetId": "BTC", "isCustomAsset": False, "accounts": [account]}
    return {"id": name, "resource": "portfolio", "name": name, "positions": [position], **times}


def venue(name: str) -> dict[str, Any]:
    """Return a venue."""
    times = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
    words = {"displayName": name, "tradingStatus": "trading", "type": ["otc"]}
    return {"id": name, "resource": "venue", **words, **times}


def instrument(name: str) -> dict[str, Any]:
    """Return an instrument."""
    times = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
    words = dict.fromkeys(["displayName", "feedId", "venueSymbol", "baseAsset", "termAsset"], name)
    return {"id": name, "resource": "instrument", "type": "spot", **words, **times}


def book(amount: str = "1", *, failed: tuple[str, ...] = (), listed: str = "X") -> nights.Book:
    """Return a small book of twelve venues. Each venue has one instrument unless it has failed."""
    names = [f"v{number}" for number in range(12)]
    lists = {(one, "spot"): [instrument(listed)] for one in names if one not in failed}
    venues = [venue(one) for one in names]
    return nights.Book([portfolio(amount=amount)], venues, lists, frozenset(failed))


def held(layout: Layout, started: datetime = START + DAY) -> snapshots.Snapshot:
    """Create a good night and then a night that the guards hold, and return the held night."""
    nights.take(layout, book())
    snapshot = nights.take(layout, nights.Book([], [venue("v1")]), started)
    assert snapshot.state == HELD
    return snapshot


def test_a_landed_night_is_complete_until_it_is_judged(layout: Layout) -> None:
    """A landed night is complete until the guards accept it, without any reasons."""
    manifest = nights.land(layout, book())
    assert [one.state for one in snapshots.landed_snapshots(layout)] == [COMPLETE]
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    snapshot = night.finish(LakeManifests(layout), folder, START)
    assert snapshot.state == ACCEPTED
    assert snapshot.decision == snapshots.Decision(
        ACCEPTED, "guards", START.isoformat(), (), machine=machine_name()
    )
    assert snapshots.landed_snapshots(layout) == [snapshot]


def test_a_judged_night_keeps_its_decision(layout: Layout) -> None:
    """A decided night keeps its decision, even if it is finished a second time."""
    snapshot = held(layout)
    decided = snapshots.decide_by_hand(
        layout, snapshot.snapshot_id, ACCEPTED, by=ME, at=START, why="sold all"
    )
    assert night.finish(LakeManifests(layout), snapshot.folder, START + 2 * DAY) == decided


@pytest.mark.parametrize("state", [ACCEPTED, REJECTED])
def test_the_decision_of_a_person_is_stored_with_its_reason(layout: Layout, state: str) -> None:
    """A person's decision is stored with name, reason and time, after the guards' decision."""
    snapshot = held(layout)
    at = datetime(2026, 11, 21, 9, tzinfo=UTC)
    snapshots.decide_by_hand(layout, snapshot.snapshot_id, state, by=ME, at=at, why="asked them")
    found = snapshots.find(layout, snapshot.snapshot_id)
    assert [(one.state, one.by) for one in found.decisions] == [(HELD, "guards"), (state, ME)]
    assert "lost its access" in found.decisions[0].reasons[0]
    assert found.decisions[1].reasons == ("asked them",)
    assert found.decisions[1].at == at.isoformat()


@pytest.mark.parametrize("wanted", [ACCEPTED, REJECTED])
def test_a_night_that_was_not_judged_cannot_be_decided(layout: Layout, wanted: str) -> None:
    """A decision on a night that was not judged is refused, and its history does not change."""
    manifest = nights.land(layout, book())
    snapshot = snapshots.find(layout, manifest.snapshot_id)
    with pytest.raises(DecisionNotAllowed, match=f"is complete, so it cannot be {wanted}"):
        snapshots.decide_by_hand(layout, snapshot.snapshot_id, wanted, by=ME, at=START, why="x")
    assert snapshots.find(layout, snapshot.snapshot_id) == snapshot


@pytest.mark.parametrize("before", [ACCEPTED, REJECTED])
@pytest.mark.parametrize("wanted", [ACCEPTED, REJECTED])
def test_reversing_a_decision_needs_a_reason(layout: Layout, before: str, wanted: str) -> None:
    """Repeating a decision changes nothing. Reversing it needs a reason, which is stored."""
    manifest = nights.land(layout, book())
    snapshot = snapshots.find(layout, manifest.snapshot_id)
    snapshot = snapshots.decide(snapshot, before, by="guards", at=START)
    decide = partial(
        snapshots.decide_by_hand, layout, snapshot.snapshot_id, wanted, by=ME, at=START
    )
    if before == wanted:
        assert decide(why="") == decide(why="again") == snapshot
        return
    with pytest.raises(ReasonRequired, match=f"is {before}, and people may have relied on that"):
        decide(why="")
    assert snapshots.find(layout, snapshot.snapshot_id) == snapshot
    decide(why="it was another company's book")
    found = snapshots.find(layout, snapshot.snapshot_id)
    assert [one.state for one in found.decisions] == [before, wanted]
    assert found.decisions[1].reasons == ("it was another company's book",)


@pytest.mark.parametrize(
    ("key", "is_loss"),
    [
        ("empty: portfolios", True),
        ("missing: portfolios", True),
        ("reject: data[].balances[]: bad amount", True),
        ("slice: portfolio p1 gone", True),
        ("slice: venue a\nb fell", True),
        ("measure: assets fallen", True),
        ("measure: accounts", True),
        ("measure: accounts risen", False),
        ("slice: venue v1 rose", False),
        ("new: portfolios", False),
        ("control totals", False),
    ],
)
def test_accepting_a_loss_of_money_needs_a_reason(
    layout: Layout, key: str, *, is_loss: bool
) -> None:
    """A held night in which money may be missing is accepted only with a reason, or rejected."""
    manifest = nights.land(layout, book())
    snapshot = snapshots.find(layout, manifest.snapshot_id)
    causes = (Reason("control totals", "they differ"), Reason(key, "money is gone"))
    snapshot = snapshots.decide(snapshot, HELD, by="guards", at=START, causes=causes)
    if is_loss:
        with pytest.raises(ReasonRequired, match=r"may lack money \(money is gone\)"):
            snapshots.require_decidable(snapshot, ACCEPTED, why="")
    for state, why in ((ACCEPTED, "sold all"), (REJECTED, ""), (ACCEPTED, "x" * is_loss)):
        assert snapshots.require_decidable(snapshot, state, why=why)


def test_a_person_can_only_accept_or_reject_a_night(layout: Layout) -> None:
    """A person can only accept or reject a night."""
    snapshot = held(layout)
    with pytest.raises(ValueError, match="not a decision"):
        snapshots.decide_by_hand(layout, snapshot.snapshot_id, HELD, by=ME, at=START, why="")


def test_the_missing_snapshot_error_lists_the_latest_snapshots(layout: Layout) -> None:
    """The error about a missing snapshot lists the latest snapshots."""
    with pytest.raises(snapshots.NoSuchSnapshot, match="There are no snapshots"):
        snapshots.find(layout, "20260101T000000Z")
    nights.take(layout, book())
    with pytest.raises(snapshots.NoSuchSnapshot, match="20261120T021500Z"):
        snapshots.find(layout, "20260101T000000Z")


def test_a_changed_decision_is_damaged(layout: Layout) -> None:
    """A decision file that was changed is damaged, so held cannot become accepted by an edit."""
    path = held(layout).folder / snapshots.DECISION
    path.write_text(path.read_text().replace('"held"', '"accepted"'))
    with pytest.raises(sealed_json.DamagedFile, match=r"decision\.json"):
        snapshots.landed_snapshots(layout)


def test_the_newest_accepted_night_of_a_date_is_its_book(layout: Layout) -> None:
    """A later accepted night replaces its date's book, whose files leave the date's folders."""
    first = nights.take(layout, book("1"))
    hour = timedelta(hours=1)
    second = nights.take(layout, book("2"), START + hour)
    third = nights.take(layout, nights.Book([], []), START + 2 * hour)
    assert (first.state, second.state, third.state) == (ACCEPTED, ACCEPTED, HELD)
    assert snapshots.books(snapshots.landed_snapshots(layout)) == {START.date(): second}
    placed = layout.parquet("balances", START.date(), second.snapshot_id)
    assert list(placed.parent.iterdir()) == [placed]
    assert [row["amount_text"] for row in nights.rows_of(placed)] == ["2"]
    assert layout.staged_file("balances", first.snapshot_id).is_file()
    lake = placement.lake_contents(LakeManifests(layout))
    assert [one for _, one, _ in lake.books] == [second.snapshot_id]
    assert [(row["snapshot_id"], row["is_book"]) for row in lake.snapshots] == [
        (first.snapshot_id, False),
        (second.snapshot_id, True),
        (third.snapshot_id, False),
    ]


def test_a_held_night_replaces_the_book_when_it_is_accepted(
    layout: Layout,
) -> None:
    """When a held night is accepted, `settle` replaces the files of the date's earlier book."""
    snapshot = held(layout, START + timedelta(hours=1))
    folder = layout.parquet("balances", START.date(), "x").parent
    before = sorted(path.name for path in folder.iterdir())
    snapshots.decide_by_hand(
        layout, snapshot.snapshot_id, ACCEPTED, by=ME, at=START + DAY, why="true"
    )
    placement.move_into_place(layout)
    after = sorted(path.name for path in folder.iterdir())
    assert before != after == [f"{snapshot.snapshot_id}.parquet"]


def test_rejecting_a_book_restores_the_previous_book(
    layout: Layout,
) -> None:
    """After a rejection, the date's previous book and its files return, if there is such a book."""
    first = nights.take(layout, book("1"))
    second = nights.take(layout, book("2"), START + timedelta(hours=1))
    folder = layout.parquet("balances", START.date(), "x").parent
    for snapshot, left in ((second, [f"{first.snapshot_id}.parquet"]), (first, [])):
        snapshots.decide_by_hand(
            layout, snapshot.snapshot_id, REJECTED, by=ME, at=START + DAY, why="another company's"
        )
        placement.move_into_place(layout)
        assert sorted(path.name for path in folder.iterdir()) == left
    assert snapshots.books(snapshots.landed_snapshots(layout)) == {}


def _tree(layout: Layout) -> dict[str, bytes]:
    """Return the content of every file in the lake."""
    return {
        str(path.relative_to(layout.lake)): path.read_bytes()
        for path in sorted(layout.lake.rglob("*"))
        if path.is_file()
    }


class Killed(BaseException):
    """A simulated kill of the process."""


def test_move_into_place_completes_after_a_kill_at_any_move(
    layout: Layout, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill at any move, the next run ends with the same files as an uninterrupted run."""
    nights.take(layout, book("1"))
    monkeypatch.setattr(placement, "move_into_place", lambda *_: None)
    nights.take(layout, book("2"), START + timedelta(hours=1))
    monkeypatch.undo()
    whole = Layout(tmp_path_factory.mktemp("whole") / "home")
    shutil.copytree(layout.home, whole.home)
    placement.move_into_place(whole)
    expected = _tree(whole)
    replace = Path.replace
    for moves in range(2 * len(BOOK)):
        home = Layout(tmp_path_factory.mktemp("killed") / "home")
        shutil.copytree(layout.home, home.home)
        monkeypatch.setattr(Path, "replace", _killing(replace, moves))
        with pytest.raises(Killed):
            placement.move_into_place(home)
        monkeypatch.undo()
        placement.move_into_place(home)
        assert _tree(home) == expected, moves
        placement.move_into_place(home)
        assert _tree(home) == expected


def _killing(replace: Callable[[Path, Path], Path], moves: int) -> Callable[[Path, Path], Path]:
    left = [None] * moves

    def act(source: Path, target: Path) -> Path:
        if not left:
            raise Killed
        left.pop()
        return replace(source, target)

    return act


def _stale(layout: Layout, snapshot: snapshots.Snapshot) -> dict[str, tuple[str, date | None]]:
    path = layout.parquet("instruments", snapshot.snapshot_date, snapshot.snapshot_id)
    return {
        row["venue_id"]: (row["instrument_id"], row["stale_since"]) for row in nights.rows_of(path)
    }


def test_carried_over_rows_keep_the_date_of_the_last_good_read(
    layout: Layout,
) -> None:
    """Over several failed nights, the rows keep the date of the last good read.

    After the next good read, the rows have no such date.
    """
    days = [START + number * DAY for number in range(5)]
    nights.take(layout, book(listed="A"), days[0])
    nights.take(layout, book(listed="B"), days[1])
    second = nights.take(layout, book(listed="C", failed=("v3",)), days[2])
    third = nights.take(layout, book(listed="D", failed=("v3",)), days[3])
    good = nights.take(layout, book(listed="E"), days[4])
    assert {one.state for one in (second, third, good)} == {ACCEPTED}
    assert _stale(layout, second)["v3"] == ("B", days[1].date())
    assert _stale(layout, third)["v3"] == ("B", days[1].date())
    assert _stale(layout, third)["v4"] == ("D", None)
    assert _stale(layout, good)["v3"] == ("E", None)
    for snapshot in (second, third):
        path = layout.parquet("instruments", snapshot.snapshot_date, snapshot.snapshot_id)
        rows = nights.rows_of(path)
        assert {row["snapshot_date"] for row in rows} == {snapshot.snapshot_date}
        assert len(rows) == 12


def test_a_night_with_many_failed_venues_is_held(layout: Layout) -> None:
    """If more than a tenth of the venues fail, the night is held, and the reason counts them."""
    nights.take(layout, book())
    snapshot = nights.take(layout, book(failed=("v3", "v4")), START + DAY)
    assert snapshot.state == HELD
    assert snapshot.decision
    assert snapshot.decision.reasons == (
        "the instruments of 2 of 12 venues could not be read (limit: a tenth)",
    )


def test_a_venue_that_was_never_read_has_no_instruments(layout: Layout) -> None:
    """If a venue fails on the first night, it has no instruments."""
    snapshot = nights.take(layout, book(failed=("v3",)))
    assert "v3" not in _stale(layout, snapshot)


def test_a_rejected_value_with_money_holds_a_night(layout: Layout) -> None:
    """A rejected value that carries money holds a night, even if no total has fallen."""
    nights.take(layout, book())
    spoiled = book()
    spoiled.portfolios[0]["positions"][0]["accounts"][0]["balance"]["margin"]["locked"] = 1.5
    snapshot = nights.take(layout, spoiled, START + DAY)
    assert snapshot.state == HELD
    assert snapshot.decision
    assert "balance.margin.locked" in snapshot.decision.reasons[0]


def test_a_rebuild_from_landing_gives_an_identical_lake(
    layout: Layout, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A rebuild from the landing zone alone produces the same lake, byte for byte.

    The nights include a failed venue, and a held night that was accepted later.
    """
    for number in range(3):
        started = START + number * DAY
        nights.take(layout, nights.of_world(LivingWorld().at(started.date())), started)
    nights.take(layout, nights.Book([], [venue("kestrel")]), START + 3 * DAY)
    last = nights.of_world(LivingWorld().at((START + 4 * DAY).date()))
    kestrel = {key for key in last.instruments if key[0] == "kestrel"}
    lists = {key: one for key, one in last.instruments.items() if key not in kestrel}
    last = nights.Book(last.portfolios, last.venues, lists, frozenset({"kestrel"}))
    assert nights.take(layout, last, START + 4 * DAY).state == ACCEPTED
    [waiting] = [one for one in snapshots.landed_snapshots(layout) if one.state == HELD]
    snapshots.decide_by_hand(
        layout, waiting.snapshot_id, ACCEPTED, by=ME, at=START + 9 * DAY, why="so it was"
    )
    placement.move_into_place(layout)
    again = Layout(tmp_path_factory.mktemp("again"))
    shutil.copytree(layout.landing, again.landing)
    for folder in night_folders.folders(again):
        night.finish(LakeManifests(again), folder, START + 99 * DAY)
    assert _tree(again) == _tree(layout)
    carried = [
        row for row in _stale(layout, snapshots.landed_snapshots(layout)[-1]).items() if row[1][1]
    ]
    assert carried
    assert {since for _, (_, since) in carried} == {(START + 2 * DAY).date()}


def test_the_error_about_a_changed_lake_manifest_names_a_remedy(
    layout: Layout,
) -> None:
    """A changed lake manifest is damaged, and the error names the command that rebuilds it."""
    snapshot = nights.take(layout, book())
    path = layout.manifest(snapshot.snapshot_id)
    path.write_text(path.read_text().replace('"BTC": "1"', '"BTC": "2"'))
    with pytest.raises(sealed_json.DamagedFile, match="rebuild --from-landing"):
        lake_manifest.read_manifest(layout, snapshot.snapshot_id)


def test_a_reader_that_loses_an_amount_holds_the_night(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that loses an amount causes different control totals, so the night is held."""
    from_rows = resources.build_rows

    def losing(*arguments: Any) -> Any:
        tables = from_rows(*arguments)
        return {
            name: batch.slice(1) if name == "balances" else batch for name, batch in tables.items()
        }

    monkeypatch.setattr(resources, "build_rows", losing)
    snapshot = nights.take(layout, book())
    assert snapshot.state == HELD
    assert snapshot.decision
    assert snapshot.decision.reasons == (
        (
            "control totals differ between landed JSON and lake: 2, the first for balances "
            "rows. See ops.control_totals"
        ),
    )
