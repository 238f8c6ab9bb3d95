"""Tests of rate limits and temporary failures: a night is complete if the deadline allows it."""

import random
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from pipelines import settings
from pipelines.edge.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    EdgeError,
    MalformedResponseError,
    ServerError,
)
from pipelines.edge.sending.retries import Event
from pipelines.landing.manifest import Manifest
from pipelines.pull import pull
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import DEMO_KEY, DEMO_SECRET
from tests.support.simulated_service import START, Simulation

REQUESTS = 28  # both lists twice, and both types of twelve venues
START_DAY = START.date()
MINUTE = 60.0
DEADLINE = 1800.0


def taken(home: Path, simulation: Simulation, events: list[Event] | None = None) -> Manifest:
    """Pull a night in simulated time, with the default settings."""
    access = {
        "NIGHTBOOK_API_URL": "http://127.0.0.1:1",
        "NIGHTBOOK_API_KEY": DEMO_KEY,
        "NIGHTBOOK_API_SECRET": DEMO_SECRET,
        "NIGHTBOOK_HOME": str(home),
    }
    with simulation.time.running():
        return pull.pull_snapshot(
            settings.read(access, api=True),
            simulation.time.now,
            "0",
            on_event=None if events is None else events.append,
            pause=simulation.time.sleep,
            connect=simulation.connect,
        )


def errors(manifest: Manifest) -> list[str]:
    """Return the venue and the error of each failed request."""
    return [f"{one.venue_id}: {one.error}" for one in manifest.answers if one.error is not None]


@pytest.mark.parametrize(("limit", "seconds"), [(8, 15), (4, 25), (2, 40), (1, 80)])
def test_a_rate_limit_delays_the_pull_but_loses_no_list(
    limit: int, seconds: int, tmp_path: Path
) -> None:
    """With a limit of 1 to 8 requests per second, all 28 requests succeed with little delay."""
    simulation = Simulation(choices=Choices(requests_per_second=limit))
    manifest = taken(tmp_path, simulation)
    assert errors(manifest) == []
    assert simulation.statuses(200) == REQUESTS
    assert simulation.statuses(429) <= 8 + REQUESTS // 10
    assert simulation.time.seconds < seconds


def once(answer: Callable[[], httpx.Response], path: str) -> Callable[..., httpx.Response | None]:
    """Return a `reach` function that responds only to the first request for a path."""
    done = list[str]()

    def reach(request: httpx.Request) -> httpx.Response | None:
        if path not in request.url.path or done:
            return None
        done.append(path)
        return answer()

    return reach


def told(seconds: object, status: int = 429, **headers: str) -> Callable[[], httpx.Response]:
    """Return a function that creates a refusal with a `Retry-After` header."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: httpx.Response(status, headers={"Retry-After": str(seconds), **named})


@pytest.mark.parametrize(
    ("seconds", "path", "status"),
    [
        (61, "/portfolios", 429),
        (300, "/portfolios", 503),
        (61, "/venues/kestrel/", 503),
        (1500, "/venues/kestrel/", 429),
    ],
)
def test_a_retry_after_header_pauses_every_request(
    seconds: int, path: str, status: int, tmp_path: Path
) -> None:
    """If the deadline allows it, all requests wait as long as `Retry-After` says, and succeed."""
    simulation = Simulation(reach=once(told(seconds, status), path))
    assert errors(taken(tmp_path, simulation)) == []
    [at] = [moment for moment, _, one in simulation.asked if one == status]
    under_way = 8 * simulation.latency
    assert not [one for one, *_ in simulation.asked if at + under_way < one < at + seconds]
    assert simulation.time.seconds < seconds + MINUTE


@pytest.mark.parametrize("seconds", ["999999999", "86400", "1801"])
def test_a_wait_beyond_the_deadline_fails_the_night_at_once(seconds: str, tmp_path: Path) -> None:
    """If the requested wait exceeds the deadline, the night fails at once and reports the wait."""
    simulation = Simulation(reach=lambda _: told(seconds)())
    with pytest.raises((DeadlineExceeded, ServerError)) as ended:
        taken(tmp_path, simulation)
    assert f"asked the client to wait {seconds} s" in str(ended.value)
    assert simulation.time.seconds < 1


def test_a_one_day_wait_fails_only_its_venue(tmp_path: Path) -> None:
    """If the lists of one venue respond with a wait of a day, only these two lists fail."""
    simulation = Simulation(faults=("429-day,path=/venues/kestrel/*",))
    failed = errors(taken(tmp_path, simulation))
    assert len(failed) == 2
    assert all(one.startswith("kestrel: ") for one in failed)
    assert simulation.time.seconds < MINUTE


@pytest.mark.parametrize(
    ("header", "counts_from"), [("RateLimit-Reset", "now"), ("X-RateLimit-Reset", "1970")]
)
def test_the_rate_limit_reset_header_gives_the_wait(
    header: str, counts_from: str, tmp_path: Path
) -> None:
    """Without `Retry-After`, the usual reset header gives the wait, in seconds or as Unix time."""
    simulation = Simulation()

    def reach(request: httpx.Request) -> httpx.Response | None:
        if simulation.time.seconds > 1:
            return None
        since = round(simulation.time.unix_ms() / 1000) if counts_from == "1970" else 0
        del request
        return httpx.Response(429, headers={header: str(since + 90)})

    simulation.reach = reach
    assert errors(taken(tmp_path, simulation)) == []
    assert 88 < simulation.asked[1][0] < 92


def test_a_permanent_rate_limit_slows_the_pull_down(tmp_path: Path) -> None:
    """If every response is 429 with `Retry-After: 1`, fewer than 100 requests are sent.

    The pull slows down to one request per half minute, and ends at the deadline.
    """
    simulation = Simulation(reach=lambda _: told(1)())
    with pytest.raises(EdgeError, match="NIGHTBOOK_DEADLINE"):
        taken(tmp_path, simulation)
    assert 20 < len(simulation.asked) < 100
    assert simulation.time.seconds <= DEADLINE


def test_a_slowdown_is_reported_but_not_for_each_request(tmp_path: Path) -> None:
    """A slowdown is reported as a `pace` event, but not as an error and not for each request."""
    events = list[Event]()
    taken(tmp_path, Simulation(choices=Choices(requests_per_second=1)), events)
    assert {event.kind for event in events} == {"pace"}
    assert len(events) <= 8


def reset(_request: httpx.Request) -> httpx.Response:
    """Fail as if the connection was reset."""
    raise httpx.ReadError("connection reset by peer")


def page(status: int) -> Callable[[httpx.Request], httpx.Response]:
    """Return a function that responds with a proxy's HTML page."""
    return lambda _: httpx.Response(status, html="<h1>Back soon</h1>")


