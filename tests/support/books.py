"""Small books for tests: rows of every table of a night, its Parquet files, and its totals.

Sums are calculated with Python's decimals, by code that shares nothing with the warehouse.
"""

import hashlib
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection
from filelock import FileLock

from pipelines.flatten.control_totals.totals import write_holdings
from warehouse.contract.book import BOOK
from warehouse.contract.lake import HOLDINGS
from warehouse.contract.model import Kind, Table
from warehouse.contract.ops import CONTROL_TOTALS, DECISIONS, NIGHTLY, SNAPSHOTS
from warehouse.database.load import Book, Contents
from warehouse.database.publication import Published, publish_version
from warehouse.sql.catalog import macros
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import rows_batch, write

BUILT_AT = datetime(2026, 11, 21, 3, tzinfo=UTC)
DEFAULTS: dict[Kind, Any] = {
    Kind.TEXT: "",
    Kind.AMOUNT: None,
    Kind.FLAG: False,
    Kind.ORDINAL: 0,
    Kind.COUNT: 0,
    Kind.DAY: None,
    Kind.MOMENT: datetime(2026, 1, 1, tzinfo=UTC),
}
Rows = Mapping[str, list[dict[str, Any]]]
# The folder of the homes that `published_once` copies. It is set once for a whole test run.
copies: Path | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """One amount of one account, as a test writes it."""

    text: str
    portfolio: str = "p1"
    asset: str = "BTC"
    venue: str = "v1"
    account: str = "main"
    bucket: str = "trading"
    state: str = "free"
    custom: bool = False


@dataclass(frozen=True, slots=True)
class Night:
    """A snapshot: its ID, its state, and the rows of each table of the book."""

    snapshot_id: str
    rows: Rows
    state: str = "accepted"
    is_book: bool = True
    ops: Rows = field(default_factory=dict)

    @property
    def day(self) -> date:
        """The business date, which is the first eight digits of the ID."""
        return date.fromisoformat(self.snapshot_id[:8])


def exact(texts: Iterable[str]) -> str:
    """Return the sum of amounts in plain digits, calculated with Python's decimals."""
    with localcontext(prec=100_000, Emax=10**6, Emin=-(10**6)):
        total = format(sum(map(Decimal, texts), Decimal(0)), "f")
    if "." in total:
        total = total.rstrip("0").rstrip(".")
    return "0" if total in {"-0", ""} else total


def fits(text: str) -> Decimal | None:
    """Return the amount, or None if DECIMAL(38,18) cannot store it exactly."""
    with localcontext(prec=100_000, Emax=10**6, Emin=-(10**6)):
        value = Decimal(text)
        scaled = value.scaleb(18)
        return value if scaled == scaled.to_integral_value() and abs(scaled) < 10**38 else None


def row(table: Table, day: date, /, **given: Any) -> dict[str, Any]:
    """Return a row with these values, and with default values in the other columns."""
    made = {
        column.name: None if column.nullable else DEFAULTS[column.kind] for column in table.columns
    }
    if "snapshot_date" in made:
        made["snapshot_date"] = day
    assert given.keys() <= made.keys(), f"{table.name} has no {given.keys() - made.keys()}"
    return made | given


def night(
    snapshot_id: str, amounts: Iterable[Amount], more: Rows | None = None, **about: Any
) -> Night:
    """Build a night from these amounts, with their accounts, positions, portfolios and venues."""
    day = date.fromisoformat(snapshot_id[:8])
    given = list(amounts)
    rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in BOOK}

    def add(name: str, /, **values: Any) -> None:
        table = next(table for table in BOOK if table.name == name)
        rows[name].append(row(table, day, **values))

    accounts = Counter((a.portfolio, a.asset, a.custom, a.venue, a.account) for a in given)
    positions = Counter(key[:3] for key in accounts)
    for portfolio in sorted({key[0] for key in positions}):
        add("portfolios", portfolio_id=portfolio, name=f"Portfolio {portfolio}", position_count=1)
    for (portfolio, asset, custom), count in positions.items():
        add(
            "positions",
            portfolio_id=portfolio,
            asset_id=asset,
            is_custom_asset=custom,
            account_count=count,
        )
    for (portfolio, asset, custom, venue, account), count in accounts.items():
        add(
            "accounts",
            portfolio_id=portfolio,
            asset_id=asset,
            is_custom_asset=custom,
            venue_id=venue,
            account_name=account,
            balance_count=count,
        )
    for a in given:
        add(
            "balances",
            portfolio_id=a.portfolio,
            asset_id=a.asset,
            is_custom_asset=a.custom,
            venue_id=a.venue,
            account_name=a.account,
            bucket=a.bucket,
            state=a.state,
            amount=fits(a.text),
            amount_text=a.text,
        )
    for venue in sorted({a.venue for a in given}):
        add("venues", venue_id=venue, display_name=f"Venue {venue}", trading_status="trading")
    for name, extra in (more or {}).items():
        table = next(table for table in BOOK if table.name == name)
        rows[name] += [row(table, day, **values) for values in extra]
    return Night(snapshot_id, rows, **about)


