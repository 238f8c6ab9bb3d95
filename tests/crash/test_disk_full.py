"""A disk that takes no more: the error is the one that happened, and nothing half-made stays."""

import errno
import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import pytest

from pipelines import night
from tests.crash.nights import Clock, answers, at, land
from tests.support.books import row
from warehouse.contract.book import PORTFOLIOS
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import rows_batch, write

DAY = date(2026, 11, 20)


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Files of this process may not grow beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 3, 200, 2000])
def test_parquet_on_a_full_disk_leaves_nothing(tmp_path: Path, size: int) -> None:
    """The write fails with the system's own error, whenever it comes, and the folder is empty."""
    rows = [row(PORTFOLIOS, DAY, portfolio_id=f"{n * 7919:032x}") for n in range(500)]
    batch = rows_batch(PORTFOLIOS, rows)
    with room_for(size), pytest.raises(OSError, match="File too large") as caught:
        write(PORTFOLIOS, [batch, batch], tmp_path / "x.parquet", "x")
    assert caught.value.errno == errno.EFBIG
    assert list(tmp_path.iterdir()) == []
    assert write(PORTFOLIOS, [batch], tmp_path / "x.parquet", "x").rows == 500


@pytest.mark.parametrize("size", [0, 200, 2000])
def test_a_night_on_a_full_disk_leaves_no_table_half_written(tmp_path: Path, size: int) -> None:
    """Every table that was begun is dropped, not only the first, and nobody is told of it twice."""
    layout = Layout(tmp_path / "home")
    manifest = land(layout, Clock(at(0)), answers(at(0).date()))
    with room_for(size), pytest.raises(OSError, match="File too large"):
        night.stage_portfolios(layout, manifest)
    gc.collect()  # a writer that was not closed complains when it is taken away
    assert [path for path in layout.lake.rglob("*") if path.is_file()] == []
