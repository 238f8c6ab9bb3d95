"""Tests of retention: old nights are deleted, but no file that is still needed."""

import shutil
from collections.abc import Iterable
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pytest

from assets.publishing import publish
from assets.publishing.publish import rebuild
from pipelines.lake import lake_manifest, placement
from pipelines.landing import snapshots
from pipelines.landing.fingerprint import LIST
from pipelines.landing.manifest import load_manifest
from pipelines.landing.night_folders import MANIFEST
from pipelines.landing.snapshots import DECISION
from pipelines.maintenance.prune import KeptNightDamaged, PruneResult, prune
from pipelines.maintenance.verify import verify
from tests.crash import nights
from tests.support.shared import once
from warehouse.contract.states import ACCEPTED, HELD, PRUNED, REJECTED
from warehouse.storage.layout import Layout

DAYS = ("2026-09-30", "2026-10-30", "2026-10-31", "2026-11-01", "2026-11-17", "2026-11-18")
NOW = datetime(2027, 3, 1, tzinfo=UTC)
LATER = datetime(2027, 3, 2, tzinfo=UTC)
UNREAD = "instruments?type=spot"


def moment(day: str, hour: int = 2) -> datetime:
    """Return the time at which the night of a day is pulled."""
    return datetime.fromisoformat(f"{day}T{hour:02}:15:00+00:00")


