"""A small API with changeable answers: the changes that a year of a beta may bring.

A change is a function that alters the `Answers` of a night. The answers are landed as in a pull,
including hints that a list is incomplete. Then they are flattened, judged and settled. No network
is used.
"""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from pipelines import night
from pipelines.edge.response.envelope import read_envelope
from pipelines.edge.response.wholeness import find_truncation_hints
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import zone
from pipelines.landing.manifest import RequestRecord
from pipelines.landing.notices import NoticeCounter
from pipelines.landing.snapshots import Snapshot
from tests.support import nights
from warehouse.storage.layout import Layout

Json = dict[str, Any]
TIMES = {"createdAt": "2024-01-01T00:00:00Z", "updatedAt": "2026-11-01T00:00:00Z"}
VENUES = [f"venue{number:02}" for number in range(1, 13)]
ASSETS = ["BTC", "ETH", "SOL", "USDC", "EUR", "DOGE"]
PORTFOLIOS = 4


@dataclass(slots=True)
class Answers:
    """The API's answers of one night, before they are JSON. `number` counts the nights from 0.

    `meta`, `envelope` and `headers` are part of every answer, or of the one operation in `only`.
    `instruments` are by venue. A venue in `failed` does not return its instruments.
    """

    number: int = 0
    portfolios: list[Any] = field(default_factory=list)
    venues: list[Any] = field(default_factory=list)
    instruments: dict[str, list[Any]] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    meta: Json = field(default_factory=dict)
    envelope: Json = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    only: str = ""

    def positions(self) -> Iterator[Json]:
        """Return every position."""
        return (one for portfolio in self.portfolios for one in portfolio["positions"])

    def accounts(self, venue: str = "", asset: str = "") -> Iterator[Json]:
        """Yield every account, or only those at a venue or of an asset."""
        for position in self.positions():
            for account in position["accounts"]:
                if venue in ("", account["venueId"]) and asset in ("", position["assetId"]):
                    yield account

    def parts(self) -> Iterator[Json]:
        """Return every part of every balance."""
        return (part for account in self.accounts() for part in account["balance"].values())


Change = Callable[[Answers], None]


def ordinary(number: int) -> Answers:
    """Return the answers of a night. Amounts move a little from night to night."""
    portfolios = [_portfolio(place, number) for place in range(PORTFOLIOS)]
    venues = [
        {
            "id": venue,
            "resource": "venue",
            "type": ["exchange"],
            "displayName": venue.title(),
            "tradingStatus": "trading",
            **TIMES,
        }
        for venue in VENUES
    ]
    instruments = {venue: [_instrument(venue, asset) for asset in ASSETS[:3]] for venue in VENUES}
    return Answers(number, portfolios, venues, instruments)


def _portfolio(place: int, number: int) -> Json:
    positions = []
    for index, asset in enumerate(ASSETS):
        accounts = [
            {
                "venueId": VENUES[(place + index + step) % len(VENUES)],
                "name": f"main{step}",
                "balance": {
                    "trading": {
                        "free": f"{1000 + 17 * place + 3 * index + number}.25",
                        "locked": "1",
                    },
                    "custody": {"free": f"{50 + place + index}", "locked": "2.5"},
                },
            }
            for step in range(2)
        ]
        positions.append({"assetId": asset, "isCustomAsset": False, "accounts": accounts})
    return {
        "id": f"00000000-0000-4000-8000-{place:012}",
        "resource": "portfolio",
        "name": f"Fund {place}",
        "integrations": [],
        "positions": positions,
        **TIMES,
    }


def _instrument(venue: str, asset: str) -> Json:
    return {
        "id": f"{venue}-{asset.lower()}-usd",
        "resource": "instrument",
        "type": "spot",
        "displayName": f"{asset}/USD",
        "feedId": f"{asset}.{venue}",
        "venueSymbol": f"{asset}USD",
        "baseAsset": asset,
        "termAsset": "USD",
        **TIMES,
    }


def taken(layout: Layout, answers: Answers, started: datetime) -> Snapshot:
    """Land, flatten, judge and settle a night with these answers."""
    pulling = zone.PendingSnapshot(layout, started, ZoneInfo("UTC"))
    noticing, landed = NoticeCounter(), list[RequestRecord]()

    def add(operation: str, records: Any, venue: str | None = None, query: str = "") -> None:
        is_meant = answers.only in ("", operation)
        body = {"data": records, "meta": answers.meta if is_meant else {}}
        body |= answers.envelope if is_meant else {}
        content = json.dumps(body).encode()
        envelope = read_envelope(content, single=False)
        headers = answers.headers if is_meant else {}
        hints = find_truncation_hints(envelope, headers, operation.partition("_")[2])
        noticing.note(operation, hints)
        record = nights.land_answer(
            pulling, len(landed) + 1, operation, content, query=query, venue_id=venue
        )
        landed.append(record)

    add("list_portfolios", answers.portfolios, query="include=integrations")
    add("list_venues", _embedding(answers), query="include=instruments")
    for venue, instruments in answers.instruments.items():
        if venue in answers.failed:
            number = len(landed) + 1
            record = nights.land_answer(
                pulling, number, "list_instruments", b"", query="type=spot", venue_id=venue
            )
            landed.append(record)
        else:
            add("list_instruments", instruments, venue, "type=spot")
    manifest = pulling.finish(
        started,
        tuple(landed),
        origin="http://127.0.0.1",
        program_version="0",
        clock_skew_ms=None,
        signs=noticing.all(),
    )
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    return night.finish(LakeManifests(layout), folder, started)


def _embedding(answers: Answers) -> list[Any]:
    return [
        {
            **venue,
            "instruments": [
                {name: one.get(name) for name in ("id", "type", "displayName")}
                for one in answers.instruments.get(venue.get("id", ""), ())
                if isinstance(one, dict)
            ],
        }
        if isinstance(venue, dict)
        else venue
        for venue in answers.venues
    ]


def changed(number: int, change: Change) -> Answers:
    """Return the answers of a night with a change."""
    answers = copy.deepcopy(ordinary(number))
    change(answers)
    return answers


STARTED = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
