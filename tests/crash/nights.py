"""Small whole nights for the torture tests: real pulling, landing, flattening and publishing.

Only the network is replaced: responses come from a table in memory, built from the sandbox's world.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

from assets.nightbook import Nightbook
from assets.publishing import publish, repair
from pipelines import night
from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import ConnectionFailed, EdgeError
from pipelines.edge.requests import PREFIX, Call
from pipelines.edge.response.body import Body
from pipelines.edge.response.envelope import read_envelope
from pipelines.edge.sending.exchange import ApiResponse
from pipelines.edge.sending.retries import RetryMode
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import lock, snapshots
from pipelines.landing.manifest import Manifest
from pipelines.landing.snapshots import Snapshot
from pipelines.landing.zone import PendingSnapshot
from pipelines.pull.pull import Pull
from pipelines.sandbox.world.world import LivingWorld
from warehouse.progress import Tally, silent
from warehouse.storage.layout import Layout

FIRST = datetime(2026, 11, 18, 2, 15, tzinfo=UTC)
TICK = timedelta(milliseconds=1)
PORTFOLIOS, POSITIONS, VENUES, INSTRUMENTS = 3, 4, 2, 4
EMBEDDED = ("id", "type", "displayName")
Answers = Mapping[str, bytes]


@dataclass(slots=True)
class Clock:
    """A clock that advances one tick whenever it is read, so that every run sees the same times."""

    moment: datetime

    def __call__(self) -> datetime:
        """Advance one tick, and return the time."""
        self.moment += TICK
        return self.moment


@dataclass(frozen=True, slots=True)
class Prepared:
    """A client that responds instead of the API, with prepared bodies by request target."""

    answers: Answers

    def seconds_until_deadline(self) -> None:
        """Return None, because there is no deadline."""

    def fetch_all(
        self, calls: Iterable[Call], _mode: RetryMode = RetryMode.OPTIONAL
    ) -> Iterator[tuple[Call, ApiResponse | EdgeError]]:
        """Yield every call with its response, in order. Calls without a prepared body fail."""
        for call in calls:
            raw = self.answers.get(call.target)
            if raw is None:
                yield call, ConnectionFailed(f"GET {call.path}", "refused")
                continue
            body = Body()
            body.write(raw)
            envelope = read_envelope(raw, single=False)
            digest = hashlib.sha256(raw).hexdigest()
            yield (
                call,
                ApiResponse(
                    call=call,
                    status=200,
                    sent_at=FIRST,
                    received_at=FIRST,
                    attempts=1,
                    size=len(raw),
                    sha256=digest,
                    body=body,
                    envelope=envelope,
                    skew_ms=None,
                ),
            )


@functools.cache
def answers(day: date, portfolios: int = PORTFOLIOS) -> Answers:
    """Return the API's bodies on one day of a small world."""
    world = LivingWorld().at(day)
    listed = dict(world.instruments or {})
    venues = world.venues[:VENUES]
    made: dict[str, Any] = {
        f"{PREFIX}/portfolios?include=integrations": [
            one | {"positions": one["positions"][:POSITIONS]}
            for one in world.portfolios[:portfolios]
        ],
        f"{PREFIX}/venues?include=instruments": [
            venue | {"instruments": [_embedded(one) for one in listed[venue["id"]][:INSTRUMENTS]]}
            for venue in venues
        ],
    }
    for venue in venues:
        for kind in ("spot", "future"):
            made[f"{PREFIX}/venues/{venue['id']}/instruments?type={kind}"] = [
                one for one in listed[venue["id"]][:INSTRUMENTS] if one["type"] == kind
            ]
    made |= {target.partition("?")[0]: data for target, data in made.items() if "include" in target}
    return {
        target: json.dumps({"data": data, "meta": {}}).encode() for target, data in made.items()
    }


def _embedded(instrument: Mapping[str, Any]) -> dict[str, Any]:
    return {name: instrument[name] for name in EMBEDDED}


def at(number: int) -> datetime:
    """Return the time of a night by its number, which starts at 0."""
    return FIRST + timedelta(days=number)


def nightbook(home: Path, now: Callable[[], datetime]) -> Nightbook:
    """Return the settings and the clock of a home without an API."""
    return Nightbook(lambda: {"NIGHTBOOK_HOME": str(home)}, now)


def land(layout: Layout, clock: Clock, given: Answers) -> Manifest:
    """Land one snapshot from prepared responses."""
    lock.sweep(layout)
    pulling = PendingSnapshot(layout, clock(), ZoneInfo("UTC"))
    client = cast("EdgeClient", Prepared(given))
    return Pull(client, pulling, Tally(silent, 0, "requests")).land_all(
        clock, "http://localhost", "0.0.0"
    )


def judged(home: Path, moment: datetime, given: Answers | None = None) -> Snapshot:
    """Land and judge one night, but do not publish it."""
    clock, layout = Clock(moment), Layout(home)
    manifest = land(layout, clock, answers(moment.date()) if given is None else given)
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    return night.finish(LakeManifests(layout), folder, clock())


def _unheard(*_: object, **__: object) -> None:
    """Ignore an event."""


def run(home: Path, moment: datetime, given: Answers | None = None) -> Snapshot:
    """Run a night like the nightly job: land, recover from dead runs, judge and publish."""
    clock = Clock(moment)
    keeper = nightbook(home, clock)
    layout = Layout(home)
    manifest = land(layout, clock, answers(moment.date()) if given is None else given)
    repair.before_night(keeper, _unheard, but=manifest.snapshot_id)
    night.finish(
        LakeManifests(layout),
        layout.snapshot(manifest.snapshot_date, manifest.snapshot_id),
        clock(),
    )
    publish.refresh(keeper)
    return snapshots.find(layout, manifest.snapshot_id)
