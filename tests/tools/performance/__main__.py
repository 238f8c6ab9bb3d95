"""`make bench`: our pipeline, its peers and the floor in turn on the same bodies.

    python -m tests.tools.performance [--scale S|M|L|instruments] [--runs N] [--only NAME] [--page]
                                [--before COMMIT]

Each design is a whole process, and its sums are checked. NAME is a design or a part (see `parts`):
fetch, landing, quiet, history or decade. `--page` writes the tables into the page next to this
file. `--scale` can be given more than once. With `--before`, our own designs of that commit are
measured in turn with those of today.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb

from tests.tools.performance.bodies import (
    INSTRUMENTS_EACH,
    SCALES,
    VENUES,
    Truth,
    write_instruments,
    write_portfolios,
)
from tests.tools.performance.cpu_profile import Spent, spent
from tests.tools.performance.designs import DESIGNS, FLOOR, HOME, OF_INSTRUMENTS, OURS
from tests.tools.performance.exactness import verdict
from tests.tools.performance.machine import machine
from tests.tools.performance.parts import PAGE, PARTS, measure

ROOT = Path(__file__).parents[3]
PEERS = ROOT / ".side" / "peers"
MARK = ("<!-- bench -->", "<!-- /bench -->")
LISTED = "instruments"
# Designs that make no database, so that there is nothing to check.
WITHOUT_SUMS = {"floor: parse only", "floor: Parquet only"}
# The designs that run on the large scale by default. The others need gigabytes or minutes.
LARGE = {"nightbook", "nightbook, the whole night", "polars, schema given"}
ROOMS = ("assets", "pipelines", "warehouse", "tests")
# The module that runs one design, in this commit and in commits before the tools had a folder.
RUNNERS = ("tests.tools.performance.designs", "tests.performance.designs")


@dataclass(frozen=True, slots=True)
class Table:
    """The measurements on one scale: the costs and the verdict of each design."""

    scale: str
    size: float
    truth: Truth
    costs: dict[str, list[Spent]] = field(default_factory=dict)
    exact: dict[str, str] = field(default_factory=dict)


def main() -> None:
    """Measure and print. The exit code is 1 if a design lost a digit."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.performance")
    scales = (*SCALES, LISTED)
    parser.add_argument("--scale", choices=scales, action="append")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=[*DESIGNS, *PARTS], action="append")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--before", metavar="COMMIT")
    arguments = parser.parse_args()
    parts = [name for name in arguments.only or () if name in PARTS]
    measure(parts, arguments.runs, into_page=arguments.page)
    if parts and len(parts) == len(arguments.only):
        return
    tables = []
    for scale in arguments.scale or ["M"]:
        with tempfile.TemporaryDirectory(prefix="nightbook-bench-") as folder:
            chosen = _chosen(scale, arguments.only)
            tables.append(
                _measure(scale, chosen, arguments.runs, Path(folder), before=arguments.before)
            )
    text = "\n".join(_rendered(table) for table in tables)
    print(f"\n{text}")
    if arguments.page:
        _into_page(text)
    exact = [one for table in tables for one in table.exact.values()]
    sys.exit(any("differ" in one for one in exact))


def _measure(
    scale: str, chosen: list[str], runs: int, folder: Path, *, before: str | None
) -> Table:
    print(f"Writing the bodies of scale {scale} ...", flush=True)
    body = folder / "body"
    truth = write_instruments(body) if scale == LISTED else write_portfolios(body, SCALES[scale])
    files = list(body.iterdir()) if body.is_dir() else [body]
    table = Table(scale, sum(file.stat().st_size for file in files) / 1e6, truth)
    trees = {"": ROOT} | ({f", at {before}": _checked_out(before, folder)} if before else {})
    for run in range(runs):
        for name, tree in ((name, tree) for name in chosen for tree in trees):
            if tree and name not in OURS:
                continue
            cost, found = _one(name, body, folder / "run", truth, trees[tree])
            table.costs.setdefault(name + tree, []).append(cost)
            table.exact[name + tree] = found
            print(f"  run {run + 1}: {name + tree:<32} {cost.cpu:7.2f} CPU s  {found}", flush=True)
    return table


