"""Tests of the shelf on real stores: nights are as on one machine, despite failures on the way.

A process is killed at each request, responses are lost, two machines write one night, and a store
is down or ignores conditions. No reader sees half a night, nothing is lost, and the next run needs
no manual help.
"""

import multiprocessing
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assets.console.exit_codes import FAILED
from pipelines.lake import placement
from pipelines.lakehouse.addresses import StoreAddress
from pipelines.lakehouse.object_store import ObjectStore as Shelf
from pipelines.lakehouse.object_store import open_store
from pipelines.landing import snapshots
from tests.support.object_stores import ObjectStore
from tests.support.operator_home import FIRST, SECOND, THIRD, Keeper, Sandbox, sandbox
from tests.support.shelves import NOW, files, require_whole_nights, shelve, take
from tests.support.store_proxy import KILLS, LOST, Worst, proxied
from warehouse.contract.book import BOOK
from warehouse.contract.states import REJECTED
from warehouse.storage.layout import Layout

pytestmark = pytest.mark.lakehouse

INSTANTS = 51
NIGHTS = ("20261118T021500Z", "20261119T021500Z")
# Children start from a process that has not used a store, because threads of obstore do not survive
# a fork.
children = multiprocessing.get_context("forkserver")
children.set_forkserver_preload(["tests.support.shelves"])


@pytest.fixture
def home(two_nights: Path, tmp_path: Path) -> Path:
    """Create a home with two nights that no shelf has."""
    return Path(shutil.copytree(two_nights, tmp_path / "home", symlinks=True))


@pytest.fixture(scope="module")
def shown() -> Iterator[Sandbox]:
    """Start an API with realistic nights."""
    with sandbox() as api:
        api.show()
        yield api


@pytest.fixture(scope="module")
def proxy(object_store: ObjectStore) -> Iterator[tuple[str, Worst]]:
    """Start a proxy in front of the store."""
    with proxied(object_store.endpoint) as reached:
        yield reached


def address_of(store: ObjectStore, name: str, endpoint: str = "") -> StoreAddress:
    """Return the address of a separate shelf on a store, optionally through a proxy."""
    return StoreAddress(f"{store.root}/{name}", store.reached_by(endpoint or store.endpoint))


def shelve_alone(home: Path, address: StoreAddress) -> None:
    """Shelve the nights of a home, in a child process."""
    assert shelve(home, open_store(address)).problems == ()


def child_of(home: Path, address: StoreAddress, worst: Worst) -> int:
    """Shelve in a separate process, which may be killed, and return its exit code."""
    process = children.Process(target=shelve_alone, args=(home, address))
    process.start()
    worst.process = process.pid or 0
    process.join()
    return process.exitcode or 0


def keeper(store: ObjectStore, home: Path, api: Sandbox, name: str) -> Keeper:
    """Return the command line of a home with a shelf."""
    return Keeper(home, api, {"NIGHTBOOK_LAKE": f"{store.root}/{name}", **store.variables})


def figures(reader: Keeper) -> list[str]:
    """Return the ordered rows of each table over all nights, and the exact totals."""
    asked = [f"select * from history.{table.name} order by all" for table in BOOK]
    asked.append(
        "select snapshot_date, asset_id, exact_sum(amount_text) from history.balances "
        "group by all order by all"
    )
    answers = [reader("query", sql, "--format", "csv") for sql in asked]
    assert {answer.code for answer in answers} == {0}
    return [answer.out for answer in answers]


def test_a_second_machine_has_the_same_nights(
    object_store: ObjectStore, shown: Sandbox, tmp_path: Path
) -> None:
    """A second machine has the same rows and totals, and a lost home is restored from the shelf."""
    local = Keeper(tmp_path / "local", shown)
    first = keeper(object_store, tmp_path / "first", shown, "machines")
    second = keeper(object_store, tmp_path / "second", shown, "machines")
    for day in (FIRST, SECOND):
        assert first.run(day).code == 0
        assert local.run(day).code == 0
    assert second("publish").code == 0
    assert figures(second) == figures(local)
    for machine in (first, second):
        assert machine("verify").code == 0
        assert machine("verify", "--shelf").code == 0
        assert "passed its test; 2 nights" in machine("doctor").out
    kept = files(first.home)
    shutil.rmtree(first.home)
    assert first("publish", "--with-landing").code == 0
    assert files(first.home) == kept
    assert first.run(THIRD).code == 0
    assert local.run(THIRD).code == 0
    assert second("publish").code == 0
    assert figures(second) == figures(local) == figures(first)


