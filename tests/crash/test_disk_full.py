"""Tests of a full disk: the error is the real one, and no half-made files remain."""

import concurrent.futures.thread
import errno
import gc
import resource
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from assets.cli import main
from pipelines import night
from tests.crash.nights import Clock, answers, at, land
from tests.support.books import Amount, published_once, row
from tests.support.books import night as night_of
from warehouse.contract.book import PORTFOLIOS
from warehouse.export.export import export
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import rows_batch, write

DAY = date(2026, 11, 20)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Limit the size of the files of this process to `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 3, 200, 2000])
def test_writing_parquet_to_a_full_disk_leaves_no_file(tmp_path: Path, size: int) -> None:
    """Writing Parquet to a full disk fails with the system's error, and leaves an empty folder."""
    rows = [row(PORTFOLIOS, DAY, portfolio_id=f"{n * 7919:032x}") for n in range(500)]
    batch = rows_batch(PORTFOLIOS, rows)
    with room_for(size), pytest.raises(OSError, match="File too large") as caught:
        write(PORTFOLIOS, [batch, batch], tmp_path / "x.parquet", "x")
    assert caught.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []
    assert write(PORTFOLIOS, [batch], tmp_path / "x.parquet", "x").rows == 500


@pytest.mark.parametrize("size", [0, 200, 2000])
def test_flattening_on_a_full_disk_leaves_no_partial_table(tmp_path: Path, size: int) -> None:
    """Flattening on a full disk deletes every table that it started, and raises only one error."""
    layout = Layout(tmp_path / "home")
    manifest = land(layout, Clock(at(0)), answers(at(0).date()))
    with room_for(size), pytest.raises(OSError, match="File too large"):
        night.stage_portfolios(layout, manifest)
    gc.collect()  # a writer that was not closed complains when it is deleted
    assert [path for path in layout.lake.rglob("*") if path.is_file()] == []


def test_a_failed_export_keeps_the_previous_workbook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """If the thread that packs a workbook fails, the previous workbook does not change.

    The message of `export` contains the disk's error and the remedy.
    """
    layout = Layout(tmp_path)
    amounts = [Amount(f"{n}.{n:07}", account=f"a {n * 7919:x}") for n in range(3000)]
    published_once(layout, [night_of("20260301T020000Z", amounts)], "a")
    layout.exports.mkdir()
    before = layout.exports / "positions-2026-03-01.xlsx"
    before.write_bytes(b"the workbook of before")
    monkeypatch.setenv("NIGHTBOOK_HOME", str(tmp_path))
    with room_for(100_000):
        with pytest.raises(OSError, match="File too large") as caught:
            export(
                layout.database, layout.exports, as_of=None, formats=("xlsx",), program_version="0"
            )
        assert main(["export"]) == 1
    assert _in_thread(caught.value), "the fault was to be that of the thread that packs"
    assert [(path, path.read_bytes()) for path in layout.exports.iterdir()] == [
        (before, b"the workbook of before")
    ]
    said = capsys.readouterr().err
    assert "would be larger than the file size limit" in said
    assert "ulimit -f" in said
    assert main(["export"]) == 0


def _in_thread(error: BaseException | None) -> bool:
    """Return True if an error, or an earlier one in its context, was raised in a worker thread."""
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        if any(
            Path(frame.filename) == Path(concurrent.futures.thread.__file__) for frame in frames
        ):
            return True
        error = error.__context__
    return False
