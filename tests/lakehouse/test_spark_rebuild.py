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
from warehouse.storage.firm import FIRM
from warehouse.storage.layout import Layout, digest_of

pytestmark = pytest.mark.lakehouse

ORGANISATIONS = ("north", "south", "east")
NIGHTS = 20
TOTALS = (
    "select snapshot_date, asset_id, is_custom_asset, exact_sum(amount_text) "
    "from history.balances group by all order by all"
)


def book(seed: str, number: int) -> nights.Book:
    """Return the answers of a night. In some nights, a venue fails or has no instruments."""
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
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a firm whose organisations have a lake and warehouse that were rebuilt locally."""
    spark_cluster.packages()  # skips the tests before minutes are spent
    root = tmp_path_factory.mktemp("local")
    for layout in homes_of(root):
        for number in range(NIGHTS):
            started = nights.STARTED + timedelta(days=number)
            nights.land(layout, book(layout.home.parent.name, number), started)
        rebuild(keeper(layout), from_landing=True)
    return root


@pytest.fixture
def firm(local: Path, tmp_path: Path) -> Path:
    """Create the same firm with only the landed nights, as on a restored machine."""
    for source, target in zip(homes_of(local), homes_of(tmp_path), strict=True):
        shutil.copytree(source.landing, target.landing)
    lines = "".join(f'{name} = "../{name}"\n' for name in ORGANISATIONS)
    (tmp_path / "firm").mkdir()
    (tmp_path / "firm" / FIRM).write_text(f"[sources]\n{lines}", encoding="utf-8")
    return tmp_path


def homes_of(root: Path) -> list[Layout]:
    """Return the layout of each organisation of a firm."""
    return [Layout(root / name / "data") for name in ORGANISATIONS]


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


def require_alike(homes: list[Layout], local: Path) -> None:
    """Check that lake and totals equal those of a local rebuild, and that no scratch is left."""
    for layout in homes:
        [same] = [
            each for each in homes_of(local) if each.home.parent.name == layout.home.parent.name
        ]
        assert files(layout) == files(same)
        assert len(files(layout)) > NIGHTS * 14
        assert ask(layout.database, TOTALS).rows == ask(same.database, TOTALS).rows
        assert list(verify(layout)) == []
        assert list(layout.work.iterdir()) == []


def attempts(homes: list[Layout]) -> int:
    """Count the nights that workers began to flatten."""
    return sum(1 for layout in homes for _ in layout.work.glob("flattened-*/*"))


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


def test_a_killed_worker_does_not_change_the_files(local: Path, firm: Path, tmp_path: Path) -> None:
    """If one of two workers is killed, sixty nights of three organisations are still identical."""
    homes, log = homes_of(firm), tmp_path / "log"
    with spark_cluster.cluster(tmp_path / "cluster", workers=2) as (master, workers):
        variables = spark_cluster.settings(tmp_path / "settings", master)
        with job(firm / "firm", variables, log) as running:
            until("both workers", lambda: all(worker.has_executor for worker in workers), log)
            until("nights", lambda: attempts(homes) > 10, log)
            begun = attempts(homes)
            workers[0].kill()
            assert running.wait(600) == 0, log.read_text()[-4000:]
    assert 10 < begun < len(ORGANISATIONS) * NIGHTS
    assert "Lost executor" in log.read_text()
    assert "3 of 3 organisations" in log.read_text()
    require_alike(homes, local)


def test_a_killed_command_keeps_the_lake_and_can_be_repeated(
    local: Path, firm: Path, tmp_path: Path
) -> None:
    """If the command is killed, the old lake stays, and the next command cleans up and finishes."""
    layout, log = homes_of(firm)[0], tmp_path / "log"
    rebuild(keeper(layout), from_landing=True)
    before = files(layout)
    variables = spark_cluster.settings(tmp_path / "settings", "local[2]")
    with job(layout.home, variables, log) as running:
        until("nights", lambda: attempts([layout]) > 3, log)
        running.send_signal(signal.SIGKILL)
    assert files(layout) == before
    assert attempts([layout]) > 3
    assert list(verify(layout)) == []
    with job(layout.home, variables, log) as running:
        assert running.wait(600) == 0, log.read_text()[-4000:]
    assert "Rebuilt from the landing folder on Spark" in log.read_text()
    require_alike([layout], local)


def test_a_worker_with_a_different_contract_is_rejected(firm: Path, tmp_path: Path) -> None:
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
    layout = homes_of(firm)[0]
    variables = spark_cluster.settings(tmp_path / "settings", "local[2]")
    with job(layout.home, {**variables, "PYSPARK_PYTHON": str(worker)}, log) as running:
        assert running.wait(600) == 1, log.read_text()[-4000:]
    assert "install the required versions there. Nothing was changed." in log.read_text()
    assert not layout.lake.exists()
    assert list(layout.work.iterdir()) == []
