"""Tests of the cost of a night, counted and not timed: calls, objects, statements, bytes read.

Noise cannot fail these tests. A step that is quadratic, or that makes a Python object for each row,
cannot pass them. For each law, a test shows that it catches a breach.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.flatten import accounts as balances
from pipelines.records import fast_reader
from tests.tools.performance import whole_command
from tests.tools.performance.bodies import Scale, write_portfolios
from tests.tools.performance.designs import DESIGNS, FLOOR, OURS, Landed, whole_night
from warehouse.contract.book import VENUE_TYPES
from warehouse.storage import parquet
from warehouse.storage.parquet import Writer, conform

pytestmark = pytest.mark.torture

FEW, MORE, MOST = (Scale(name, many, 4, 2) for name, many in (("8", 8), ("16", 16), ("32", 32)))
NARROW, WIDE = Scale("narrow", 4, 50, 1), Scale("wide", 4, 50, 16)
BLOCK = 256 * 1024  # the size in which DuckDB reads and writes
Work = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of some work: function calls, most Python objects at once, and bytes read."""

    calls: int
    objects: int
    bytes_read: int


def counted(work: Work, *, objects: bool = False) -> Counted:
    """Run some work and return its counts. Objects are counted only if asked, which is slow."""
    calls = most = 0

    def see(_frame: Any, event: str, _function: Any) -> None:
        nonlocal calls, most
        if objects:
            most = max(most, sys.getallocatedblocks())
        calls += event in ("call", "c_call")

    first, read = sys.getallocatedblocks(), _bytes_read()
    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return Counted(calls, most - first, _bytes_read() - read)


def _bytes_read() -> int:
    """Return the bytes that this process has read, including those from the page cache."""
    return int(Path("/proc/self/io").read_text(encoding="ascii").split()[1])


def _landed(scale: Scale, folder: Path) -> Landed:
    home = folder / scale.name
    home.mkdir()
    body = folder / f"{scale.name}.json"
    write_portfolios(body, scale)
    return Landed(body, home)


def _flattening(scale: Scale, folder: Path, *, objects: bool = False) -> Counted:
    """Count the flattening of landed bytes to staged Parquet. One-time work is done before."""
    _landed(Scale(f"first-{scale.name}", 2, 2, 1), folder).staged()
    return counted(_landed(scale, folder).staged, objects=objects)


class Told:
    """A connection that records its statements."""

    def __init__(self, real: Any, statements: list[str]) -> None:
        self._real, self._statements = real, statements

    def execute(self, statement: str, *values: Any) -> Any:
        """Record a statement and execute it."""
        self._statements.append(statement)
        return self._real.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _night(scale: Scale, folder: Path) -> Counted:
    body, home = folder / f"{scale.name}.json", folder / f"night-{scale.name}"
    home.mkdir()
    write_portfolios(body, scale)
    return counted(whole_night(body, home))


def is_linear(few: int, more: int, most: int, slack: int = 64) -> bool:
    """Return True if the second doubling adds at most twice the first, and a little."""
    return most - more <= 2.1 * max(more - few, 0) + slack


def is_free(narrow: Counted, wide: Counted, rows: int) -> bool:
    """Return True if the added rows needed no calls and no Python objects of their own."""
    return wide.calls <= narrow.calls * 1.05 and wide.objects - narrow.objects < rows / 10


@pytest.fixture
def one_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each portfolio a batch, so that twice as many portfolios are twice as many batches."""
    monkeypatch.setattr(fast_reader, "BATCH_BYTES", 1)


@pytest.mark.usefixtures("one_each")
def test_flattening_is_linear_in_the_number_of_batches(tmp_path: Path) -> None:
    """Flattening is linear in the number of batches."""
    found = [_flattening(scale, tmp_path) for scale in (FEW, MORE, MOST)]
    assert is_linear(*(one.calls for one in found))
    assert is_linear(*(one.bytes_read for one in found))


@pytest.mark.usefixtures("one_each")
def test_a_quadratic_step_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that looks at all earlier batches for each new batch breaks the law."""
    seen: list[pa.RecordBatch] = []
    write = Writer.write

    def slow(self: Writer, batch: pa.RecordBatch) -> None:
        seen.append(batch)
        for earlier in seen:
            len(earlier)
        write(self, batch)

    monkeypatch.setattr(Writer, "write", slow)
    found = []
    for scale in (FEW, MORE, MOST):
        seen.clear()
        found.append(_flattening(scale, tmp_path))
    assert not is_linear(*(one.calls for one in found))


