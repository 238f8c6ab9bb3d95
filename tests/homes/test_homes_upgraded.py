"""Tests of a home of the last commit before 0.2.0, which continues, and of older landings."""

import tarfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from pipelines.landing import snapshots
from tests.homes.__main__ import COMMIT, HOMES
from tests.homes.world import SmallWorld
from tests.support.operator_home import Keeper, Sandbox, amounts_of, sandbox
from tests.support.reconciliation_home import Desk
from tests.support.shared import some_daily
from warehouse.contract import states
from warehouse.reconcile import service

A_PERSON_MUST_DECIDE = 3
FIRST, SECOND, HELD, TONIGHT = (date(2026, 3, day) for day in (3, 4, 5, 6))
LANDINGS = sorted(HOMES.glob("landing-*.tar.xz"))


@pytest.fixture(scope="module")
def served() -> Iterator[Sandbox]:
    """Start a sandbox that serves the world of those homes."""
    with sandbox() as shown:
        shown.show(world=SmallWorld())
        yield shown


@pytest.fixture
def unpack(served: Sandbox, tmp_path: Path) -> Callable[[Path], Keeper]:
    """Return a function that unpacks a stored home."""

    def unpacked(archive: Path) -> Keeper:
        with tarfile.open(archive) as tar:
            # Python 3.11.2, which Debian 12 has, does not know the filter yet.
            checked: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(tmp_path / "home", **checked)  # noqa: S202 - our own archive
        served.clock.night(TONIGHT)
        return Keeper(tmp_path / "home", served)

    return unpacked


@pytest.fixture
def keeper(unpack: Callable[[Path], Keeper]) -> Keeper:
    """Return the home of the last commit before 0.2.0."""
    return unpack(HOMES / f"{COMMIT}.tar.xz")


def has_book(keeper: Keeper, day: date) -> bool:
    """Return True if the warehouse has exactly the amounts of the world of a day."""
    rows = keeper.ask(
        "select portfolio_id, asset_id, venue_id, account_name, bucket, state, amount_text "
        f"from history.balances where snapshot_date = '{day}'"
    )
    return sorted(rows) == amounts_of(day, SmallWorld())


def workbook(keeper: Keeper, day: date) -> str:
    """Return the path of a day's reconciliation workbook."""
    return str(Desk(keeper.home).folder.day_files(day).workbook)


def test_a_home_of_the_last_version_opens_unchanged(keeper: Keeper, tmp_path: Path) -> None:
    """Its books, workbooks, signatures and pack verify, and its backup restores."""
    assert all(has_book(keeper, day) for day in (FIRST, SECOND))
    assert keeper("verify").code == 0
    for day in (FIRST, SECOND):
        said = keeper("reconcile", "verify", workbook(keeper, day))
        assert (said.code, said.err) == (0, "")
        standing = service.status(keeper.home / "reconcile", day=day)
        assert [one.who for one in standing.signatures] == ["Ada", "Bo"]
        assert standing.closing is not None
    said = keeper("reconcile", "verify", str(keeper.home / "reconcile" / "packs" / "2026-03.zip"))
    assert (said.code, said.err) == (0, "")
    assert keeper("backup", str(tmp_path / "book.tar")).code == 0
    restored = replace(keeper, home=tmp_path / "restored")
    assert restored("restore", str(tmp_path / "book.tar")).code == 0
    assert restored("verify").code == 0
    assert all(has_book(restored, day) for day in (FIRST, SECOND))
    assert service.status(restored.home / "reconcile").run.day == SECOND


def test_a_home_of_the_last_version_continues(keeper: Keeper) -> None:
    """The next night is taken, reconciled with earlier comments, signed, closed and verified."""
    before = {one["names"]["asset"]: one for one in Desk(keeper.home).breaks(SECOND)}
    said = keeper.run(TONIGHT)
    assert (said.code, said.err) == (0, "")
    assert all(has_book(keeper, day) for day in (FIRST, SECOND, TONIGHT))
    reached = [snapshot.state for snapshot in snapshots.landed_snapshots(keeper.layout)]
    assert reached == [states.ACCEPTED, states.ACCEPTED, states.HELD, states.ACCEPTED]
    folder = keeper.home / "reconcile"
    service.rehearse(keeper.layout.database, folder, first=FIRST)
    assert keeper("reconcile", "run").code == A_PERSON_MUST_DECIDE
    after = {one["id"]: one for one in Desk(keeper.home).breaks(TONIGHT)}
    kept = [one for one in before.values() if one["id"] in after]
    assert kept
    assert all(after[one["id"]]["first_seen"] == one["first_seen"] for one in kept)
    said_of = service.history(folder, next(iter(before.values()))["id"])
    assert any(entry["kind"] == "said" for entry in said_of)
    for role, who in (("preparer", "Ada"), ("reviewer", "Bo")):
        assert keeper("reconcile", "sign", "--role", role, "--who", who).code == 0
    assert keeper("reconcile", "close", "2026-03").code == 0
    for pack in ("2026-03.zip", "2026-03_v2.zip"):
        said = keeper("reconcile", "verify", str(folder / "packs" / pack))
        assert (said.code, said.err) == (0, "")
    assert keeper("reconcile", "verify", workbook(keeper, TONIGHT)).code == 0
    assert keeper("verify").code == 0


@pytest.mark.parametrize("archive", some_daily(LANDINGS, 3), ids=lambda path: path.name)
def test_every_older_landing_folder_rebuilds(
    archive: Path, unpack: Callable[[Path], Keeper]
) -> None:
    """The landing folder alone gives the same books and states, which pass verification."""
    keeper = unpack(archive)
    said = keeper("rebuild", "--from-landing")
    assert (said.code, said.err) == (0, "")
    assert all(has_book(keeper, day) for day in (FIRST, SECOND))
    reached = [snapshot.state for snapshot in snapshots.landed_snapshots(keeper.layout)]
    assert reached == [states.ACCEPTED, states.ACCEPTED, states.HELD]
    assert keeper("verify").code == 0


def test_a_reconciliation_of_version_0_1_0_is_refused(tmp_path: Path) -> None:
    """The refusal says what to do, and no file is changed."""
    folder = tmp_path / "reconcile"
    (folder / "results" / "2026-03-03").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"0\.1\.0 or older.* move it aside to start a new"):
        service.status(folder)
    assert [path.name for path in folder.iterdir()] == ["results"]


@pytest.mark.torture
def test_the_next_run_completes_a_stopped_upgrade(keeper: Keeper) -> None:
    """A night without a manifest and with incomplete tables is rebuilt by the next run."""
    first = snapshots.landed_snapshots(keeper.layout)[0]
    keeper.layout.manifest(first.snapshot_id).unlink()
    keeper.layout.parquet("balances", FIRST, first.snapshot_id).unlink()
    assert keeper.run(TONIGHT).code == 0
    assert all(has_book(keeper, day) for day in (FIRST, SECOND, TONIGHT))


@pytest.mark.torture
def test_a_damaged_old_night_does_not_block_other_nights(
    unpack: Callable[[Path], Keeper],
) -> None:
    """The damaged file is reported, and tonight and all other nights are in the warehouse."""
    keeper = unpack(LANDINGS[0])
    [body] = keeper.layout.landing.glob(f"{FIRST}/*/0001-portfolios.json.zst")
    body.chmod(0o640)
    body.write_bytes(b"not what was landed")
    said = keeper.run(TONIGHT)
    assert said.code == 0
    assert str(body) in said.out
    assert not has_book(keeper, FIRST)
    assert all(has_book(keeper, day) for day in (SECOND, TONIGHT))