def _checked_out(commit: str, folder: Path) -> Path:
    """Return a folder with the rooms of a commit and its own designs."""
    tree = folder / "before"
    tree.mkdir()
    archive = ["git", "-C", str(ROOT), "archive", commit, *ROOMS]
    with subprocess.Popen(archive, stdout=subprocess.PIPE) as packed:
        subprocess.run(["tar", "-x", "-C", str(tree)], stdin=packed.stdout, check=True)
    return tree


def _chosen(scale: str, only: list[str] | None) -> list[str]:
    known = OF_INSTRUMENTS if scale == LISTED else DESIGNS
    if only:
        return [name for name in only if name in known]
    return [name for name in known if scale != "L" or name in LARGE]


def _python(name: str) -> str:
    if name in HOME:
        return sys.executable
    if not (PEERS / "ready").exists():
        subprocess.run(["make", "-C", str(ROOT), ".side/peers/ready"], check=True)
    return str(PEERS / "bin" / "python")


def _one(name: str, body: Path, folder: Path, truth: Truth, tree: Path) -> tuple[Spent, str]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.environ["PYTHONPATH"] = str(tree)
    os.sync()  # do not measure earlier writes
    python = [_python(name), "-P", "-m"]
    runner = next(
        runner for runner in RUNNERS if (tree / f"{runner.replace('.', '/')}.py").is_file()
    )
    cost = spent([*python, runner, name, str(body), str(folder)])
    cost = replace(cost, cpu=float(_told(cost, "cpu")))  # of the work, without imports
    database = Path(_told(cost, "database"))
    return cost, "" if name in WITHOUT_SUMS else verdict(database, truth)


def _rendered(table: Table) -> str:
    runs = len(next(iter(table.costs.values())))
    about = (
        f"{_what(table)}; {machine()}, DuckDB {duckdb.__version__}; "
        f"{f'medians of {runs} runs' if runs > 1 else 'one run'}, imports left out."
    )
    heads = (
        "| design | CPU s | wall s | anonymous MB | DuckDB + Parquet, MB "
        "| CPU, nightbook = 1 | sums |"
    )
    lines = [about, "", heads, "|---|---:|---:|---:|---:|---:|---|"]
    ours = [cost.cpu for cost in table.costs.get("nightbook", [])]
    base = statistics.median(ours) if ours else float("nan")
    for name, several in table.costs.items():
        cpu = statistics.median(cost.cpu for cost in several)
        wall = statistics.median(float(_told(cost, "wall")) for cost in several)
        memory = f"{statistics.median(cost.anonymous for cost in several):.0f}"
        memory = "" if name in FLOOR else memory
        size = "" if name in WITHOUT_SUMS else _told(several[0], "size")
        figures = f"{cpu:.1f} | {wall:.1f} | {memory} | {size} | {cpu / base:.1f}"
        lines.append(f"| {name} | {figures} | {table.exact[name]} |")
    return "\n".join(lines) + "\n"


def _what(table: Table) -> str:
    if table.scale == LISTED:
        count = f"{table.truth.rows[LISTED]:,}"
        bodies = VENUES * 2
        return f"{count} instruments, {bodies} bodies of {INSTRUMENTS_EACH:,}, {table.size:.0f} MB"
    rows = table.truth.rows
    return (
        f"Scale {table.scale}: {rows['accounts']:,} accounts, {rows['balances']:,} amounts, "
        f"a body of {table.size:.0f} MB"
    )


def _told(cost: Spent, what: str) -> str:
    """Return the text that a design printed after a name."""
    lines = (
        line.removeprefix(f"{what} ")
        for line in cost.output.splitlines()
        if line.startswith(f"{what} ")
    )
    return next(lines)


def _into_page(text: str) -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(MARK[0])
    _, _, after = rest.partition(MARK[1])
    PAGE.write_text(f"{before}{MARK[0]}\n{text}{MARK[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