def test_more_rows_need_no_more_python_calls_or_objects(tmp_path: Path) -> None:
    """Sixteen times the accounts in the same batches need no call and no object per row."""
    narrow, wide = (_flattening(scale, tmp_path, objects=True) for scale in (NARROW, WIDE))
    assert is_free(narrow, wide, WIDE.rows - NARROW.rows)


@pytest.mark.parametrize("breach", ["objects", "calls"])
def test_a_python_object_or_call_per_row_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breach: str
) -> None:
    """Rows as Python objects, or a function call for each row, break the law."""
    stated = balances.read_amounts

    def slow(accounts: Any) -> Any:
        amounts = stated(accounts)
        texts = amounts.texts.to_pylist()
        if breach == "calls":
            texts = [str.strip(text) for text in texts]
        return amounts._replace(texts=pa.array(texts, pa.string()))

    monkeypatch.setattr(balances, "read_amounts", slow)
    narrow, wide = (_flattening(scale, tmp_path, objects=True) for scale in (NARROW, WIDE))
    assert not is_free(narrow, wide, WIDE.rows - NARROW.rows)


def test_calls_grow_linearly_and_statements_stay_constant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With more rows, the statements stay the same, and calls and bytes read grow linearly."""
    connect = duckdb.connect
    statements: list[str] = []
    monkeypatch.setattr(
        duckdb, "connect", lambda *given, **more: Told(connect(*given, **more), statements)
    )
    found, given = [], []
    _night(Scale("first", 1, 1, 1), tmp_path)  # one-time work
    for scale in (FEW, MORE, MOST):
        statements.clear()
        found.append(_night(scale, tmp_path))
        given.append(len(statements))
    assert given[0] == given[1] == given[2] > 0
    few, more, most = found
    assert is_linear(few.calls, more.calls, most.calls)
    assert is_linear(few.bytes_read, more.bytes_read, most.bytes_read, slack=BLOCK)


def test_a_body_is_read_a_fixed_number_of_times(tmp_path: Path) -> None:
    """No table is read back and rewritten, so the bytes of a body are read a few times at most."""
    small, large = (_flattening(scale, tmp_path) for scale in (NARROW, WIDE))
    grown = sum((tmp_path / f"{one.name}.json").stat().st_size for one in (WIDE, NARROW))
    assert large.bytes_read - small.bytes_read < 2 * grown


def test_all_row_groups_except_the_last_are_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any batches become Parquet row groups of DuckDB's size, so DuckDB need not regroup rows."""
    assert parquet.ROW_GROUP == 122_880
    monkeypatch.setattr(parquet, "ROW_GROUP", 100)
    writer = Writer(VENUE_TYPES, tmp_path / "groups.parquet", "20241004T021500Z")
    for rows in (0, 1, 99, 150, 30, 320, 7):
        day = pa.repeat(pa.scalar(20_000, pa.int32()), rows).cast(pa.date32())
        words = pa.repeat(pa.scalar("otc"), rows)
        columns = {"snapshot_date": day, "venue_id": words, "type": words}
        writer.write(conform(VENUE_TYPES, columns, rows))
    writer.close()
    found = pq.read_metadata(tmp_path / "groups.parquet")
    sizes = [found.row_group(number).num_rows for number in range(found.num_row_groups)]
    assert sizes == [100, 100, 100, 100, 100, 100, 7]


@pytest.mark.parametrize("name", [name for name in OURS | FLOOR if name != whole_command.NAME])
def test_every_benchmarked_part_still_runs(tmp_path: Path, name: str) -> None:
    """All parts of the program that the benchmark calls exist, so `make bench` runs to its end."""
    body, folder = tmp_path / "body.json", tmp_path / "home"
    folder.mkdir()
    write_portfolios(body, FEW)
    assert DESIGNS[name](body, folder)().exists()
