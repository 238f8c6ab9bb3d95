"""Nights flattened on Spark are byte for byte those that are flattened here, whoever dies."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from assets.nightbook import Nightbook
from assets.publishing.rebuild import rebuild
from pipelines.lake import placement
from pipelines.maintenance.verify import verify
from pipelines.sandbox.world.world import LivingWorld
from tests.support import environments, nights, spark_cluster
from tests.support.shipped_units import until
from warehouse.query.read import run as ask
from warehouse.storage.layout import Layout, digest_of

pytestmark = pytest.mark.lakehouse

ORGANISATIONS = ("north", "south", "east")
NIGHTS = 20
TOTALS = (
    "select snapshot_date, asset_id, is_custom_asset, exact_sum(amount_text) "
    "from history.balances group by all order by all"
)
# All homes in one job, as a firm does it.
JOB = """
import sys
from assets.nightbook import Nightbook
from assets.publishing.rebuild import rebuild_on_spark
rebuild_on_spark([Nightbook(lambda home=home: {"NIGHTBOOK_HOME": home}) for home in sys.argv[1:]])
"""


def book(seed: str, number: int) -> nights.Book:
    """A night's answers: in some nights a venue fails, or has no instruments any more."""
    day = (nights.STARTED + timedelta(days=number)).date()
    full = nights.of_world(LivingWorld(seed).at(day))
    silent, emptied = (venue["id"] for venue in full.venues[:2])
    listed = dict(full.instruments)
    if number % 7 == 3:
        listed = {key: [] if key[0] == emptied else each for key, each in listed.items()}
        venues = [
            venue | {"instruments": []} if venue["id"] == emptied else venue
            for venue in full.venues
        ]
        return replace(full, instruments=listed, venues=venues)
    if number % 5 in (2, 3):
        listed = {key: each for key, each in listed.items() if key[0] != silent}
        return replace(full, instruments=listed, failed=frozenset({silent}))
    return full


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home of each organisation, its lake and warehouse made again here."""
    folder = tmp_path_factory.mktemp("organisations")
    for seed in ORGANISATIONS:
        layout = Layout(folder / seed)
        for number in range(NIGHTS):
            nights.take(layout, book(seed, number), nights.STARTED + timedelta(days=number))
        placement.settle(layout)
        rebuild(keeper(layout), from_landing=True)
    return folder


@pytest.fixture
def homes(rebuilt: Path, tmp_path: Path) -> list[Layout]:
    """The same nights with nothing made of them, as a restored machine has them."""
    for seed in ORGANISATIONS:
        shutil.copytree(rebuilt / seed / "landing", tmp_path / seed / "landing")
    return [Layout(tmp_path / seed) for seed in ORGANISATIONS]


def keeper(layout: Layout) -> Nightbook:
    """The keeper of a home."""
    return Nightbook(lambda: {"NIGHTBOOK_HOME": str(layout.home)})


def files(layout: Layout) -> dict[str, str]:
    """The SHA-256 of every file and manifest of a lake."""
    return {
        str(path.relative_to(layout.home)): digest_of(path)
        for path in layout.lake.rglob("*")
        if path.is_file()
    }


def require_alike(homes: list[Layout], folder: Path) -> None:
    """Lake and totals are those of a local rebuild, and nothing else is left."""
    for layout in homes:
        local = Layout(folder / layout.home.name)
        assert files(layout) == files(local)
        assert len(files(layout)) > NIGHTS * 14
        assert ask(layout.database, TOTALS).rows == ask(local.database, TOTALS).rows
        assert list(verify(layout)) == []
        assert list(layout.work.iterdir()) == []


def attempts(homes: list[Layout]) -> int:
    """How many nights workers began to flatten."""
    return sum(1 for layout in homes for _ in layout.work.glob("flattened-*/*"))


def command(layout: Layout) -> list[str]:
    """What an operator types."""
    return [
        sys.executable,
        "-m",
        "assets.cli",
        "--home",
        str(layout.home),
        "rebuild",
        "--engine",
        "spark",
    ]


def job(words: list[str], variables: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a rebuild; what it and Spark say goes to the log."""
    with log.open("wb") as out:
        return subprocess.Popen(
            words,
            cwd=environments.ROOT,
            env={**os.environ, **variables},
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def test_a_worker_that_dies_costs_time_and_no_byte(
    rebuilt: Path, homes: list[Layout], tmp_path: Path
) -> None:
    """Sixty nights of three organisations on two workers, one killed on the way: all is alike."""
    log = tmp_path / "log"
    with spark_cluster.cluster(tmp_path / "cluster", workers=2) as (master, workers):
        variables = spark_cluster.settings(tmp_path / "settings", master)
        words = [sys.executable, "-c", JOB, *(str(layout.home) for layout in homes)]
        with job(words, variables, log) as running:
            until("nights", lambda: attempts(homes) > 10, log)
            until("both workers", lambda: all(worker.has_executor for worker in workers), log)
            begun = attempts(homes)
            workers[0].kill()
            assert running.wait(600) == 0, log.read_text()[-4000:]
    assert 10 < begun < len(ORGANISATIONS) * NIGHTS
    assert "Lost executor" in log.read_text()
    require_alike(homes, rebuilt)


def test_a_command_that_dies_changed_nothing_and_is_run_again(
    rebuilt: Path, homes: list[Layout], tmp_path: Path
) -> None:
    """Killed while Spark flattens, the old lake stands; the next one clears up and ends alike."""
    [layout, *_], log = homes, tmp_path / "log"
    rebuild(keeper(layout), from_landing=True)
    variables = spark_cluster.settings(tmp_path / "settings", "local[2]")
    with job(command(layout), variables, log) as running:
        until("nights", lambda: attempts([layout]) > 3, log)
        running.send_signal(signal.SIGKILL)
    assert files(layout) == files(Layout(rebuilt / layout.home.name))
    assert attempts([layout]) > 3
    assert list(verify(layout)) == []
    with job(command(layout), variables, log) as running:
        assert running.wait(600) == 0, log.read_text()[-4000:]
    assert f"Rebuilt from the landing zone on Spark: {NIGHTS - 1} nights" in log.read_text()
    require_alike([layout], rebuilt)