def totals(night: Night) -> list[dict[str, Any]]:
    """Return the control totals of a night, counted and summed by Python."""
    counted: list[dict[str, Any]] = [
        {"table_name": table.name, "measure": "rows", "in_json": str(len(night.rows[table.name]))}
        for table in BOOK
    ]
    groups: dict[tuple[str, bool, str], list[str]] = defaultdict(list)
    for balance in night.rows["balances"]:
        key = (balance["asset_id"], balance["is_custom_asset"], balance["bucket"])
        groups[key].append(balance["amount_text"])
    summed = [
        {
            "table_name": "balances",
            "measure": "sum",
            "asset_id": asset,
            "is_custom_asset": custom,
            "bucket": bucket,
            "in_json": exact(texts),
        }
        for (asset, custom, bucket), texts in groups.items()
    ]
    return [
        row(
            CONTROL_TOTALS,
            night.day,
            snapshot_id=night.snapshot_id,
            **line,
            in_lake=line["in_json"],
        )
        for line in (*counted, *summed)
    ]


def night_files(layout: Layout, one: Night) -> dict[str, Path]:
    """Write a night into the lake and return its file of each table. Copy an equal night's files.

    Computing the holdings of a night takes a third of the time of a publish.
    """
    paths = _paths(layout, one)
    if copies is None:
        _write_night(layout, one)
        return paths
    copy = copies / f"night-{hashlib.sha256(repr(one).encode()).hexdigest()}"
    with FileLock(f"{copy}.lock"):
        if not copy.exists():
            draft = copy.with_name(f"{copy.name}.draft")
            _write_night(Layout(draft), one)
            draft.rename(copy)
    for name, path in _paths(Layout(copy), one).items():
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        paths[name].unlink(missing_ok=True)  # a reader may have opened it
        shutil.copy(path, paths[name])
    return paths


def _paths(layout: Layout, one: Night) -> dict[str, Path]:
    return {
        table.name: layout.parquet(table.name, one.day, one.snapshot_id)
        for table in (*BOOK, *HOLDINGS, *NIGHTLY)
    }


def _write_night(layout: Layout, one: Night) -> None:
    files = _paths(layout, one)
    rows = {**one.rows, "control_totals": totals(one), **one.ops}
    for table in (*BOOK, *NIGHTLY):
        batch = rows_batch(table, rows.get(table.name, []))
        write(table, [batch], files[table.name], one.snapshot_id)
    write_holdings(
        {table.name: files[table.name] for table in BOOK}, files.__getitem__, one.snapshot_id
    )


def written(layout: Layout, nights: Iterable[Night]) -> Contents:
    """Write the nights into the lake, and return the contents of a warehouse with them."""
    books: list[Book] = []
    nightly: dict[str, dict[str, Path]] = {table.name: {} for table in NIGHTLY}
    snapshots: list[dict[str, Any]] = []
    for one in nights:
        paths = night_files(layout, one)
        for table in NIGHTLY:
            nightly[table.name][one.snapshot_id] = paths[table.name]
        files = {table.name: paths[table.name] for table in (*BOOK, *HOLDINGS)}
        if one.is_book:
            books.append(Book(one.day, one.snapshot_id, files))
        snapshots.append(
            row(
                SNAPSHOTS,
                one.day,
                snapshot_id=one.snapshot_id,
                state=one.state,
                is_book=one.is_book,
            )
        )
    decisions = [
        row(
            DECISIONS,
            line["snapshot_date"],
            snapshot_id=line["snapshot_id"],
            decision_no=1,
            state=line["state"],
            decided_by="guards",
        )
        for line in snapshots
    ]
    return Contents(
        decided={"decisions": decisions},
        books=tuple(books),
        nightly=nightly,
        snapshots=tuple(snapshots),
    )


def published(layout: Layout, nights: Iterable[Night], version: str, **more: Any) -> Published:
    """Write the nights and publish them."""
    contents = written(layout, nights)
    return publish_version(
        layout, contents, version=version, built_at=BUILT_AT, program_version="0.0.0", **more
    )


def published_once(layout: Layout, nights: Iterable[Night], version: str) -> None:
    """Publish nights into a home. If the home is empty, copy the result of an equal earlier call.

    Use it for tests that work with a book, not for tests of publishing.
    """
    nights = list(nights)
    if copies is None or layout.lake.exists() or layout.warehouse.exists():
        published(layout, nights, version)
        return
    copy = copies / hashlib.sha256(f"{version} {nights}".encode()).hexdigest()
    with FileLock(f"{copy}.lock"):
        if not copy.exists():
            draft = copy.with_name(f"{copy.name}.draft")
            published(Layout(draft), nights, version)
            draft.rename(copy)
    shutil.copytree(copy, layout.home, symlinks=True, dirs_exist_ok=True)


def make_macros(connection: DuckDBPyConnection) -> None:
    """Create the macros that do not need tables, as in a warehouse."""
    connection.execute("create schema internal")
    for macro in macros():
        if not macro.is_table:
            connection.execute(macro.sql)
