"""Metrics for Prometheus, and the heartbeat after a night."""

import shutil
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from assets.console.invocation import program_version
from assets.home.demo import is_demo
from assets.monitoring.alerts import do_once
from assets.monitoring.switches import next_night
from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from pipelines.landing.fingerprint import newest_fingerprint
from pipelines.landing.night_folders import snapshot_time
from warehouse.contract import states
from warehouse.query.read import keep_open
from warehouse.query.read import run as ask
from warehouse.storage.layout import Layout, written_aside

TIMEOUT = 10.0
MAX_HEARTBEAT_AGE = timedelta(hours=20)
COUNTS = ("portfolio", "account", "balance", "venue", "instrument", "reject", "inexact", "drift")
# Metrics that count rows in the published warehouse.
QUERIES = (
    ("gaps", "Dates without a book.", "from ops.gaps where reason <> 'pruned'"),
    ("checks_failed", "Failed checks of the newest book.", "from ops.checks where not passed"),
    ("findings", "Findings in the newest book.", "from findings"),
)

PLACE = "{fingerprint}"

Get = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Metric:
    """One sample of a metric. Samples of the same metric differ in `label`, like what="venue"."""

    name: str
    description: str
    value: float
    label: tuple[str, str] | None = None

    def __str__(self) -> str:
        """Format the sample as a line in the metrics file."""
        label = f'{{{self.label[0]}="{self.label[1]}"}}' if self.label else ""
        return f"nightbook_{self.name}{label} {self.value}"


def write(nightbook: Nightbook) -> Path:
    """Write the metrics file and return its path."""
    path = nightbook.layout.home / "metrics" / "nightbook.prom"
    with written_aside(path) as file:
        file.write(render(nightbook).encode())
    return path


def render(nightbook: Nightbook) -> str:
    """Format all metrics with help and type, in version 0.0.4 of the Prometheus text format."""
    lines: list[str] = []
    for metric in _metrics(nightbook):
        head = f"# HELP nightbook_{metric.name} {metric.description}"
        if head not in lines:
            lines += [head, f"# TYPE nightbook_{metric.name} gauge"]
        lines.append(str(metric))
    return "\n".join(lines) + "\n"


def request_heartbeat(url: str, text: str) -> bool:
    """Send a heartbeat with a text, and return whether it succeeded. Errors are not raised.

    The text is the body of a POST request. If the URL contains `{fingerprint}`, or the monitor
    does not accept POST requests, a GET request is sent.
    """
    if PLACE in url:
        return _is_accepted(url.replace(PLACE, text.rsplit(maxsplit=1)[-1]))
    return _is_accepted(url, text.encode()) or _is_accepted(url)


def _is_accepted(url: str, body: bytes | None = None) -> bool:
    request = urllib.request.Request(url, body, {"Content-Type": "text/plain"})  # noqa: S310 - settings: http(s)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as response:  # noqa: S310 - settings: http(s)
            return bool(response.status < 300)  # noqa: PLR2004 - 2xx is success
    except (OSError, ValueError):
        return False


def send_heartbeat(nightbook: Nightbook, get: Get = request_heartbeat) -> bool | None:
    """Send a heartbeat for a new book. Return None if there is no new book.

    Its text is the book's date, its snapshot ID and the fingerprint, so that the monitor keeps the
    fingerprint with its own time.
    """
    url, layout = nightbook.settings().heartbeat, nightbook.layout
    if url is None or is_demo(layout) or (book := fresh_book(nightbook)) is None:
        return None
    day, snapshot_id = book
    text = f"{day} {snapshot_id} {newest_fingerprint(layout) or ''}".strip()
    now = nightbook.now().isoformat()
    return do_once(layout, f"heartbeat:{snapshot_id}", now, lambda: get(url, text))


def fresh_book(nightbook: Nightbook) -> tuple[date, str] | None:
    """Return the date and ID of the newest published book, or None if it is not recent.

    Rebuilding old nights does not show that the schedule works, and is not news.
    """
    if not nightbook.layout.database.exists():
        return None
    query = "snapshot_date, snapshot_id from ops.snapshots where is_book order by 2 desc limit 1"
    for day, snapshot_id in ask(nightbook.layout.database, f"select {query}").rows:
        if nightbook.now() - snapshot_time(snapshot_id) <= MAX_HEARTBEAT_AGE:
            return day, snapshot_id
    return None


def _metrics(nightbook: Nightbook) -> Iterator[Metric]:
    layout, nights = nightbook.layout, snapshots.landed_snapshots(nightbook.layout)
    yield Metric("info", "The program.", 1, ("version", program_version()))
    now, due = nightbook.now().timestamp(), next_night(nightbook).timestamp()
    yield Metric("written_timestamp_seconds", "Time when this file was written.", now)
    yield Metric("next_night_timestamp_seconds", "Time when the next night is due.", due)
    free = shutil.disk_usage(layout.home).free
    yield Metric("free_bytes", "Free space on the home's disk.", free)
    for state in (states.COMPLETE, states.ACCEPTED, states.HELD, states.REJECTED):
        count = sum(night.state == state for night in nights)
        yield Metric(f"snapshots_{state}", f"Landed snapshots that are {state}.", count)
    if layout.database.exists():
        size = layout.database.stat().st_size
        yield Metric("warehouse_bytes", "Size of the warehouse file.", size)
        with keep_open(layout.database):
            for name, description, query in QUERIES:
                yield Metric(name, description, _count(layout, f"select count(*) {query}"))
            yield from _newest(layout)


def _newest(layout: Layout) -> Iterator[Metric]:
    """Yield the newest book's metrics, such as its time, duration, size and clock skew."""
    query = "from ops.snapshots where is_book order by snapshot_id desc limit 1"
    answer = ask(layout.database, query)
    for row in answer.rows:
        book: dict[str, Any] = dict(zip(answer.columns, row, strict=True))
        started, finished = book["started_at"].timestamp(), book["finished_at"].timestamp()
        seconds, skew = round(finished - started, 6), (book["clock_skew_ms"] or 0) / 1000
        yield Metric("book_timestamp_seconds", "Start of the newest book's run.", started)
        yield Metric("pull_seconds", "Duration of the newest book's run.", seconds)
        yield Metric(
            "requests", "Number of requests in the newest book's run.", book["request_count"]
        )
        yield Metric("requests_failed", "Requests that failed.", book["failed_request_count"])
        yield Metric(
            "received_bytes", "Decoded bytes received for the newest book.", book["byte_count"]
        )
        yield Metric(
            "clock_skew_seconds",
            "Seconds by which this machine's clock is behind the API's clock.",
            skew,
        )
        for count in COUNTS:
            records = book[f"{count}_count"] or 0
            description = "Records in the newest book, by kind."
            yield Metric("records", description, records, ("what", count))
        stale = "select count(distinct venue_id) from instruments where stale_since is not null"
        description = "Venues whose instruments are carried over from an earlier night."
        yield Metric("stale_venues", description, _count(layout, stale))


def _count(layout: Layout, query: str) -> int:
    return int(ask(layout.database, query).rows[0][0])
