"""The lake: staged Parquet is judged, and an accepted night becomes its date's book.

`lake/manifests/<snapshot_id>.json` has what was made of a snapshot: tables with their SHA-256,
and the facts for the guards. The book's files lie in `lake/<table>/snapshot_date=.../`, one per
date, so that any engine may read the folders; those of nights that are not a book stay staged.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines import amounts, flatten, guards, landing, snapshots
from pipelines.flatten import Part
from pipelines.guards import Facts
from pipelines.landing import Manifest
from pipelines.snapshots import Snapshot
from warehouse.contract import Table
from warehouse.layout import Layout, make_directory, read_json, sync_directory, write_json
from warehouse.ops import (
    CONTROL_TOTALS,
    DRIFT,
    INEXACT,
    LISTINGS,
    NIGHTLY,
    REJECTS,
    REQUESTS,
)
from warehouse.parquet import rows_batch, write
from warehouse.tables import BOOK, INSTRUMENTS

Row = dict[str, Any]
_MOMENTS = ("sent_at", "received_at")


@dataclass(frozen=True, slots=True)
class Shelf:
    """What a warehouse is to hold: books as (date, snapshot id, files), nightly files, rows."""

    books: tuple[tuple[date, str, Mapping[str, Path]], ...]
    nightly: Mapping[str, tuple[Path, ...]]
    snapshots: tuple[Row, ...]


def seal(layout: Layout, manifest: Manifest, parts: Mapping[str, Part]) -> None:
    """Write the night's own tables and then the lake's manifest of a flattened snapshot."""
    nightly = {
        table.name: asdict(_write_nightly(layout, manifest, table, rows))
        for table, rows in _nightly_rows(manifest, parts)
    }
    before = _facts_before(layout, manifest.snapshot_id)
    facts = _facts(layout, manifest, parts)
    facts |= {"drops": guards.drops(Facts.of(facts), before[-1] if before else None)}
    content = {
        "snapshot_id": manifest.snapshot_id,
        "snapshot_date": manifest.snapshot_date.isoformat(),
        "tables": parts["portfolios"]["tables"] | parts["venues"]["tables"],
        "nightly": nightly,
        "facts": facts,
        "money_rejects": [
            one["path"]
            for part in parts.values()
            for one in part["rejects"]
            if one["carries_money"]
        ],
        "differing_totals": [
            f"{one['table_name']} {one['measure']} {one['asset_id']} {one['bucket']}".strip()
            for part in parts.values()
            for one in part["totals"]
            if one["in_json"] != one["in_lake"]
        ],
        "counts": {name: len(rows) for name, rows in _noted(parts).items()},
    }
    write_json(layout.manifest(manifest.snapshot_id), content)


def judge(layout: Layout, manifest: Manifest, *, at: datetime) -> Snapshot:
    """Accept or hold a sealed snapshot by the guards, unless it was decided before."""
    snapshot = snapshots.find(layout, manifest.snapshot_id)
    if snapshot.decisions:
        return snapshot
    content = read_json(layout.manifest(manifest.snapshot_id))
    asked = flatten.whole_venues(manifest) | flatten.failed_venues(manifest)
    reasons = guards.judge(
        Facts.of(content["facts"]),
        _facts_before(layout, manifest.snapshot_id),
        money_rejects=content["money_rejects"],
        differing_totals=content["differing_totals"],
        venues=(len(flatten.failed_venues(manifest)), len(asked)),
        notices=manifest.notices,
    )
    state = snapshots.HELD if reasons else snapshots.ACCEPTED
    return snapshots.decide(snapshot, state, by=snapshots.GUARDS, at=at, reasons=reasons)


def settle(layout: Layout) -> None:
    """Make the lake's folders hold exactly the books: each date's newest accepted snapshot.

    Files move by rename between staged and placed, so this can be killed and run again.
    """
    books = {one.snapshot_id for one in snapshots.books(snapshots.landed(layout)).values()}
    for path in sorted(layout.manifests.glob("*.json")):
        content = read_json(path)
        day = date.fromisoformat(content["snapshot_date"])
        for table in BOOK:
            placed = layout.parquet(table.name, day, content["snapshot_id"])
            staged = layout.staged(table.name, content["snapshot_id"])
            if content["snapshot_id"] in books:
                _move(staged, placed)
            else:
                _move(placed, staged)
        with contextlib.suppress(OSError):
            layout.staged("", content["snapshot_id"]).parent.rmdir()


def _move(source: Path, target: Path) -> None:
    if source.is_file():
        make_directory(target.parent)
        source.replace(target)
        sync_directory(target.parent)
        sync_directory(source.parent)


def shelf(layout: Layout) -> Shelf:
    """Everything the warehouse is to hold, from manifests and decisions alone."""
    known = snapshots.landed(layout)
    books = snapshots.books(known)
    sealed = {path.stem: read_json(path) for path in layout.manifests.glob("*.json")}
    chosen = tuple(
        (day, one.snapshot_id, _files(layout, day, one.snapshot_id))
        for day, one in books.items()
        if one.snapshot_id in sealed
    )
    nightly = {
        table.name: tuple(
            layout.parquet(table.name, one.snapshot_date, one.snapshot_id)
            for one in known
            if one.snapshot_id in sealed
        )
        for table in NIGHTLY
    }
    is_book = {snapshot_id for _, snapshot_id, _ in chosen}
    rows = tuple(_snapshot_row(one, sealed.get(one.snapshot_id), is_book) for one in known)
    return Shelf(chosen, nightly, rows)


def _files(layout: Layout, day: date, snapshot_id: str) -> dict[str, Path]:
    return {table.name: layout.parquet(table.name, day, snapshot_id) for table in BOOK}


def carried(layout: Layout, manifest: Manifest) -> dict[str, pa.Table]:
    """Last good instruments of the venues that could not be read, with `stale_since` set."""
    failed = flatten.failed_venues(manifest)
    before = snapshots.book_before(snapshots.landed(layout), manifest.snapshot_id)
    if not failed or before is None:
        return {}
    path = layout.parquet(INSTRUMENTS.name, before.snapshot_date, before.snapshot_id)
    if not path.is_file():
        path = layout.staged(INSTRUMENTS.name, before.snapshot_id)
    rows = pq.read_table(path, schema=None, partitioning=None)
    rows = rows.filter(pc.is_in(rows["venue_id"], pa.array(sorted(failed), pa.string())))
    day = pa.scalar(manifest.snapshot_date, pa.date32())
    since = pc.coalesce(rows["stale_since"], rows["snapshot_date"])
    schema = rows.schema
    rows = rows.set_column(0, schema.field("snapshot_date"), pa.repeat(day, len(rows)))
    place = schema.get_field_index("stale_since")
    rows = rows.set_column(place, schema.field("stale_since"), since).cast(schema)
    return {
        venue: kept
        for venue in sorted(failed)
        if len(kept := rows.filter(pc.equal(rows["venue_id"], venue)))
    }


def _facts_before(layout: Layout, snapshot_id: str) -> list[Facts]:
    accepted = [
        one
        for one in snapshots.landed(layout)
        if one.state == snapshots.ACCEPTED and one.snapshot_id < snapshot_id
    ]
    paths = [layout.manifest(one.snapshot_id) for one in accepted]
    return [Facts.of(read_json(path)["facts"]) for path in paths if path.is_file()]


def _facts(layout: Layout, manifest: Manifest, parts: Mapping[str, Part]) -> Row:
    tables = parts["portfolios"]["tables"] | parts["venues"]["tables"]
    totals: dict[str, Decimal] = {}
    for one in parts["portfolios"]["totals"]:
        if one["measure"] == "sum":
            asset = one["asset_id"] + (" (custom)" if one["is_custom_asset"] else "")
            value = amounts.parse(one["in_lake"]) or Decimal(0)
            totals[asset] = amounts.EXACT.add(totals.get(asset, Decimal(0)), value)
    return {
        "counts": {name: one["rows"] for name, one in tables.items()},
        "totals": {asset: amounts.plain(total) for asset, total in totals.items()},
        "money": _money(layout, manifest.snapshot_id),
        "drops": {},
    }


def _money(layout: Layout, snapshot_id: str) -> dict[str, bool]:
    """Every portfolio, and whether any of its amounts is not zero."""
    portfolios = pq.read_table(layout.staged("portfolios", snapshot_id), columns=["portfolio_id"])
    has = dict.fromkeys(portfolios["portfolio_id"].to_pylist(), False)
    zero = pa.scalar(Decimal(0), amounts.TYPE)
    with pq.ParquetFile(layout.staged("balances", snapshot_id)) as file:
        for batch in file.iter_batches(columns=["portfolio_id", "amount"]):
            some = pc.fill_null(pc.not_equal(batch["amount"], zero), fill_value=True)
            holders = pc.unique(batch["portfolio_id"].filter(some))
            has.update(dict.fromkeys(holders.to_pylist(), True))
    return has


def _noted(parts: Mapping[str, Part]) -> dict[str, list[Any]]:
    names = ("rejects", "inexact", "drift")
    return {name: [one for part in parts.values() for one in part[name]] for name in names}


def _nightly_rows(manifest: Manifest, parts: Mapping[str, Part]) -> list[tuple[Table, list[Row]]]:
    noted = _noted(parts)
    keys = ("venue_id", "instrument_id", "missing_from")
    listings = [dict(zip(keys, row, strict=True)) for row in parts["venues"]["listings"]]
    totals = [one | {"in_warehouse": None} for part in parts.values() for one in part["totals"]]
    requests = [_request(asdict(answer)) for answer in manifest.answers]
    return [
        (REQUESTS, requests),
        (REJECTS, noted["rejects"]),
        (INEXACT, noted["inexact"]),
        (DRIFT, noted["drift"]),
        (LISTINGS, listings),
        (CONTROL_TOTALS, totals),
    ]


def _request(answer: Row) -> Row:
    times = {
        name: None if answer[name] is None else datetime.fromisoformat(answer[name])
        for name in _MOMENTS
    }
    return answer | times


def _write_nightly(layout: Layout, manifest: Manifest, table: Table, rows: list[Row]) -> Any:
    key = {"snapshot_date": manifest.snapshot_date, "snapshot_id": manifest.snapshot_id}
    batch = rows_batch(table, [key | row for row in rows])
    path = layout.parquet(table.name, manifest.snapshot_date, manifest.snapshot_id)
    return write(table, [batch], path)


def _snapshot_row(snapshot: Snapshot, sealed: Row | None, is_book: set[str]) -> Row:
    manifest = landing.load(snapshot.folder)
    decision = snapshot.decision
    counts = {} if sealed is None else sealed["facts"]["counts"]
    noted = {} if sealed is None else sealed["counts"]
    return {
        "snapshot_date": snapshot.snapshot_date,
        "snapshot_id": snapshot.snapshot_id,
        "state": snapshot.state,
        "is_book": snapshot.snapshot_id in is_book,
        "started_at": datetime.fromisoformat(manifest.started_at),
        "finished_at": datetime.fromisoformat(manifest.finished_at),
        "decided_by": decision.by if decision else None,
        "decided_at": datetime.fromisoformat(decision.at) if decision else None,
        "reason": "; ".join(decision.reasons) if decision else "",
        "request_count": len(manifest.answers),
        "failed_request_count": sum(1 for answer in manifest.answers if answer.file is None),
        "byte_count": sum(answer.byte_count or 0 for answer in manifest.answers),
        "portfolio_count": counts.get("portfolios"),
        "account_count": counts.get("accounts"),
        "balance_count": counts.get("balances"),
        "venue_count": counts.get("venues"),
        "instrument_count": counts.get("instruments"),
        "reject_count": noted.get("rejects"),
        "inexact_count": noted.get("inexact"),
        "drift_count": noted.get("drift"),
        "clock_skew_ms": manifest.clock_skew_ms,
    }
