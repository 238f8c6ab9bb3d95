"""Books and ledgers of a million keys, made column by column, with planted differences.

    python -m tests.tools.performance.million_keys book|ledger HOME COUNT LAYOUT
    python -m tests.tools.performance.million_keys reconcile HOME
    python -m tests.tools.performance.million_keys export HOME FORMAT

Each command runs in its own process, so that its cost can be measured. `facts` reads its output.
"""

import csv
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.flatten.control_totals.totals import write_holdings
from tests.support.books import BUILT_AT, exact, night, row, written
from warehouse.contract.book import BOOK
from warehouse.contract.model import Table
from warehouse.contract.ops import CONTROL_TOTALS
from warehouse.database.publication import publish_version
from warehouse.export.export import export
from warehouse.query.pandas_blocker import leave_pandas_out
from warehouse.reconcile import service
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import TYPES, conform, rows_batch, write

DAY = date(2026, 11, 20)
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
SNAPSHOT = f"{DAY:%Y%m%d}T021500Z"
PORTFOLIOS, ASSETS, VENUES = 50, 300, 20
EVERY = 1000  # of so many keys, one differs by 1e-18, and one is on one side only
DIFFERS, BOOK_ALONE, LEDGER_ALONE = 3, 7, 1007
PLAIN, SCOPE, PIVOT = "plain", "scope", "pivot"  # unchanged, with a scope, a column per venue


def key(number: int, layout: str = PLAIN) -> tuple[str, str, str, str]:
    """Return the portfolio, asset, venue and account of a number. A pivot row has all venues."""
    row = number // VENUES if layout == PIVOT else number
    return (
        f"p{row % PORTFOLIOS}",
        f"A{row % ASSETS}",
        f"v{number % VENUES}",
        f"account-{row}",
    )


def amount(number: int, last: int = 1) -> str:
    """Return an amount with 18 decimals. It has up to 24 digits for a million keys."""
    return f"{number}.{number:017}{last}"


def write_book(home: Path, count: int, layout_: str = PLAIN) -> None:
    """Publish a book with `count` accounts, each with one amount."""
    layout = Layout(home)
    portfolios, assets, venues, accounts = map(
        list, zip(*(key(number, layout_) for number in range(count)), strict=True)
    )
    names = {"portfolio_id": portfolios, "asset_id": assets}
    pairs = sorted(set(zip(portfolios, assets, strict=True)))
    places = names | {"venue_id": venues, "account_name": accounts}
    texts = list(map(amount, range(count)))
    kinds = {"bucket": ["trading"] * count, "state": ["free"] * count}
    amounts = {"amount_text": texts, "amount": pa.array(texts).cast(pa.decimal128(38, 18))}
    given: dict[str, dict[str, Any]] = {
        "accounts": places | {"balance_count": [1] * count},
        "balances": places | kinds | amounts,
        "positions": {"portfolio_id": [one[0] for one in pairs]}
        | {"asset_id": [one[1] for one in pairs]},
        "portfolios": {"portfolio_id": [f"p{number}" for number in range(PORTFOLIOS)]}
        | {"name": [f"Portfolio {number}" for number in range(PORTFOLIOS)]},
        "venues": {"venue_id": [f"v{number}" for number in range(VENUES)]}
        | {"display_name": [f"Venue {number}" for number in range(VENUES)]}
        | {"trading_status": ["trading"] * VENUES},
    }
    contents = written(layout, [night(SNAPSHOT, [])])
    sizes = {table.name: 0 for table in BOOK}
    place = partial(layout.parquet, snapshot_date=DAY, snapshot_id=SNAPSHOT)
    for table in BOOK:
        if table.name in given:
            sizes[table.name] = len(next(iter(given[table.name].values())))
            batch = _batch(table, given[table.name], sizes[table.name])
            write(table, [batch], place(table.name), SNAPSHOT)
    write_holdings({table.name: place(table.name) for table in BOOK}, place, SNAPSHOT)
    counted = rows_batch(CONTROL_TOTALS, _totals(sizes, assets, texts))
    write(CONTROL_TOTALS, [counted], layout.parquet(CONTROL_TOTALS.name, DAY, SNAPSHOT), SNAPSHOT)
    publish_version(layout, contents, version="v1", built_at=BUILT_AT, program_version="0.0.0")


def _batch(table: Table, given: dict[str, Any], count: int) -> pa.RecordBatch:
    plain = row(table, DAY)
    columns = {
        column.name: pa.array(
            given.get(column.name, [plain[column.name]] * count), TYPES[column.kind]
        )
        for column in table.columns
    }
    return conform(table, columns, count)