@pytest.mark.parametrize("way", KILLS)
def test_readers_see_only_complete_nights_after_a_kill(
    object_store: ObjectStore, proxy: tuple[str, Worst], home: Path, tmp_path: Path, way: str
) -> None:
    """After a kill at any request, readers see only whole nights, and the next run finishes."""
    endpoint, worst = proxy
    worst.forget()
    counted = address_of(object_store, f"counted-{way}", endpoint)
    whole = Path(shutil.copytree(home, tmp_path / "whole", symlinks=True))
    assert child_of(whole, counted, worst) == 0
    requests, count = len(worst.seen), INSTANTS // len(KILLS)
    for number in range(count):
        name, at = f"{way}-{number}", 1 + number * (requests - 1) // (count - 1)
        case = Path(shutil.copytree(home, tmp_path / name, symlinks=True))
        direct = open_store(address_of(object_store, name))
        worst.forget(way, at)
        assert child_of(case, address_of(object_store, name, endpoint), worst) != 0
        require_whole_nights(home, direct, tmp_path / "reader")
        worst.forget()
        assert child_of(case, address_of(object_store, name), worst) == 0
        assert require_whole_nights(home, direct, tmp_path / "reader") == NIGHTS


def test_a_lost_response_loses_no_data(
    object_store: ObjectStore, proxy: tuple[str, Worst], home: Path, tmp_path: Path
) -> None:
    """If the response to a write is lost, the run recognises its own object and loses nothing."""
    endpoint, worst = proxy
    worst.forget(verb="PUT")
    whole = Path(shutil.copytree(home, tmp_path / "whole", symlinks=True))
    shelve(whole, open_store(address_of(object_store, "counted-lost", endpoint)))
    for at in range(1, len(worst.seen) + 1, 4):
        worst.forget(LOST, at, "PUT")
        case = Path(shutil.copytree(home, tmp_path / f"lost-{at}", symlinks=True))
        result = shelve(case, open_store(address_of(object_store, f"lost-{at}", endpoint)))
        assert (result.nights, result.problems) == (NIGHTS, ())
        direct = open_store(address_of(object_store, f"lost-{at}"))
        assert require_whole_nights(home, direct, tmp_path / "reader") == NIGHTS


def test_simultaneous_decisions_are_both_kept(
    object_store: ObjectStore, home: Path, tmp_path: Path
) -> None:
    """If two machines decide on one night at the same time, both get both decisions."""
    for number in range(5):
        name = f"writers-{number}"
        store = open_store(address_of(object_store, name))
        shelve(home, store)
        writers = [tmp_path / f"{name}-{who}" for who in ("ana", "ben")]
        for writer in writers:
            take(writer, store)
            snapshots.decide_by_hand(
                Layout(writer), NIGHTS[1], REJECTED, by=writer.name, at=NOW, why="wrong"
            )
            placement.move_into_place(Layout(writer))
        with ThreadPoolExecutor() as pool:
            runs = [pool.submit(shelve, writer, store) for writer in writers]
            results = [run.result() for run in runs]
        assert [result.problems for result in results] == [(), ()]
        for writer in writers:
            assert shelve(writer, store).problems == ()
            placement.move_into_place(Layout(writer))
            decisions = snapshots.find(Layout(writer), NIGHTS[1]).decisions
            assert {one.by for one in decisions[1:]} == {each.name for each in writers}
            assert require_whole_nights(writer, store, tmp_path / "reader") == NIGHTS
        (home / "shelf.json").unlink()


def test_a_store_that_ignores_conditions_is_refused(
    rclone: ObjectStore, shown: Sandbox, tmp_path: Path
) -> None:
    """The night is published locally, the run says why it is not shelved, and a probe remains."""
    liar = keeper(rclone, tmp_path / "home", shown, "liar")
    taken = liar.run(FIRST)
    assert taken.code == FAILED
    assert "is not safe" in taken.err
    assert liar("query", "select count(*) from balances").code == 0
    assert "created an object that already existed" in liar("doctor").out
    assert [*open_store(address_of(rclone, "liar")).list("")] == ["probe"]


def test_a_store_that_is_down_only_delays_shelving(
    seaweedfs: ObjectStore, shown: Sandbox, tmp_path: Path
) -> None:
    """The book is published, run and status name the waiting night, and the next run shelves it."""
    down = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    up = keeper(seaweedfs, tmp_path / "home", shown, "down")
    away = Keeper(up.home, shown, {**up.more, **down})
    taken = away.run(FIRST)
    assert taken.code == FAILED
    assert "nightbook shelve" in taken.err
    assert "nightsecret" not in taken.err + taken.out
    assert away("query", "select count(*) from balances").code == 0
    assert "not on the shelf" in away("status").out
    assert up.run(SECOND).code == 0
    store: Shelf = open_store(address_of(seaweedfs, "down"))
    seen = require_whole_nights(up.home, store, tmp_path / "reader")
    assert len(seen) == len((FIRST, SECOND))
