"""A year of nights: the cost of publishing, rebuilding and querying, and the file size.

    python -m tests.tools.performance.history [NIGHTS]

`tests.tools.performance.past` writes the nights into the landing zone and the lake. The product
does the rest. Each publish and rebuild is measured in its own process, without imports. Every sum
is compared with the generator's sum.
"""

import contextlib
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.compute as pc

from assets.nightbook import Nightbook
from assets.publishing import publish
from assets.publishing.publish import rebuild
from pipelines.lake import placement
from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import load_manifest
from tests.tools.performance.cpu_profile import Spent, spent
from tests.tools.performance.past import FIRST, Past, add_night
from warehouse.contract import states
from warehouse.contract.book import BOOK
from warehouse.query.connect import open_database
from warehouse.query.pandas_blocker import leave_pandas_out
from warehouse.storage.layout import Layout

NIGHTS, ROWS = 365, 50_000
AGES = (10, 100)
IN_TURN = 3  # nights that are published one by one at each age, because their costs differ
LATE = 5  # a night that is held at first, and accepted after all the others are published
RUNS = 5
Line = tuple[str, str, str]
Compared = tuple[tuple[float, float], tuple[float, float]]
"""CPU and wall seconds of a copy and of a publish."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query: its purpose, its SQL, and a short form to show if the SQL is long."""

    words: str
    sql: str
    shown: str = ""


def main(nights: int = NIGHTS) -> list[str]:
    """Measure a year of nights, and return the lines of a table."""
    with tempfile.TemporaryDirectory(prefix="nightbook-bench-") as folder:
        layout = Layout(Path(folder) / "home")
        lines = list(_grown(layout, nights))
        lines.append(_late(layout))
        lines += _questions(layout)
        lines += _size(layout, Path(folder))
        lines.append(_rebuilt(layout, nights))
        _require_sums(layout, nights)
    title = f"{nights} nights of {ROWS:,} amounts ({nights * ROWS / 1e6:.0f} million rows)"
    return [
        title,
        "",
        "| | CPU s | wall s, or what is said |",
        "|---|---:|---:|",
        *map(_row, lines),
    ]


def _row(line: Line) -> str:
    return f"| {line[0]} | {line[1]} | {line[2]} |"


def _grown(layout: Layout, nights: int) -> Iterator[Line]:
    """Add night after night. At some ages, measure the publishing of a few nights."""
    past = Past(ROWS)
    ages = [age for age in AGES if age < nights - IN_TURN] + [nights - IN_TURN]
    measured = [age + turn for age in ages for turn in range(IN_TURN)]
    costs = []
    for number in range(nights):
        add_night(layout, past, number, staged=number in measured, held=number == LATE)
        if number in ages:
            _one("refresh", layout)
        if number in measured:
            costs.append((_one("copy", layout), _one("publish", layout)))
        if len(costs) == IN_TURN:
            yield from _published(layout, number, costs)
            costs = []


def _published(layout: Layout, number: int, costs: list[Compared]) -> Iterator[Line]:
    """Yield the medians of nights in turn, and the largest ratio of a publish to its copy."""
    copied, done = (
        (statistics.median(cpu for cpu, _ in some), statistics.median(wall for _, wall in some))
        for some in zip(*costs, strict=True)
    )
    size = layout.database.stat().st_size / 1e6
    yield f"copying the file of {number} nights ({size:.0f} MB), with fsync", *_figures(copied)
    cpu, wall = (mine / copy for mine, copy in zip(done, copied, strict=True))
    most = max(mine[1] / copy[1] for copy, mine in costs)
    told = f"{wall:.1f} times its wall ({most:.1f} at most), {cpu:.1f} times its CPU"
    first = number - IN_TURN + 2
    yield f"**publishing nights {first} to {number + 1} one by one**: {told}", *_figures(done)


def _late(layout: Layout) -> Line:
    """Accept the held night, so that its day is added after all the others."""
    snapshot = next(one for one in snapshots.landed_snapshots(layout) if one.state == states.HELD)
    snapshots.decide(snapshot, states.ACCEPTED, by="bench", at=FIRST + timedelta(days=999))
    placement.move_into_place(layout)
    done = _one("refresh", layout)
    return f"publishing night {LATE + 1} late, as one accepted by hand", *_figures(done)


def _rebuilt(layout: Layout, nights: int) -> Line:
    cost = _spent("rebuild", layout)
    cpu, wall = _told(cost)
    peak = next(line.split()[1] for line in cost.output.splitlines() if line.startswith("rss "))
    return f"**all {nights} nights anew** from the lake, {peak} MB resident", *_figures((cpu, wall))