@pytest.fixture(scope="session")
def seasons(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a home with six nights over three months. The oldest night was pulled twice."""

    def make(folder: Path) -> None:
        home = folder / "home"
        same = nights.answers(date(2026, 11, 18))
        nights.judged(home, moment(DAYS[0], 1), same)
        for day in DAYS:
            assert nights.judged(home, moment(day), same).state == ACCEPTED
        publish.refresh(nights.nightbook(home, nights.Clock(NOW)))

    return once(tmp_path_factory, "seasons", make) / "home"


@pytest.fixture
def layout(seasons: Path, tmp_path: Path) -> Layout:
    """Return a copy of that home."""
    shutil.copytree(seasons, tmp_path / "home", symlinks=True)
    return Layout(tmp_path / "home")


def pruned(
    layout: Layout, days: int, *, month_ends: bool = False, dry: bool = False
) -> PruneResult:
    """Prune at a time long after the newest night."""
    return prune(layout, keep_days=days, keep_month_ends=month_ends, dry_run=dry, at=NOW)


def states(layout: Layout) -> dict[str, str]:
    """Return the state of every landed snapshot by its ID."""
    return {one.snapshot_id: one.state for one in snapshots.landed_snapshots(layout)}


def dates(ids: Iterable[str]) -> list[str]:
    """Return the dates of snapshot IDs."""
    return [f"{one[:4]}-{one[4:6]}-{one[6:8]}" for one in ids]


def files(layout: Layout) -> list[Path]:
    """Return all files of the landing zone and the lake."""
    return sorted(p for r in (layout.landing, layout.lake) for p in r.rglob("*") if p.is_file())


def test_prune_deletes_only_bodies_and_tables_of_old_nights(layout: Layout) -> None:
    """Bodies and tables of old nights are deleted, and their manifests and decisions are kept."""
    done = pruned(layout, 10)
    assert dates(done.snapshots) == [DAYS[0], *DAYS[:4]]
    assert not any(path.exists() for path in done.files)
    for folder in layout.landing.glob("2026-10-*/*"):
        assert sorted(path.name for path in folder.iterdir()) == [DECISION, MANIFEST]
        assert [one.state for one in snapshots.read(folder).decisions] == [ACCEPTED, PRUNED]
    assert sorted({path.stem for path in layout.lake.rglob("*.parquet")}) == [
        "20261117T021500Z",
        "20261118T021500Z",
    ]
    keeper = nights.nightbook(layout.home, nights.Clock(LATER))
    assert len(publish.refresh(keeper).removed) == 4
    assert list(verify(layout)) == []


def test_the_last_book_of_a_month_is_kept_on_request(layout: Layout) -> None:
    """If month ends are kept, the last book of each month stays: the newer one of two snapshots."""
    done = pruned(layout, 1, month_ends=True)
    gone = snapshots.find(layout, done.snapshots[0]).decisions[-1]
    assert gone.reasons == ("more than 1 day older than the newest book",)
    assert dates(done.snapshots) == [DAYS[0], DAYS[1], DAYS[3], DAYS[4]]
    assert done.snapshots[0] == "20260930T011500Z"
    kept = [one for one, state in states(layout).items() if state == ACCEPTED]
    assert dates(kept) == [DAYS[0], DAYS[2], DAYS[5]]


def test_the_newest_book_is_never_deleted(layout: Layout) -> None:
    """The newest book is never deleted, however short the retention is."""
    snapshot = snapshots.find(layout, "20261118T021500Z")
    snapshots.decide(snapshot, REJECTED, by="ann", at=NOW)
    placement.move_into_place(layout)
    assert "20261117T021500Z" not in pruned(layout, 1).snapshots
    assert states(layout)["20261117T021500Z"] == ACCEPTED


def test_a_held_night_is_kept(layout: Layout) -> None:
    """A held night is kept, unless its date has a newer book."""
    for one in ("20261030T021500Z", "20260930T011500Z"):
        snapshots.decide(snapshots.find(layout, one), HELD, by="guards", at=NOW)
    placement.move_into_place(layout)
    pruned(layout, 1)
    assert states(layout)["20261030T021500Z"] == HELD
    assert states(layout)["20260930T011500Z"] == PRUNED


def test_a_dry_run_reports_the_same_and_deletes_nothing(layout: Layout) -> None:
    """A dry run reports the same nights, files and bytes as the prune, and deletes nothing."""
    before = files(layout)
    announced = pruned(layout, 10, dry=True)
    assert files(layout) == before
    assert set(states(layout).values()) == {ACCEPTED}
    done = pruned(layout, 10)
    assert done == announced
    assert done.byte_count > 0
    assert set(before) - set(files(layout)) == set(done.files)


def test_a_second_prune_deletes_only_leftovers(layout: Layout) -> None:
    """A second prune deletes nothing, except files that a killed prune left."""
    done = pruned(layout, 10)
    assert pruned(layout, 10) == PruneResult((), (), 0, done.left)
    done.files[-1].write_bytes(b"left")
    assert pruned(layout, 10).files == (done.files[-1],)
    assert not done.files[-1].exists()


def test_a_prune_stores_decisions_before_it_deletes_files(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each night's decision is stored before a file is deleted, so `verify` finds no damage."""

    def die(_path: Path, *, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr(Path, "unlink", die)
        with pytest.raises(KeyboardInterrupt):
            pruned(layout, 1)
    assert PRUNED in states(layout).values()
    assert [*verify(layout)] == []


def test_a_partly_written_decision_does_not_stop_the_prune(layout: Layout) -> None:
    """A partly written decision of an old night does not stop the prune."""
    folder = snapshots.find(layout, "20261030T021500Z").folder
    (folder / f".{DECISION}.aside").write_bytes(b"half")
    assert len(pruned(layout, 10).snapshots) == 5
    assert sorted(path.name for path in folder.iterdir()) == [DECISION, MANIFEST]


def test_a_pruned_home_rebuilds_to_the_same_book(layout: Layout) -> None:
    """A rebuild from landing after pruning gives the same rows as before the rebuild."""
    pruned(layout, 10)
    keeper = nights.nightbook(layout.home, nights.Clock(LATER))
    publish.refresh(keeper)
    expected = warehouse(layout)
    rebuild(keeper, from_landing=True)
    assert warehouse(layout) == expected
    assert list(verify(layout)) == []
    assert {state for _, state in expected["snapshots"]} == {ACCEPTED, PRUNED}


def warehouse(layout: Layout) -> dict[str, list[tuple[object, ...]]]:
    """Return the rows that readers see."""
    queries = {
        "balances": "select * from history.balances order by all",
        "instruments": "select * from history.instruments order by all",
        "requests": "select * from ops.requests order by all",
        "snapshots": "select snapshot_id, state from ops.snapshots order by all",
        "gaps": "select * from ops.gaps order by all",
    }
    with duckdb.connect(str(layout.database), read_only=True) as connection:
        return {name: connection.execute(query).fetchall() for name, query in queries.items()}


def test_damage_in_a_kept_night_stops_the_prune(layout: Layout) -> None:
    """A damaged file in a kept night stops the prune, but one in an old night does not."""
    kept = next(layout.landing.glob("2026-11-18/*/0001-*.zst"))
    content = kept.read_bytes()
    kept.write_bytes(content[:-1])
    with pytest.raises(
        KeptNightDamaged, match=r"1 file of a kept night is damaged or missing \(.*0001-portfolios"
    ):
        pruned(layout, 10)
    assert set(states(layout).values()) == {ACCEPTED}
    kept.write_bytes(content)
    next(layout.landing.glob("2026-10-30/*/0001-*.zst")).write_bytes(b"damaged")
    assert len(pruned(layout, 10).snapshots) == 5


def test_a_limit_of_zero_days_is_rejected(layout: Layout) -> None:
    """A limit of zero days is rejected, because it is probably a typing error."""
    with pytest.raises(ValueError, match="Nothing was pruned"):
        pruned(layout, 0)


def fitted(layout: Layout, most: int, days: int | None = None, *, ends: bool = True) -> list[str]:
    """Prune to a size and return the deleted nights. With `ends`, month ends are deleted last.

    Also check that a dry run gives the same result, and that `left` is the actual size.
    """
    done = prune(layout, keep_days=days, keep_month_ends=ends, dry_run=True, at=NOW, max_bytes=most)
    assert done == prune(
        layout, keep_days=days, keep_month_ends=ends, dry_run=False, at=NOW, max_bytes=most
    )
    there = [one for one in files(layout) if one.name not in (MANIFEST, DECISION, LIST)]
    assert done.left == sum(path.stat().st_size for path in there)
    return list(done.snapshots)


def test_the_oldest_nights_are_deleted_until_the_rest_fits(layout: Layout) -> None:
    """By size, only as many of the oldest nights as necessary are deleted, and month ends last."""
    whole = prune(layout, keep_days=365, keep_month_ends=True, dry_run=True, at=NOW).left
    half = whole // 14  # half the size of one of seven similar nights
    assert fitted(layout, whole) == []
    assert fitted(layout, whole - 1) == ["20260930T011500Z"]
    assert dates(fitted(layout, whole - 5 * half)) == [DAYS[1], DAYS[3]]
    assert dates(fitted(layout, whole - 9 * half)) == [DAYS[0], DAYS[4]]
    assert dates(fitted(layout, 1)) == [DAYS[2]]
    assert [day for day, state in states(layout).items() if state == ACCEPTED] == [
        "20261118T021500Z"
    ]
    publish.refresh(nights.nightbook(layout.home, nights.Clock(LATER)))
    assert list(verify(layout)) == []


def test_without_month_ends_nights_are_deleted_by_age(layout: Layout) -> None:
    """Without month ends, nights are deleted only by age, and both limits apply."""
    whole = prune(layout, keep_days=365, keep_month_ends=True, dry_run=True, at=NOW).left
    gone = fitted(layout, whole - whole // 14 * 7, 40, ends=False)
    assert dates(gone) == [DAYS[0], DAYS[0], DAYS[1], DAYS[2]]


def test_held_nights_are_kept_with_any_size_limit(layout: Layout) -> None:
    """With any limit, the newest book and held nights without a newer book of the date are kept."""
    held = "20260930T021500Z"
    for one in (held, "20260930T011500Z"):
        snapshots.decide(snapshots.find(layout, one), HELD, by="guards", at=NOW)
    placement.move_into_place(layout)
    fitted(layout, 1)
    assert [one for one, state in states(layout).items() if state != PRUNED] == [
        "20260930T011500Z",
        held,
        "20261118T021500Z",
    ]


def test_the_source_night_of_a_failed_venue_is_kept(tmp_path: Path) -> None:
    """If a kept night carries over a failed venue's instruments, their source night is kept too."""
    layout = Layout(tmp_path / "home")
    given = nights.answers(date(2026, 11, 18))
    for day in DAYS[3:5]:
        nights.judged(layout.home, moment(day), given)
    spot = next(target for target in given if target.endswith(UNREAD))
    lacking = {target: body for target, body in given.items() if target != spot}
    last = nights.judged(layout.home, moment(DAYS[5]), lacking)
    unread = [one for one in load_manifest(last.folder).answers if one.file is None]
    assert [one.query for one in unread if one.query] == ["type=spot"], unread
    if last.state == HELD:
        snapshots.decide(last, ACCEPTED, by="ann", at=moment(DAYS[5], 3))
    placement.move_into_place(layout)
    publish.refresh(nights.nightbook(layout.home, nights.Clock(NOW)))
    assert dates(pruned(layout, 1, dry=True).snapshots) == [DAYS[3]]
    assert dates(fitted(layout, 1)) == [DAYS[3]]


def test_the_source_night_of_an_empty_venue_is_kept(tmp_path: Path) -> None:
    """If a kept night carries over an empty venue's instruments, their source night is kept too."""
    layout = Layout(tmp_path / "home")
    given = nights.answers(date(2026, 11, 18))
    for day in DAYS[3:5]:
        nights.judged(layout.home, moment(day), given)
    venue = next(target for target in given if target.endswith(UNREAD)).rpartition("?")[0]
    lists = {target for target in given if target.startswith(f"{venue}?")}
    emptied = {**given, **dict.fromkeys(lists, b'{"data":[],"meta":{}}')}
    last = nights.judged(layout.home, moment(DAYS[5]), emptied)
    if last.state == HELD:
        snapshots.decide(last, ACCEPTED, by="ann", at=moment(DAYS[5], 3))
    placement.move_into_place(layout)
    publish.refresh(nights.nightbook(layout.home, nights.Clock(NOW)))
    assert lake_manifest.read_manifest(layout, last.snapshot_id)["carried"]
    assert dates(pruned(layout, 1, dry=True).snapshots) == [DAYS[3]]
    assert dates(fitted(layout, 1)) == [DAYS[3]]
