"""Ten years of nights in a window: the cost of a night in the third month and in the last.

    python -m tests.tools.performance --only decade
    python -m tests.tools.performance.decade [NIGHTS [ROWS [WINDOW [BETWEEN]]]]

`tests.tools.performance.past` writes the nights into the landing zone and the lake. The product
judges and publishes each measured night in its own process. Checking all other nights would take
hours, so only the last of them is checked when they are published, and the others get its findings
and control totals. BETWEEN is the number of amounts of the nights that are never in the file during
a measurement. A publish reads none of their rows, and generating them takes most of the time. The
sum of every night, in the file or in the lake, is compared with the generator's. Finally, every row
of every night is compared with a full native file of the same home.
"""

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from time import process_time
from typing import Any
from unittest import mock

import duckdb
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.tools.performance import history
from tests.tools.performance.cpu_profile import spent
from tests.tools.performance.past import Past, add_night
from warehouse.contract.lake import BOOK_FILES
from warehouse.database import new_version, publication
from warehouse.database.lake_nights import is_windowed
from warehouse.database.load import Book
from warehouse.query.connect import connect
from warehouse.storage.layout import Layout

NIGHTS, ROWS, WINDOW = 3650, 50_000, 60
FIRST = datetime(2016, 11, 1, 2, 15, tzinfo=UTC)
THIRD_MONTH, IN_TURN = 87, 3
GOAL = 1.5  # the largest allowed cost of a publish in the last month, relative to the third month
Sums = dict[date, tuple[int, Decimal]]
Cost = tuple[float, float]


def main(
    nights: int = NIGHTS, rows: int = ROWS, window: int = WINDOW, between: int = ROWS
) -> list[str]:
    """Return the lines of a table. Raise AssertionError if a sum differs."""
    os.environ["NIGHTBOOK_NATIVE_NIGHTS"] = str(window)
    with tempfile.TemporaryDirectory(prefix="nightbook-bench-") as folder:
        layout, past, sums = Layout(Path(folder) / "home"), Past(rows), Sums()
        young = _published(layout, past, sums, THIRD_MONTH)
        quick = past if between == rows else Past(between)
        _add(layout, quick, sums, range(len(sums), nights - IN_TURN - window), staged=False)
        lines = [_row(f"publishing a night of the third month, {_size(layout)}", young)]
        old = _published(layout, past, sums, nights - IN_TURN)
        lines.append(_row(f"publishing a night of the last month, {_size(layout)}", old))
        lines.append(
            f"| the last, third month = 1; the goal is {GOAL} | {old[0] / young[0]:.2f} | |"
        )
        lines += [_row(words, cost) for words, cost in _asked(layout, sums)]
        lines.append(_compared(layout))
    title = f"{nights} nights of {rows:,} amounts, the newest {window} in the file"
    title += "" if between == rows else f"; {between:,} amounts between the third month and those"
    return [title, "", "| | CPU s | wall s |", "|---|---:|---:|", *lines]


def _row(words: str, cost: Cost) -> str:
    return f"| {words} | {cost[0]:.2f} | {cost[1]:.2f} |"


def _size(layout: Layout) -> str:
    return f"a file of {layout.database.stat().st_size / 1e6:.0f} MB"


def _published(layout: Layout, past: Past, sums: Sums, first: int) -> Cost:
    """Return the median cost of publishing some nights in turn, from the night `first` on."""
    _add(layout, past, sums, range(len(sums), first), staged=False)
    _cost("all", layout)
    costs = []
    for number in range(first, first + IN_TURN):
        _add(layout, past, sums, [number], staged=True)
        costs.append(_cost("night", layout))
    cpu, wall = (statistics.median(some) for some in zip(*costs, strict=True))
    return cpu, wall


def _add(layout: Layout, past: Past, sums: Sums, numbers: Iterable[int], *, staged: bool) -> None:
    for number in numbers:
        with mock.patch("os.fsync"):  # simulated data need not survive a power cut
            manifest = add_night(layout, past, number, staged=staged, first=FIRST)
        day, snapshot_id = manifest.snapshot_date, manifest.snapshot_id
        placed = layout.parquet("balances", day, snapshot_id)
        staged_file = layout.staged_file("balances", snapshot_id)
        amounts = pq.read_table(staged_file if staged else placed, columns=["amount"])["amount"]
        sums[day] = (len(amounts), pc.sum(amounts).as_py())


