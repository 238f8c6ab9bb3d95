"""Tests of a reader that keeps the file open while nights publish. Neither blocks the other."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import environments
from tests.support.books import Amount, Night, night, published
from warehouse.storage.layout import Layout

# The program acts like a GUI: it has a permanent connection and a half-read cursor, queries the
# catalog repeatedly, and sometimes opens a second connection to the same path.
GUI = r"""
import json, sys, duckdb

path = sys.argv[1]
book = duckdb.connect(path, read_only=True)
book.execute("set TimeZone = 'UTC'")
half_read = book.cursor()
half_read.execute("select * from history.balances order by all")
half_read.fetchmany(1)
SUM = "select max(snapshot_date)::varchar, exact_sum(amount_text) from balances"
for line in sys.stdin:
    if line == "reopen\n":
        half_read.close()
        book.close()
        book = duckdb.connect(path, read_only=True)
        half_read = book.cursor()
        half_read.execute("select * from history.balances order by all")
    said = {"kept": book.execute(SUM).fetchone()}
    said["views"] = book.execute(
        "select count(*) from duckdb_views() where not internal and comment is null").fetchone()[0]
    said["macro"] = book.execute("select count(*) from holdings_as_of('2026-11-30')").fetchone()[0]
    said["rest"] = len(half_read.fetchmany(1))
    with duckdb.connect(path, read_only=True) as again:
        said["again"] = again.execute(SUM).fetchone()
    print(json.dumps(said), flush=True)
"""
DAYS = ("20261118", "20261119", "20261120", "20261121")


class Gui:
    """A client in a second process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def look(self, how: str = "look") -> dict[str, Any]:
        """Run all queries once and return their rows. `reopen` first closes the open connection."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{how}\n")
        self._process.stdin.flush()
        said: dict[str, Any] = json.loads(self._process.stdout.readline() or "{}")
        return said


@contextmanager
def gui(python: Path | str, database: Path) -> Iterator[Gui]:
    """Start a client in its own process. It keeps the file open until the end of the block."""
    with subprocess.Popen(
        [str(python), "-c", GUI, str(database)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Gui(process)
        finally:
            process.kill()


@pytest.mark.torture
@pytest.mark.parametrize(
    ("client", "at_once"), [("now", True), ("duckdb15", True), ("duckdb14", False)]
)
def test_a_reader_can_keep_a_night_open_during_three_publishes(
    tmp_path: Path, client: str, *, at_once: bool
) -> None:
    """A reader keeps the night that it opened, and a new connection sees the newest night.

    Each publish succeeds. Removing old versions does not affect the reader either, although the
    file that it has open is deleted by the end. Before DuckDB 1.5, a program shares its open file,
    so it sees the new night only after it has closed all connections.
    """
    python = sys.executable if client == "now" else environments.python(client)
    layout = Layout(tmp_path)
    nights = [_many(day, number) for number, day in enumerate(DAYS)]
    published(layout, nights[:1], "v0")
    with gui(python, layout.database) as reader:
        first = reader.look()
        assert first["again"] == first["kept"] == ["2026-11-18", "40"]
        for number in (1, 2, 3):
            start = time.monotonic()
            published(layout, nights[: number + 1], f"v{number}")
            assert time.monotonic() - start < 30
            seen = reader.look()
            assert seen["kept"] == first["kept"]
            assert seen["macro"] == first["macro"]
            assert (seen["views"], seen["rest"]) == (0, 1)
            day = f"2026-11-{18 + number}"
            now = [day, str(40 * (number + 1))]
            assert seen["again"] == (now if at_once else first["kept"])
            with gui(python, layout.database) as another:
                assert another.look()["kept"] == now
        for number in range(4, 9):
            published(layout, nights, f"v{number}")
        assert not (layout.warehouse / "versions" / "v0").exists()
        assert reader.look()["kept"] == first["kept"]
        assert reader.look("reopen")["kept"] == now


def _many(day: str, number: int) -> Night:
    amounts = [Amount(str(number + 1), f"p{n}", account=f"a{n}") for n in range(40)]
    return night(f"{day}T021500Z", amounts)