def _questions(layout: Layout) -> Iterator[Line]:
    with open_database(layout.database) as connection:
        for asked in _asked(connection):
            costs, rows = [], 0
            for _ in range(RUNS):
                begun = time.process_time()
                rows = len(connection.sql(asked.sql).to_arrow_table())
                costs.append(time.process_time() - begun)
            first, median = costs[0], sorted(costs)[RUNS // 2]
            yield (
                f"{asked.words}: `{asked.shown or asked.sql}`",
                f"{median:.3f}",
                f"first {first:.3f}, {rows:,} rows",
            )


def _asked(connection: duckdb.DuckDBPyConnection) -> Iterator[Asked]:
    connection.sql("select 1").to_arrow_table()  # import Arrow now, so that no query pays for it
    days = [row[0] for row in connection.execute(_DAYS).fetchall()]
    [one] = connection.execute("select portfolio_id, asset_id from positions limit 1").fetchall()
    middle, before = days[len(days) // 2], days[len(days) // 2 - 1]
    yield Asked("latest", "from balances")
    yield Asked("latest", "from holdings")
    yield Asked("latest", "from holdings_by_asset")
    yield Asked("latest", "from account_balances")
    yield Asked("as of a day", f"from balances_as_of('{middle}')")
    yield Asked("as of a day", f"from holdings_as_of('{middle}')")
    yield Asked("as of a day", f"from holdings_by_asset_as_of('{middle}')")
    yield Asked("day over day", "from changes")
    yield Asked("day over day", f"from changes_between('{before}', '{middle}')")
    yield Asked(
        "one position over the year",
        "select snapshot_date, bucket, state, amount from history.balances "
        f"where portfolio_id = '{one[0]}' and asset_id = '{one[1]}' order by all",
        "from history.balances where portfolio_id = ... and asset_id = ...",
    )


_DAYS = "select snapshot_date from ops.snapshots where is_book order by 1"


def _size(layout: Layout, folder: Path) -> Iterator[Line]:
    """Compare our file with plain tables of the same columns, in the order of their days."""
    plain = folder / "plain.duckdb"
    with duckdb.connect(
        str(plain), config={"storage_compatibility_version": "v1.2.0", "memory_limit": "2GB"}
    ) as connection:
        for table in BOOK:
            files = f"{layout.lake}/{table.name}/*/*.parquet"
            connection.execute(
                f"create table {table.name} as select * exclude (snapshot_id) from "
                f"read_parquet('{files}', hive_partitioning = false)"
            )
    ours, theirs = (path.stat().st_size / 1e6 for path in (layout.database, plain))
    yield "size", "", f"{ours:.0f} MB; plain tables by day of the same columns {theirs:.0f} MB"
    yield "size, plain tables = 1", "", f"{ours / theirs:.2f}"
    plain.unlink()


def _require_sums(layout: Layout, nights: int) -> None:
    """Check that every night has the rows and the total that the generator made."""
    with open_database(layout.database) as connection:
        found = connection.execute(
            "select snapshot_date, count(*), sum(amount) from history.balances "
            "group by all order by all"
        ).fetchall()
    past = Past(ROWS)
    for number in range(nights):
        rows = past.night(number)["balances"]
        total = pc.sum(rows["amount"]).as_py()
        day = (FIRST + timedelta(days=number)).date()
        assert found[number] == (day, len(rows["amount_text"]), total), (day, found[number], total)


def _figures(cost: tuple[float, float]) -> tuple[str, str]:
    return f"{cost[0]:.2f}", f"{cost[1]:.2f}"


def _one(what: str, layout: Layout) -> tuple[float, float]:
    return _told(_spent(what, layout))


def _spent(what: str, layout: Layout) -> Spent:
    return spent(
        [sys.executable, "-m", "tests.tools.performance.history", f"one-{what}", str(layout.home)]
    )


def _told(cost: Spent) -> tuple[float, float]:
    """Return the CPU and wall seconds of the work itself."""
    words = next(line.split() for line in cost.output.splitlines() if line.startswith("work "))
    return float(words[1]), float(words[2])


@contextlib.contextmanager
def _counted() -> Iterator[None]:
    begun, used = time.monotonic(), time.process_time()
    yield
    print(f"work {time.process_time() - used:.3f} {time.monotonic() - begun:.3f}")


def _nightbook(home: Path) -> Nightbook:
    window = os.environ.get("NIGHTBOOK_NATIVE_NIGHTS", "all")
    variables = {"NIGHTBOOK_HOME": str(home), "NIGHTBOOK_NATIVE_NIGHTS": window}
    return Nightbook(lambda: variables, lambda: datetime.now(UTC))


def one_copy(home: Path) -> None:
    """Copy the published file to a file next to it, and wait until the copy is on disk."""
    source, target = Layout(home).database, home / "copy"
    with _counted():
        shutil.copyfile(source, target)
        with target.open("rb") as file:
            os.fsync(file.fileno())
    target.unlink()


def one_publish(home: Path) -> None:
    """Judge and publish the newest landed night, as the nightly job does."""
    layout = Layout(home)
    manifest = load_manifest(list(night_folders.folders(layout))[-1])
    leave_pandas_out()
    with _counted():
        outcome = publish.judge_and_publish(_nightbook(home), manifest)
    assert outcome.snapshot.state == states.ACCEPTED, outcome.snapshot.decision
    assert len(outcome.published.loaded) == 1, outcome.published.loaded


def one_refresh(home: Path) -> None:
    """Publish the nights of the lake."""
    with _counted():
        publish.refresh(_nightbook(home))


def one_rebuild(home: Path) -> None:
    """Rebuild the whole warehouse from the lake."""
    with _counted():
        rebuild(_nightbook(home), from_landing=False)
    print(f"rss {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}")


ONES: dict[str, Callable[[Path], Any]] = {
    "one-copy": one_copy,
    "one-publish": one_publish,
    "one-refresh": one_refresh,
    "one-rebuild": one_rebuild,
}

if __name__ == "__main__":
    if len(sys.argv) > 2:
        ONES[sys.argv[1]](Path(sys.argv[2]))
    else:
        print("\n".join(main(*map(int, sys.argv[1:]))))