def _cost(what: str, layout: Layout) -> Cost:
    command = [sys.executable, "-m", "tests.tools.performance.decade", what, str(layout.home)]
    words = next(
        line.split() for line in spent(command).output.splitlines() if line.startswith("work ")
    )
    return float(words[1]), float(words[2])


def _asked(layout: Layout, sums: Sums) -> Iterator[tuple[str, Cost]]:
    middle = sorted(sums)[len(sums) // 2]
    with connect(layout.database) as connection:
        every = "select snapshot_date, count(*), sum(amount) from history.balances group by all"
        begun, used = datetime.now(UTC), process_time()
        found = connection.execute(f"{every} order by all").fetchall()
        wall = (datetime.now(UTC) - begun).total_seconds()
        yield "the sum of every night, over all years", (process_time() - used, wall)
        assert found == [(day, *sums[day]) for day in sorted(sums)]
        begun, used = datetime.now(UTC), process_time()
        query = f"select count(*), sum(amount) from balances_as_of('{middle}')"
        assert connection.execute(query).fetchall() == [sums[middle]]
        wall = (datetime.now(UTC) - begun).total_seconds()
        yield "the sum of one night in the middle, of the lake", (process_time() - used, wall)


def _compared(layout: Layout) -> str:
    """Compare every row of every night with a file that contains all nights itself."""
    windowed = layout.home / "windowed.duckdb"
    shutil.copyfile(layout.database, windowed)
    os.environ["NIGHTBOOK_NATIVE_NIGHTS"] = "all"
    cost = _cost("all", layout)
    of_nights = [f"history.{table.name}" for table in BOOK_FILES]
    answers = []
    for file in (windowed, layout.database):
        with connect(file) as connection:
            answers.append(
                [connection.execute(_ROWS.format(name)).fetchall() for name in of_nights]
            )
    assert answers[0] == answers[1]
    nights, rows = len(answers[0][0]), sum(count for table in answers[0] for _, count, _ in table)
    words = (
        f"all {rows:,} rows of {len(of_nights)} tables, {nights} nights: as in a full native file"
    )
    return _row(f"{words}, which takes {layout.database.stat().st_size / 1e6:.0f} MB", cost)


# Each row is hashed as a whole, so a different digit, type or row gives a different sum.
_ROWS = (
    "select snapshot_date, count(*), sum(hash(told)::hugeint) from {} as told "
    "group by all order by all"
)


def all_nights(home: Path) -> None:
    """Publish all nights, but check only the last. The others get copies of its results."""

    def check_books(connection: duckdb.DuckDBPyConnection, books: list[Book], *more: Any) -> Any:
        results = new_version.check_books(connection, books[-1:], *more)
        if books and is_windowed(connection):
            *others, last = books
            nights = [
                [book.snapshot_date for book in others],
                [book.snapshot_id for book in others],
            ]
            connection.execute(_SAME_FINDINGS, [nights[0], last.snapshot_date])
            connection.execute(_NO_TOTALS, [nights[1]])
            connection.execute(_SAME_TOTALS, [*nights, last.snapshot_id])
        return results

    with mock.patch.object(publication, "check_books", check_books):
        history.one_refresh(home)


_SAME_FINDINGS = (
    "insert into internal.materialized_findings select findings.* replace (day as snapshot_date) "
    "from internal.materialized_findings as findings, (select unnest(?::date[]) as day) "
    "where findings.snapshot_date = ? order by day"
)
_NO_TOTALS = "delete from internal.materialized_control_totals where list_contains(?, snapshot_id)"
_SAME_TOTALS = (
    "insert into internal.materialized_control_totals select totals.* "
    "replace (day as snapshot_date, id as snapshot_id) "
    "from internal.materialized_control_totals as totals, "
    "(select unnest(?::date[]) as day, unnest(?::varchar[]) as id) where totals.snapshot_id = ? "
    "order by day"
)
ONES: dict[str, Callable[[Path], None]] = {"all": all_nights, "night": history.one_publish}

if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in ONES:
        ONES[sys.argv[1]](Path(sys.argv[2]))
    else:
        print("\n".join(main(*map(int, sys.argv[1:]))))
