"""Nights for tests: bodies that are landed without a network, flattened and read as rows."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pyarrow.parquet as pq

from pipelines import night
from pipelines.flatten import flatten
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import zone as landing
from pipelines.landing.manifest import Manifest, RequestRecord
from pipelines.landing.snapshots import Snapshot
from pipelines.sandbox.world.world import World
from warehouse.contract.book import BOOK
from warehouse.storage.layout import Layout

STARTED = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
Rows = dict[str, list[dict[str, Any]]]
Part = dict[str, Any]


def body(records: Any) -> bytes:
    """Return the body of a list response. If `records` are bytes, they become `data` unchanged."""
    data = records if isinstance(records, bytes) else json.dumps(records).encode()
    return b'{"data":' + data + b',"meta":{}}'


@dataclass(slots=True)
class Book:
    """The API's responses in one night. Each list is a JSON value, or the bytes of a JSON list.

    The keys of `instruments` are venue and type (`None` for the list without a type). The requests
    for the instruments of a venue in `failed` fail.
    """

    portfolios: Any = field(default_factory=list)
    venues: Any = field(default_factory=list)
    instruments: Mapping[Any, Any] = field(default_factory=dict)
    failed: frozenset[str] = frozenset()


def small(amount: str = "1") -> Book:
    """Return a book with one portfolio, position, account, amount and venue."""
    times = dict.fromkeys(["createdAt", "updatedAt"], "2024-01-01T00:00:00Z")
    account = {"venueId": "v1", "name": "main", "balance": {"margin": {"locked": amount}}}
    position = {"assetId": "BTC", "isCustomAsset": False, "accounts": [account]}
    words = {"displayName": "Venue", "tradingStatus": "trading", "type": ["otc"]}
    return Book(
        [{"id": "p1", "resource": "portfolio", "name": "P", "positions": [position], **times}],
        [{"id": "v1", "resource": "venue", **words, **times}],
    )


def land(
    layout: Layout,
    book: Book,
    started: datetime = STARTED,
    zone: str = "UTC",
    origin: str = "http://127.0.0.1",
) -> Manifest:
    """Land a night as a pull does."""
    pulling = landing.PendingSnapshot(layout, started, ZoneInfo(zone))
    answers = [
        land_answer(
            pulling, 1, "list_portfolios", body(book.portfolios), query="include=integrations"
        ),
        land_answer(pulling, 2, "list_venues", body(book.venues), query="include=instruments"),
    ]
    asked = [(key, body(records)) for key, records in book.instruments.items()]
    asked += [((venue, kind), b"") for venue in sorted(book.failed) for kind in ("spot", "future")]
    for number, ((venue, kind), content) in enumerate(asked, 3):
        query = f"type={kind}" if kind else ""
        answers.append(
            land_answer(pulling, number, "list_instruments", content, query=query, venue_id=venue)
        )
    return pulling.finish(
        started,
        tuple(answers),
        origin=origin,
        program_version="0",
        clock_skew_ms=None,
    )


def land_answer(
    pulling: landing.PendingSnapshot,
    number: int,
    operation: str,
    content: bytes,
    *,
    query: str,
    venue_id: str | None = None,
) -> RequestRecord:
    """Land a response and return its request record. If the body is empty, the request failed."""
    name = pulling.land(f"{number:04}-body", content) if content else None
    return RequestRecord(
        request_no=number,
        operation=operation,
        venue_id=venue_id,
        path="/",
        query=query,
        status=200 if content else 500,
        attempts=1,
        sent_at=None,
        received_at=None,
        byte_count=len(content) if content else None,
        sha256=hashlib.sha256(content).hexdigest() if content else None,
        file=name,
        error=None if content else "it failed",
    )


def staged(layout: Layout, manifest: Manifest) -> tuple[Rows, dict[str, Part]]:
    """Flatten a landed night. Return the rows of all eight tables, and the staged parts."""
    parts = {
        "portfolios": as_json(flatten.flatten_portfolios(layout, manifest)),
        "venues": as_json(flatten.flatten_venues(layout, manifest)),
    }
    return read(layout, manifest), parts


def as_json(part: object) -> Part:
    """Return a staged part as the JSON content of its file."""
    content: Part = json.loads(msgspec.json.encode(part))
    return content


def read(layout: Layout, manifest: Manifest) -> Rows:
    """Return the staged rows of all eight tables."""
    return {
        table.name: rows_of(layout.staged_file(table.name, manifest.snapshot_id)) for table in BOOK
    }


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a Parquet file, in order."""
    with pq.ParquetFile(path) as file:
        rows: list[dict[str, Any]] = file.read().to_pylist()
    return rows


def differing(parts: Mapping[str, Part]) -> list[dict[str, Any]]:
    """Return the control totals that differ between the JSON and the lake."""
    return [
        one for part in parts.values() for one in part["totals"] if one["in_json"] != one["in_lake"]
    ]


def noted(parts: Mapping[str, Part], what: str) -> list[dict[str, Any]]:
    """Return the rejects, inexact or drift of both parts. A reject's reason is its message."""
    found = [one for part in parts.values() for one in part[what]]
    return [one | {"reason": one["defect"]["message"]} if "defect" in one else one for one in found]


def of_world(world: World) -> Book:
    """Return the API's responses for a day of the sandbox's world."""
    listed = {
        (venue, kind): [one for one in several if one["type"] == kind]
        for venue, several in (world.instruments or {}).items()
        for kind in ("spot", "future")
    }
    embedded = [
        {**venue, "instruments": [_embedded(one) for one in (world.instruments or {})[venue["id"]]]}
        for venue in world.venues
    ]
    return Book(list(world.portfolios), embedded, listed)


def _embedded(instrument: Mapping[str, Any]) -> dict[str, Any]:
    return {name: instrument[name] for name in ("id", "type", "displayName")}


def take(layout: Layout, book: Book, started: datetime = STARTED) -> Snapshot:
    """Create a whole night: land, flatten, seal, judge and settle it."""
    manifest = land(layout, book, started)
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    return night.finish(LakeManifests(layout), folder, started)
