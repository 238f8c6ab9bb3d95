"""Small whole nights for the torture tests: real pulling, landing, flattening and publishing.

Only the network is left out: answers come from a table in memory, made of the sandbox's world.
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
from assets.publishing import publish
from pipelines import night
from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import EdgeError, Unreachable
from pipelines.edge.requests import PREFIX, Call
from pipelines.edge.response.body import Body
from pipelines.edge.response.envelope import read_envelope
from pipelines.edge.sending.attempts import Reply
from pipelines.edge.sending.backoff import Persistence
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
    """A clock that goes one tick whenever it is looked at, so that every run sees the same."""

    moment: datetime

    def __call__(self) -> datetime:
        """The time it is."""
        self.moment += TICK
        return self.moment


@dataclass(frozen=True, slots=True)
class Prepared:
    """What answers instead of the API: bodies by request target."""

    answers: Answers

    def seconds_until_deadline(self) -> None:
        """No deadline."""

    def fetch_all(
        self, calls: Iterable[Call], _persistence: Persistence = Persistence.OPTIONAL
    ) -> Iterator[tuple[Call, Reply | EdgeError]]:
        """Every call with its answer, in order; what was not prepared fails."""
        for call in calls:
            raw = self.answers.get(call.target)
            if raw is None:
                yield call, Unreachable(f"GET {call.path}", "refused")
                continue
            body = Body()
            body.write(raw)
            envelope = read_envelope(raw, single=False)
            digest = hashlib.sha256(raw).hexdigest()
            yield (
                call,
                Reply(
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
    """The API's bodies on one day of a small world."""
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
    """When a night is taken, by its number from 0."""
    return FIRST + timedelta(days=number)


def nightbook(home: Path, now: Callable[[], datetime]) -> Nightbook:
    """The keeper of a home, without an API."""
    return Nightbook(lambda: {"NIGHTBOOK_HOME": str(home)}, now)


def land(layout: Layout, clock: Clock, given: Answers) -> Manifest:
    """Take one snapshot from prepared answers."""
    lock.sweep(layout)
    pulling = PendingSnapshot(layout, clock(), ZoneInfo("UTC"))
    client = cast("EdgeClient", Prepared(given))
    return Pull(client, pulling, Tally(silent, 0, "requests")).land_all(
        clock, "http://localhost", "0.0.0"
    )


def judged(home: Path, moment: datetime, given: Answers | None = None) -> Snapshot:
    """One night landed and judged, not yet published."""
    clock, layout = Clock(moment), Layout(home)
    manifest = land(layout, clock, answers(moment.date()) if given is None else given)
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    return night.finish(LakeManifests(layout), folder, clock())


def _unheard(*_: object, **__: object) -> None:
    """What is told to nobody."""


def run(home: Path, moment: datetime, given: Answers | None = None) -> Snapshot:
    """One night, as the nightly job takes it: land, mend what a dead run left, judge, publish."""
    clock = Clock(moment)
    keeper = nightbook(home, clock)
    layout = Layout(home)
    manifest = land(layout, clock, answers(moment.date()) if given is None else given)
    publish.recover(keeper, _unheard, but=manifest.snapshot_id)
    night.finish(
        LakeManifests(layout),
        layout.snapshot(manifest.snapshot_date, manifest.snapshot_id),
        clock(),
    )
    publish.refresh(keeper)
    return snapshots.find(layout, manifest.snapshot_id)