TROUBLE: dict[str, Callable[[httpx.Request], httpx.Response]] = {
    "reset": reset,
    "503": page(503),
    "html": page(200),
    "cut": lambda _: httpx.Response(200, content=b'{"data":[{"id":'),
    "502 in its envelope": lambda _: httpx.Response(
        502, json={"errors": [{"error": "INTERNAL_SERVER_ERROR", "message": "m"}], "meta": {}}
    ),
}


@pytest.mark.torture
@pytest.mark.parametrize(
    ("minutes", "begins", "kind"),
    [
        *((10 / 60, begins, kind) for begins in (0.0, 0.1) for kind in TROUBLE),
        *((20, 0.0, kind) for kind in TROUBLE),
        *((10, 0.1, kind) for kind in ("reset", "html", "cut")),
    ],
)
def test_temporary_failures_lose_no_list(
    minutes: float, begins: float, kind: str, tmp_path: Path
) -> None:
    """All lists are read despite failures of 10 seconds to 20 minutes, from the start or later."""
    simulation, ends = Simulation(), begins + minutes * MINUTE

    def reach(request: httpx.Request) -> httpx.Response | None:
        in_trouble = begins <= simulation.time.seconds < ends
        return TROUBLE[kind](request) if in_trouble else None

    simulation.reach = reach
    assert errors(taken(tmp_path, simulation)) == []
    in_vain = len(simulation.asked) - REQUESTS
    assert in_vain < 16 + 2 * minutes
    assert simulation.time.seconds < ends + 2 * MINUTE + 5


@pytest.mark.parametrize(("dead", "kind"), [(1, "503"), (3, "503"), (3, "reset"), (1, "html")])
def test_venues_that_always_fail_do_not_delay_the_night(
    kind: str, dead: int, tmp_path: Path
) -> None:
    """Venues that always fail are given up within two minutes, because other venues respond."""
    venues = sorted(str(one["id"]) for one in Simulation().world.at(START_DAY).venues)[-dead:]
    simulation = Simulation(
        reach=lambda request: (
            TROUBLE[kind](request) if any(f"/{v}/" in request.url.path for v in venues) else None
        )
    )
    failed = errors(taken(tmp_path, simulation))
    assert {one.partition(":")[0] for one in failed} == set(venues)
    assert simulation.time.seconds < 2 * MINUTE


def test_a_changed_contract_gets_about_one_request_per_minute(tmp_path: Path) -> None:
    """If every response lacks `meta`, fewer than 60 requests are sent until the deadline.

    The error at the deadline names `meta`.
    """
    simulation = Simulation(reach=lambda _: httpx.Response(200, json={"data": []}))
    with pytest.raises((DeadlineExceeded, MalformedResponseError), match="meta"):
        taken(tmp_path, simulation)
    assert len(simulation.asked) < 60
    assert simulation.time.seconds <= DEADLINE


def test_a_service_that_is_down_is_retried_until_the_deadline(tmp_path: Path) -> None:
    """A service that is down gets about one request per minute until the deadline.

    The error contains the last failure.
    """
    simulation = Simulation(reach=reset)
    with pytest.raises((DeadlineExceeded, ConnectionFailed), match="connection reset by peer"):
        taken(tmp_path, simulation)
    assert 30 < len(simulation.asked) < 60
    assert 0.9 * DEADLINE < simulation.time.seconds <= DEADLINE


def test_repeated_outages_lose_no_list(tmp_path: Path) -> None:
    """All lists are read even if the service is down in about half of all half-minutes.

    It also allows only two requests per second.
    """
    draws = random.Random(3)
    down = {number for number in range(60) if draws.random() < 0.5}
    simulation = Simulation(choices=Choices(requests_per_second=2))

    def reach(request: httpx.Request) -> httpx.Response | None:
        return reset(request) if int(simulation.time.seconds / 30) in down else None

    simulation.reach = reach
    assert errors(taken(tmp_path, simulation)) == []