def _totals(sizes: dict[str, int], assets: list[str], texts: list[str]) -> list[dict[str, Any]]:
    held: dict[str, list[str]] = {}
    for asset, text in zip(assets, texts, strict=True):
        held.setdefault(asset, []).append(text)
    lines: list[dict[str, Any]] = [
        {"table_name": name, "measure": "rows", "in_json": str(size)}
        for name, size in sizes.items()
    ]
    lines += [
        {"table_name": "balances", "measure": "sum", "asset_id": asset, "bucket": "trading"}
        | {"in_json": exact(of)}
        for asset, of in held.items()
    ]
    return [
        row(CONTROL_TOTALS, DAY, snapshot_id=SNAPSHOT, **line, in_lake=line["in_json"])
        for line in lines
    ]


def write_ledger(home: Path, count: int, layout: str = PLAIN) -> None:
    """Write a ledger of the same keys as CSV, with planted differences and one-sided keys."""
    folder = home / "reconcile"
    (folder / "inbox").mkdir(parents=True, exist_ok=True)
    lines = _pivot(count) if layout == PIVOT else _lines(count)
    with (folder / "inbox" / "ledger.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=";").writerows(lines)
    covered = ", ".join(f'"p{number}"' for number in range(PORTFOLIOS))
    settings = {SCOPE: f"portfolio = [{covered}]", PIVOT: 'columns_are = "venue"'}
    if layout in settings:
        text = f'[file."ledger*"]\n{settings[layout]}\n'
        (folder / "recon.toml").write_text(text, encoding="utf-8")


def _lines(count: int) -> Iterator[Sequence[str]]:
    yield ["portfolio", "asset", "venue", "account", "amount"]
    for number in range(count):
        if number % (2 * EVERY) == BOOK_ALONE:
            continue
        names = key(number)
        if number % (2 * EVERY) == LEDGER_ALONE:
            names = (*names[:3], f"ledger-alone-{number}-zz")
        last = 2 if number % EVERY == DIFFERS else 1
        yield [*names, amount(number, last)]


def _pivot(count: int) -> Iterator[Sequence[str]]:
    yield ["portfolio", "asset", "account", *(f"Venue {number}" for number in range(VENUES))]
    for first in range(0, count, VENUES):
        portfolio, asset, _, account = key(first, PIVOT)
        yield [portfolio, asset, account] + [
            ""
            if number % (2 * EVERY) == BOOK_ALONE
            else amount(number, 2 if number % EVERY == DIFFERS else 1)
            for number in range(first, first + VENUES)
        ]


def reconcile(home: Path) -> dict[str, Any]:
    """Run the reconciliation as the command does, and return its findings."""
    folder = home / "reconcile"
    ran = service.run(
        Layout(home).database, folder, program_version="0.0.0", now=NOW, pause=lambda: None
    )
    result = service.status(folder).run
    return {
        "counts": result.counts,
        "files": [str(file) for file in ran.files],
        "differences": sorted(
            {one.difference.lstrip("-") for one in result.breaks if one.result == "Amount differs"}
        ),
        "accounts": sorted(one.names["account"] for one in result.breaks),
    }


def exported(home: Path, *formats: str) -> dict[str, Any]:
    """Export the positions in these formats."""
    layout = Layout(home)
    done = export(
        layout.database, layout.exports, as_of=None, formats=formats, program_version="0.0.0"
    )
    return {"rows": done.rows, "files": [str(file) for file in done.files]} | {
        "notices": done.notices
    }


def facts(*command: str) -> dict[str, Any]:
    """Run one of the commands in its own process, and return its output and its cost."""
    given = [sys.executable, "-m", "tests.tools.performance.million_keys", *command]
    done = subprocess.run(given, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def peak() -> float:
    """Return the peak memory of this program in MB. getrusage would include its parent's."""
    words = Path("/proc/self/status").read_text(encoding="ascii").split()
    return int(words[words.index("VmHWM:") + 1]) / 1024


def main(what: str, home: str, *more: str) -> None:
    """Run one command, and print its facts, CPU seconds and peak in MB as one line of JSON."""
    leave_pandas_out()  # as every command does
    place = Path(home)
    told: dict[str, Any] = {}
    if what == "book":
        write_book(place, int(more[0]), *more[1:])
    elif what == "ledger":
        write_ledger(place, int(more[0]), *more[1:])
    elif what == "reconcile":
        told = reconcile(place)
    else:
        told = exported(place, *more)
    used = resource.getrusage(resource.RUSAGE_SELF)
    told |= {"cpu": used.ru_utime + used.ru_stime, "megabytes": peak()}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
