"""Tests of flattening on Spark: the files equal the local ones, even if processes are killed."""

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
from assets.publishing.publish import rebuild
from pipelines.maintenance.verify import verify
from pipelines.sandbox.world.world import LivingWorld
from tests.support import environments, nights, spark_cluster
from tests.support.shipped_units import until
from warehouse.query.read import run as ask
from warehouse.storage.layout import Layout, digest_of

pytestmark = pytest.mark.lakehouse

NIGHTS = 40
TOTALS = (
    "select snapshot_date, asset_id, is_custom_asset, exact_sum(amount_text) "
    "from history.balances group by all order by all"
)


def book(number: int) -> nights.Book:
    """Return the answers of a night. In some nights, a venue fails or has no instruments."""
    day = (nights.STARTED + timedelta(days=number)).date()
    full = nights.of_world(LivingWorld("north").at(day))
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
def local(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Create a home whose lake and warehouse were rebuilt locally."""
    spark_cluster.packages()  # skips the tests before minutes are spent
    layout = Layout(tmp_path_factory.mktemp("local") / "data")
    for number in range(NIGHTS):
        nights.land(layout, book(number), nights.STARTED + timedelta(days=number))
    rebuild(keeper(layout), from_landing=True)
    return layout


@pytest.fixture
def restored(local: Layout, tmp_path: Path) -> Layout:
    """Create the same home with only the landed nights, as on a restored machine."""
    layout = Layout(tmp_path / "data")
    shutil.copytree(local.landing, layout.landing)
    return layout


def keeper(layout: Layout) -> Nightbook:
    """Return the keeper of a home."""
    return Nightbook(lambda: {"NIGHTBOOK_HOME": str(layout.home)})


def files(layout: Layout) -> dict[str, str]:
    """Return the SHA-256 of every file and manifest of a lake."""
    return {
        str(path.relative_to(layout.home)): digest_of(path)
        for path in layout.lake.rglob("*")
        if path.is_file()
    }


def require_alike(layout: Layout, local: Layout) -> None:
    """Check that lake and totals equal those of a local rebuild, and that no scratch is left."""
    assert files(layout) == files(local)
    assert len(files(layout)) > NIGHTS * 14
    assert ask(layout.database, TOTALS).rows == ask(local.database, TOTALS).rows
    assert list(verify(layout)) == []
    assert list(layout.work.iterdir()) == []


def attempts(layout: Layout) -> int:
    """Count the nights that workers began to flatten."""
    return sum(1 for _ in layout.work.glob("flattened-*/*"))


def job(home: Path, variables: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start the operator's command, with its output and that of Spark in the log."""
    program = [sys.executable, "-m", "assets.cli", "--home", str(home)]
    with log.open("wb") as out:
        return subprocess.Popen(
            [*program, "rebuild", "--engine", "spark"],
            cwd=environments.ROOT,
            env={**os.environ, **variables},
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def test_a_killed_worker_does_not_change_the_files(
    local: Layout, restored: Layout, tmp_path: Path
) -> None:
    """If one of two workers is killed, the files of forty nights are still identical."""
    log = tmp_path / "log"
    with spark_cluster.cluster(tmp_path / "cluster", workers=2) as (master, workers):
        variables = spark_cluster.settings(tmp_path / "settings", master)
        with job(restored.home, variables, log) as running:
            until("both workers", lambda: all(worker.has_executor for worker in workers), log)
            until("nights", lambda: attempts(restored) > 10, log)
            begun = attempts(restored)
            workers[0].kill()
            assert running.wait(600) == 0, log.read_text()[-4000:]
    assert 10 < begun < NIGHTS
    assert "Lost executor" in log.read_text()
    require_alike(restored, local)


def test_a_killed_command_keeps_the_lake_and_can_be_repeated(
    local: Layout, restored: Layout, tmp_path: Path
) -> None:
    """If the command is killed, the old lake stays, and the next command cleans up and finishes."""
    layout, log = restored, tmp_path / "log"
    rebuild(keeper(layout), from_landing=True)
    before = files(layout)
    variables = spark_cluster.settings(tmp_path / "settings", "local[2]")
    with job(layout.home, variables, log) as running:
        until("nights", lambda: attempts(layout) > 3, log)
        running.send_signal(signal.SIGKILL)
    assert files(layout) == before
    assert attempts(layout) > 3
    assert list(verify(layout)) == []
    with job(layout.home, variables, log) as running:
        assert running.wait(600) == 0, log.read_text()[-4000:]
    assert "Rebuilt from the landing folder on Spark" in log.read_text()
    require_alike(layout, local)


def test_a_worker_with_a_different_contract_is_rejected(restored: Layout, tmp_path: Path) -> None:
    """If a worker has a different contract, the command fails with advice and changes nothing."""
    other, worker, log = tmp_path / "other", tmp_path / "python", tmp_path / "log"
    for room in ("assets", "pipelines", "warehouse"):
        shutil.copytree(environments.ROOT / room, other / room)
    rules = other / "warehouse" / "contract" / "lake.py"
    rules.write_text(rules.read_text("utf-8").replace("RULES = ", "RULES = 1000 + "), "utf-8")
    worker.write_text(
        f'#!/bin/sh\nPYTHONPATH={other}:$PYTHONPATH exec {sys.executable} "$@"\n', "utf-8"
    )
    worker.chmod(0o700)
    layout = restored
    variables = spark_cluster.settings(tmp_path / "settings", "local[2]")
    with job(layout.home, {**variables, "PYSPARK_PYTHON": str(worker)}, log) as running:
        assert running.wait(600) == 1, log.read_text()[-4000:]
    assert "install the required versions there. Nothing was changed." in log.read_text()
    assert not layout.lake.exists()
    assert list(layout.work.iterdir()) == []
