"""Tests of flattening on workers, as on a cluster: the same files, and no change after an error.

These tests need no cluster, because they call the function that a worker runs. For Spark itself,
see `tests/lakehouse/test_spark_rebuild.py`.
"""

import importlib.util
import shutil
from datetime import timedelta
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from assets.cli import main
from assets.publishing import publish
from pipelines.lake import placement
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.lakehouse import spark_tasks
from pipelines.lakehouse.spark_tasks import COLUMN, FlattenedNight, NightTask
from pipelines.landing.manifest import load_manifest
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import landed_snapshots
from pipelines.landing.zone import body
from pipelines.maintenance.upgrade import outdated_nights, rebuild_nights
from tests.pipelines.flatten.test_carry_over import book
from tests.support import nights
from warehouse.contract.states import HELD
from warehouse.storage.layout import Layout, digest_of, read_json

# Each night with the venues whose instruments are carried over from the previous book. The fourth
# night is held, so the book before the fifth is the third.
NIGHTS: tuple[tuple[nights.Book, list[str]], ...] = (
    (book(), []),
    (book(failed=("v1",)), ["v1"]),
    (book({"v2": []}), ["v2"]),
    (book(failed=("v1", "v3")), ["v1", "v3"]),
    (book({"v2": []}), ["v2"]),
    (book(), []),
)


@pytest.fixture(scope="module")
def nightly(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Create a home with several nights, whose lake was built night by night."""
    layout = Layout(tmp_path_factory.mktemp("nightly"))
    for number, (answers_, _) in enumerate(NIGHTS):
        nights.take(layout, answers_, nights.STARTED + timedelta(days=number))
    placement.move_into_place(layout)
    manifests = [read_json(path) for path in sorted(layout.manifests.iterdir())]
    assert [manifest["carried"] for manifest in manifests] == [venues for _, venues in NIGHTS]
    assert [each.state for each in landed_snapshots(layout)].count(HELD) == 1
    return layout


@pytest.fixture
def layout(nightly: Layout, tmp_path: Path) -> Layout:
    """Return a copy of that home."""
    shutil.copytree(nightly.home, tmp_path / "home")
    return Layout(tmp_path / "home")


def files(layout: Layout) -> dict[str, str]:
    """Return the SHA-256 of every file in the lake."""
    return {
        str(path.relative_to(layout.home)): digest_of(path)
        for path in layout.lake.rglob("*")
        if path.is_file()
    }


def answers(landed: list[NightTask]) -> list[FlattenedNight]:
    """Return the results of a worker that gets all these nights at once."""
    texts = pa.array([msgspec.json.encode(night).decode() for night in landed])
    [batch] = spark_tasks.flatten_batches([pa.RecordBatch.from_pydict({COLUMN: texts})])
    return [msgspec.json.decode(text, type=FlattenedNight) for text in batch.column(0).to_pylist()]


@pytest.mark.torture
def test_workers_give_the_same_lake_files_in_any_order(
    layout: Layout,
) -> None:
    """Workers that flatten in any order, or twice, give the same lake files as nightly runs.

    This includes nights with carried-over instruments, and a night that the workers did not get.
    """
    before = files(layout)
    with spark_tasks.night_tasks(layout) as landed:
        lost = answers(landed)
        flattened = {answer.folder: answer for answer in answers(landed[::-1])}
        assert files(layout) == before
        assert all(Path(answer.staged_in).is_dir() for answer in lost)
        assert [bool(each.failed or each.empty) for each in lost] == [0, 1, 1, 1, 1, 0]
        del flattened[landed[1].folder]
        publish._remove_lake(layout)
        made = outdated_nights(LakeManifests(layout))
        finish = publish._finish_for_workers(flattened)
        assert rebuild_nights(layout, made, nights.STARTED, finish=finish) == ()
        placement.move_into_place(layout)
    assert files(layout) == before
    assert list(layout.work.iterdir()) == []


def test_a_worker_with_different_versions_stages_nothing(layout: Layout) -> None:
    """A worker with different versions or without the home reports a remedy and stages nothing."""
    with spark_tasks.night_tasks(layout) as [landed, *_]:
        other = msgspec.structs.replace(landed, program="nightbook of contract 0")
        blind = msgspec.structs.replace(landed, folder="/nowhere/20261120T021500Z")
        unlike, unseeing = answers([other, blind])
        assert list(Path(landed.staged_in).iterdir()) == []
    assert spark_tasks.program() in unlike.problem
    assert "install the required versions there" in unlike.problem
    assert "cannot see /nowhere/20261120T021500Z: mount the home" in unseeing.problem


def test_a_worker_reports_damage_like_a_local_rebuild(layout: Layout) -> None:
    """A worker reports a damaged night with the same error message as a local rebuild."""
    with spark_tasks.night_tasks(layout) as [landed, *_]:
        manifest = load_manifest(Path(landed.folder))
        answer = manifest.answers[0]
        (Path(landed.folder) / str(answer.file)).write_bytes(b"no body")
        [told] = answers([landed])
        with pytest.raises(DamagedFile) as damage:
            body(layout, manifest, answer)
    assert told.problem == str(damage.value)


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is not None, reason="Spark is here")
def test_without_spark_the_command_fails_with_a_remedy(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without Spark, the command exits with 2, says what to install and changes nothing."""
    before = files(layout)
    monkeypatch.setenv("NIGHTBOOK_HOME", str(layout.home))
    assert main(["rebuild", "--engine", "spark"]) == 2
    assert "pip install 'nightbook[spark]'" in capsys.readouterr().err
    assert files(layout) == before
