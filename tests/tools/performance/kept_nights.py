"""Many nights with retention: the sizes of the home, and the CPU cost of a night.

    python -m tests.tools.performance.kept_nights [AGE ...] [--keep DAYS]

Every night is a whole `nightbook run` on a simulated clock. Once a week, `nightbook prune --keep
DAYS` runs. Ages are numbers of nights, by default 10 and 50. 1,000 nights take about an hour.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.support.operator_home import Keeper, sandbox

AGES, KEEP, WEEK, LAST = (10, 50), 7, 7, 5
FOLDERS = ("landing", "lake", "warehouse", "runs", "exports", "reports", "reconcile")


def main(ages: Sequence[int], keep: int) -> None:
    """Print a row for each age."""
    print("| nights | a night, CPU s | prune, CPU s | home MB |", " | ".join(FOLDERS), "| MB")
    with (
        tempfile.TemporaryDirectory(prefix="nightbook-kept-") as folder,
        sandbox() as served,
    ):
        keeper, nights, pruned = Keeper(Path(folder) / "home", served), list[float](), 0.0
        before_first = datetime.now(UTC).date() - timedelta(days=max(ages))
        for number in range(1, max(ages) + 1):
            begun = time.process_time()
            said = keeper.run(before_first + timedelta(days=number))
            nights.append(time.process_time() - begun)
            if said.code:
                sys.exit(f"night {number} ended with {said.code}: {said.err}")
            if number % WEEK == 0:
                begun = time.process_time()
                said = keeper("prune", "--keep", str(keep), "--no-month-ends")
                pruned = time.process_time() - begun
                if said.code:
                    sys.exit(f"the prune after night {number}: {said.err}")
            if number in ages:
                print(_row(keeper.home, number, statistics.median(nights[-LAST:]), pruned))
                sys.stdout.flush()


def _row(home: Path, number: int, night: float, pruned: float) -> str:
    sizes = " | ".join(f"{_megabytes(home / name):.1f}" for name in FOLDERS)
    whole = _megabytes(home)
    return f"| {number} | {night:.2f} | {pruned:.1f} | {whole:.1f} | {sizes} |"


def _megabytes(folder: Path) -> float:
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in paths) / 1e6


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ages", nargs="*", type=int, default=AGES)
    parser.add_argument("--keep", type=int, default=KEEP)
    chosen = parser.parse_args()
    main(chosen.ages, chosen.keep)
