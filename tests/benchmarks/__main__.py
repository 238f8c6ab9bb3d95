"""`make bench`: our pipeline and its peers on the same bodies, run in turn, sums checked.

    python -m tests.benchmarks [--scale S|M|L] [--runs N] [--only NAME] [--readme]

Each design is a whole process. `--readme` puts the table into README.md.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from decimal import Decimal, getcontext
from pathlib import Path

import duckdb

from tests.benchmarks.bodies import SCALES, Scale, write_portfolios
from tests.benchmarks.designs import DESIGNS
from tests.benchmarks.measuring import Cost, measured

getcontext().prec = 100  # sums of these bodies have at most forty digits
ROOT = Path(__file__).parent.parent.parent
PEERS = ROOT / ".side" / "peers"
MARK = ("<!-- bench -->", "<!-- /bench -->")
# The children tables of dlt's default have other names; its sums are not compared.
WITHOUT_SUMS = {"dlt, default"}


def main() -> None:
    """Measure and print; the exit code is 1 when a design lost a digit."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("--scale", choices=SCALES, default="M")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=DESIGNS, action="append")
    parser.add_argument("--readme", action="store_true")
    arguments = parser.parse_args()
    scale = SCALES[arguments.scale]
    names = arguments.only or list(DESIGNS)
    with tempfile.TemporaryDirectory(prefix="nightbook-bench-") as folder:
        body = Path(folder) / "portfolios.json"
        print(f"Writing the body of scale {scale.name} ({scale.rows:,} accounts) ...", flush=True)
        sums = write_portfolios(body, scale)
        size = body.stat().st_size / 1e6
        costs: dict[str, list[Cost]] = {name: [] for name in names}
        exact: dict[str, str] = {}
        for run in range(arguments.runs):
            for name in names:
                cost, verdict = _one(name, body, Path(folder) / "run", sums)
                costs[name].append(cost)
                exact[name] = verdict
                print(f"  run {run + 1}: {name:<32} {cost.cpu:7.2f} CPU s  {verdict}", flush=True)
    table = _table(scale, size, costs, exact)
    print(f"\n{table}")
    if arguments.readme:
        _into_readme(table)


def _python(name: str) -> str:
    if name == "nightbook":
        return sys.executable
    if not (PEERS / "ready").exists():
        subprocess.run(["make", "-C", str(ROOT), ".side/peers/ready"], check=True)
    return str(PEERS / "bin" / "python")


def _one(name: str, body: Path, folder: Path, sums: dict[str, str]) -> tuple[Cost, str]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.environ["PYTHONPATH"] = str(ROOT)
    cost = measured([_python(name), "-m", "tests.benchmarks.designs", name, str(body), str(folder)])
    database = next(
        line.removeprefix("database ")
        for line in cost.output.splitlines()
        if line.startswith("database ")
    )
    return cost, "" if name in WITHOUT_SUMS else _verdict(Path(database), sums)


def _verdict(database: Path, sums: dict[str, str]) -> str:
    query = (
        "select asset_id || ' ' || bucket, list(amount_text) from balances group by all order by 1"
    )
    with duckdb.connect(str(database), read_only=True) as connection:
        found = {
            key: sum(map(Decimal, texts)) for key, texts in connection.execute(query).fetchall()
        }
        columns = {row[0] for row in connection.execute("describe balances").fetchall()}
    wrong = [key for key in sums if found.get(key) != Decimal(sums[key])]
    if wrong:
        return f"{len(wrong)} sums differ"
    return "exact" if "amount" in columns else "exact, as text only"


def _table(scale: Scale, size: float, costs: dict[str, list[Cost]], exact: dict[str, str]) -> str:
    runs = len(next(iter(costs.values())))
    machine = (
        f"Scale {scale.name}: {scale.rows:,} accounts, a body of {size:.0f} MB; "
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        f"DuckDB {duckdb.__version__}; medians of {runs} runs, imports left out."
    )
    heads = "| design | CPU s | wall s | anonymous MB | CPU, nightbook = 1 | sums |"
    lines = [machine, "", heads, "|---|---:|---:|---:|---:|---|"]
    ours = [cost.cpu for cost in costs.get("nightbook", [])]
    base = statistics.median(ours) if ours else float("nan")
    for name, several in costs.items():
        cpu = statistics.median(cost.cpu for cost in several)
        wall = statistics.median(_wall(cost) for cost in several)
        memory = statistics.median(cost.anonymous for cost in several)
        figures = f"{cpu:.1f} | {wall:.1f} | {memory:.0f} | {cpu / base:.1f}"
        lines.append(f"| {name} | {figures} | {exact[name]} |")
    return "\n".join(lines) + "\n"


def _wall(cost: Cost) -> float:
    return next(
        float(line.split()[1]) for line in cost.output.splitlines() if line.startswith("wall ")
    )


def _into_readme(table: str) -> None:
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARK[0])
    _, _, after = rest.partition(MARK[1])
    readme.write_text(f"{before}{MARK[0]}\n{table}{MARK[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
