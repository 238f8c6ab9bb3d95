"""A home with a past: nights of a seeded book, written without a network.

The nights are written into the landing zone and the lake. Columns are made as Arrow arrays and
written by the product's own writers, so a year of fifty thousand amounts a night takes minutes. The
amounts drift: some change every night, and a few disappear and return. Callers compute exact sums
from the columns or files of each night.
"""

import random
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from pipelines.flatten.control_totals.totals import write_holdings
from pipelines.lake import lake_manifest
from pipelines.landing import night_folders, snapshots, zone
from pipelines.landing.manifest import Manifest, RequestRecord
from pipelines.records import amounts
from tests.tools.performance.bodies import amount
from warehouse.contract import states
from warehouse.contract.book import BOOK
from warehouse.contract.lake import lake_contract
from warehouse.contract.model import Kind, Table
from warehouse.contract.ops import CONTROL_TOTALS, NIGHTLY, REQUESTS
from warehouse.exact import plain
from warehouse.storage.layout import Layout, write_json
from warehouse.storage.parquet import TYPES, WrittenFile, conform, rows_batch, write

FIRST = datetime(2025, 11, 21, 2, 15, tzinfo=UTC)
STAMP = datetime(2025, 1, 1, tzinfo=UTC)
VENUES, INSTRUMENTS, ASSETS = 12, 100, 400
CHANGED, AWAY = 0.08, 0.001
UNVERIFIED = 100  # one of so many integrations
KINDS = (("trading", "free"), ("trading", "locked"), ("custody", "free"), ("staking", "locked"))
Columns = Mapping[str, Any]


class Past:
    """A book that drifts from night to night: `rows` amounts in four kinds on `rows // 2` accounts.

    Call `night(n)` in order, from 0.
    """

    def __init__(self, rows: int, seed: int = 7) -> None:
        # Two accounts per position, and fifty positions per portfolio.
        self.rows = rows
        self.rng = random.Random(seed)
        self.draws = np.random.default_rng(seed)
        self.accounts = np.arange(self.rows // 2)
        self.positions = np.arange(-(-len(self.accounts) // 2))
        self.portfolios = np.arange(-(-len(self.positions) // 50))
        kinds = (self.draws.integers(0, 2, len(self.accounts))) * 2
        self.kinds = np.stack([kinds, kinds + 1], axis=1).ravel()
        self.venues = self.draws.integers(0, VENUES, len(self.accounts))
        steps = self.draws.integers(1, 8, len(self.positions))
        self.assets = np.cumsum(steps) % ASSETS
        self.texts = np.array([amount(self.rng) for _ in range(self.rows)], dtype=object)
        self.names: dict[str, pa.Array] = {}

    def night(self, number: int) -> dict[str, Columns]:
        """Return the columns of every table of the book on one night, without `snapshot_date`."""
        if number:
            changed = self.draws.random(self.rows) < CHANGED
            self.texts[changed] = [drifted(self.rng, text) for text in self.texts[changed]]
        here = np.flatnonzero(self.draws.random(self.rows) >= AWAY)
        counts = np.bincount(here // 2, minlength=len(self.accounts))
        account = self._account(self.accounts)
        return {
            "portfolios": self._portfolios(),
            "integrations": self._integrations(),
            "positions": self._position(self.positions)
            | {"account_count": _counts(self.accounts // 2, len(self.positions))},
            "accounts": account | {"balance_count": counts},
            "balances": self._account(here // 2) | self._amounts(here),
            "venues": {
                "venue_id": _texts("venue-{}", range(VENUES)),
                "display_name": _texts("Venue {}", range(VENUES)),
                "trading_status": _texts("trading", range(VENUES)),
            },
            "venue_types": {
                "venue_id": _texts("venue-{}", range(VENUES)),
                "type": _texts("exchange", range(VENUES)),
            },
            "instruments": _instruments(),
        }

    def _portfolios(self) -> Columns:
        count = _counts(self.positions // 50, len(self.portfolios))
        return {
            "portfolio_id": self._named("portfolio", self.portfolios),
            "name": _texts("Portfolio {}", self.portfolios),
            "position_count": count,
            "integration_count": np.full(len(count), VENUES, dtype=np.int32),
        }

    def _integrations(self) -> Columns:
        """Return one integration of each portfolio at each venue. All but a few are verified."""
        numbers = np.arange(len(self.portfolios) * VENUES)
        return {
            "portfolio_id": self._named("portfolio", numbers // VENUES),
            "integration_id": _texts("integration-{}", numbers),
            "venue_id": self._named("venue", numbers % VENUES),
            "status": _taken(["requested", "verified"], np.minimum(numbers % UNVERIFIED, 1)),
        }

    def _position(self, positions: Any) -> dict[str, Any]:
        return {
            "portfolio_id": self._named("portfolio", positions // 50),
            "asset_id": self._named("asset", self.assets[positions]),
            "is_custom_asset": pa.array(self.assets[positions] % 50 == 0),
        }

    def _account(self, accounts: Any) -> dict[str, Any]:
        return self._position(accounts // 2) | {
            "venue_id": self._named("venue", self.venues[accounts]),
            "account_name": self._named("account", accounts % 2),
            "duplicate_no": np.zeros(len(accounts), dtype=np.int32),
        }

    def _amounts(self, here: Any) -> dict[str, Any]:
        text = pa.array(self.texts[here], pa.string())
        return {
            "bucket": _taken([bucket for bucket, _ in KINDS], self.kinds[here]),
            "state": _taken([state for _, state in KINDS], self.kinds[here]),
            "amount": text.cast(amounts.TYPE),
            "amount_text": text,
        }

    def _named(self, what: str, numbers: Any) -> pa.Array:
        """Return IDs of one kind as the API might have them: UUIDs for portfolios, or words."""
        if what not in self.names:
            most = max(len(self.portfolios), ASSETS)
            rng = random.Random(what)
            long = what == "portfolio"
            self.names[what] = pa.array(
                [f"{rng.getrandbits(128):032x}" if long else f"{what}-{n}" for n in range(most)]
            )
        return self.names[what].take(pa.array(numbers))


def drifted(rng: random.Random, text: str) -> str:
    """Return an amount of the same size: all its digits but the first, in a different order."""
    rest = [char for char in text[1:] if char != "."]
    rng.shuffle(rest)
    point = text.find(".")
    if point > 0:
        rest.insert(point - 1, ".")
    return text[0] + "".join(rest)


def _texts(form: str, numbers: Any) -> pa.Array:
    return pa.array([form.format(n) for n in numbers], pa.string())


def _taken(words: list[str], numbers: Any) -> pa.Array:
    return pa.array(words).take(pa.array(numbers))


def _counts(numbers: Any, most: int) -> Any:
    return np.bincount(numbers, minlength=most)


def _instruments() -> Columns:
    numbers = range(VENUES * INSTRUMENTS)
    return {
        "venue_id": _texts("venue-{}", (n // INSTRUMENTS for n in numbers)),
        "instrument_id": _texts("instrument-{}", numbers),
        "type": _texts("spot", numbers),
        "display_name": _texts("Instrument {}", numbers),
        "venue_symbol": _texts("SYM{}", numbers),
        "base_asset": _texts("asset-{}", (n % ASSETS for n in numbers)),
        "term_asset": _texts("USD", numbers),
    }


def batch(table: Table, day: date, columns: Columns) -> pa.RecordBatch:
    """Return the batch of a table. Missing columns are NULL, except times, which are constant."""
    rows = len(next(iter(columns.values()), ()))
    made = {}
    for column in table.columns:
        kind = TYPES[column.kind]
        if column.name in columns:
            value = columns[column.name]
            made[column.name] = pa.array(value, kind) if isinstance(value, np.ndarray) else value
        elif column.name == "snapshot_date":
            made[column.name] = pa.repeat(pa.scalar(day, pa.date32()), rows)
        else:
            filled = STAMP if column.kind is Kind.MOMENT else None
            made[column.name] = pa.repeat(pa.scalar(filled, kind), rows)
    return conform(table, made, rows)


def add_night(
    layout: Layout,
    past: Past,
    number: int,
    *,
    staged: bool = False,
    held: bool = False,
    first: datetime = FIRST,
) -> Manifest:
    """Write a night into the landing zone and the lake, accepted or `held`.

    `number` counts nights from `first` on. If `staged`, the night is only flattened, and not
    judged.
    """
    started = first + timedelta(days=number)
    columns = past.night(number)
    manifest = _landed(layout, started)
    day, snapshot_id = manifest.snapshot_date, manifest.snapshot_id
    made: dict[str, WrittenFile] = {}
    aside = partial(layout.staged_file, snapshot_id=snapshot_id)
    placed = partial(layout.parquet, snapshot_date=day, snapshot_id=snapshot_id)
    place = aside if staged or held else placed
    for table in BOOK:
        rows = batch(table, day, columns[table.name])
        made[table.name] = write(table, [rows], place(table.name), snapshot_id)
    totals = _totals(columns, made)
    if staged:
        _stage(layout, manifest, made, totals)
    else:
        sums = write_holdings({name: place(name) for name in made}, place, snapshot_id)
        portfolios = columns["portfolios"]["portfolio_id"].to_pylist()
        _seal(layout, manifest, made, totals, portfolios, held=sums)
        _decide(layout, manifest, states.HELD if held else states.ACCEPTED)
    return manifest


def _landed(layout: Layout, started: datetime) -> Manifest:
    pulling = zone.PendingSnapshot(layout, started, ZoneInfo("UTC"))
    stamp = started.isoformat()
    asked: list[tuple[str, str | None, str]] = [
        ("list_portfolios", None, ""),
        ("list_venues", None, ""),
    ]
    asked += [
        ("list_instruments", f"venue-{venue}", f"type={kind}")
        for venue in range(VENUES)
        for kind in ("spot", "future")
    ]
    answers = tuple(
        RequestRecord(
            request_no=n,
            operation=what,
            venue_id=venue,
            path="/",
            query=query,
            status=200,
            attempts=1,
            sent_at=stamp,
            received_at=stamp,
            byte_count=2,
            sha256="0" * 64,
            file=f"{n:04}.json.zst",
            error=None,
        )
        for n, (what, venue, query) in enumerate(asked, 1)
    )
    return pulling.finish(started, answers, origin="", program_version="bench", clock_skew_ms=None)


def _totals(
    columns: Mapping[str, Columns], made: Mapping[str, WrittenFile]
) -> list[dict[str, Any]]:
    blank = {"asset_id": "", "is_custom_asset": False, "bucket": ""}
    lines = [
        blank | {"table_name": name, "measure": "rows", "total": str(one.rows)}
        for name, one in made.items()
    ]
    keys = ("asset_id", "is_custom_asset", "bucket")
    rows = pa.table({name: columns["balances"][name] for name in (*keys, "amount")})
    lines += [
        {name: one[name] for name in keys}
        | {
            "table_name": "balances",
            "measure": "sum",
            "total": plain(one["amount_sum"]),
        }
        for one in rows.group_by(list(keys)).aggregate([("amount", "sum")]).to_pylist()
    ]
    return [line | {"in_json": line["total"], "in_lake": line.pop("total")} for line in lines]


def _stage(
    layout: Layout,
    manifest: Manifest,
    made: Mapping[str, WrittenFile],
    totals: list[dict[str, Any]],
) -> None:
    of_venues = ("venues", "venue_types", "instruments")
    for part in ("portfolios", "venues"):
        mine = {
            name: asdict(one)
            for name, one in made.items()
            if (name in of_venues) is (part == "venues")
        }
        facts = {
            "tables": mine,
            "rejects": [],
            "inexact": [],
            "drift": [],
            "listings": [],
            "stale_venues": [],
            "totals": [line for line in totals if line["table_name"] in mine],
        }
        write_json(layout.part(part, manifest.snapshot_id), facts)


def _seal(
    layout: Layout,
    manifest: Manifest,
    made: Mapping[str, WrittenFile],
    totals: list[dict[str, Any]],
    portfolios: list[str],
    *,
    held: Mapping[str, WrittenFile],
) -> None:
    """Write the files that sealing and the guards leave, without a look at earlier nights."""
    rows = {table.name: [] for table in NIGHTLY}  # type: dict[str, list[dict[str, Any]]]
    rows[CONTROL_TOTALS.name] = [line | {"in_warehouse": None} for line in totals]
    rows[REQUESTS.name] = [lake_manifest._request(asdict(answer)) for answer in manifest.answers]
    key = {"snapshot_date": manifest.snapshot_date, "snapshot_id": manifest.snapshot_id}
    nightly = {}
    for table in NIGHTLY:
        given = rows_batch(table, [key | row for row in rows[table.name]])
        path = layout.parquet(table.name, manifest.snapshot_date, manifest.snapshot_id)
        nightly[table.name] = asdict(write(table, [given], path, manifest.snapshot_id))
    sums: dict[str, Decimal] = {}
    for line in totals:
        if line["measure"] == "sum":
            asset = line["asset_id"] + (" (custom)" if line["is_custom_asset"] else "")
            sums[asset] = sums.get(asset, Decimal(0)) + Decimal(line["in_lake"])
    content = {
        **{name: str(value) for name, value in key.items()},
        "tables": {name: asdict(one) for name, one in {**made, **held}.items()},
        "nightly": nightly,
        "facts": {
            "counts": {name: one.rows for name, one in made.items()},
            "totals": {asset: plain(total) for asset, total in sums.items()},
            "money": dict.fromkeys(portfolios, True),
            "drops": dict.fromkeys(("accounts", "instruments", "venues", "asset totals"), "0.9"),
        },
        "money_rejects": [],
        "differing_totals": [],
        "carried": [],
        "emptied": [],
        "counts": {"rejects": 0, "inexact": 0, "drift": 0},
        "contract": lake_contract(),
        "parts": {},
    }
    night_folders.write(layout.manifest(manifest.snapshot_id), content)


def _decide(layout: Layout, manifest: Manifest, state: str) -> None:
    snapshot = snapshots.read(layout.snapshot(manifest.snapshot_date, manifest.snapshot_id))
    moment = datetime.fromisoformat(manifest.finished_at)
    snapshots.decide(snapshot, state, by=snapshots.GUARDS, at=moment)
