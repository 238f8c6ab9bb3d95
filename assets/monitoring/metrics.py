"""Metrics as Prometheus text, in a file for the node exporter's textfile collector: no server.

The file is `<home>/metrics/nightbook.prom`, written aside and renamed, 0640: give the exporter's
user the group of the home.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from assets.console.version import program_version
from assets.monitoring.dates import next_night
from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from warehouse.query.read import run as ask
from warehouse.storage.layout import Layout, written_aside

Sample = tuple[Mapping[str, str], float | int]
COUNTS = ("portfolio", "account", "balance", "venue", "instrument", "reject", "inexact", "drift")


def write(nightbook: Nightbook) -> Path:
    """Write the file anew; returns its path."""
    path = nightbook.layout.home / "metrics" / "nightbook.prom"
    with written_aside(path) as file:
        file.write(text(nightbook).encode())
    return path


def text(nightbook: Nightbook) -> str:
    """Every metric, with its help and type (Prometheus text format 0.0.4)."""
    lines: list[str] = []
    for name, words, samples in _all(nightbook):
        lines += [f"# HELP nightbook_{name} {words}", f"# TYPE nightbook_{name} gauge"]
        lines += [f"nightbook_{name}{_labels(labels)} {value}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{name}="{_escape(value)}"' for name, value in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _all(nightbook: Nightbook) -> Iterator[tuple[str, str, Sequence[Sample]]]:
    layout, now = nightbook.layout, nightbook.now()
    known = snapshots.landed_snapshots(layout)
    yield "info", "The program.", [({"version": program_version()}, 1)]
    yield "written_timestamp_seconds", "When this file was written.", _one(now.timestamp())
    tick = next_night(nightbook).timestamp()
    yield "next_night_timestamp_seconds", "When the next night is due.", _one(tick)
    yield "free_bytes", "Room left where the home is.", _one(shutil.disk_usage(layout.home).free)
    for state in (snapshots.COMPLETE, snapshots.ACCEPTED, snapshots.HELD, snapshots.REJECTED):
        found = sum(snapshot.state == state for snapshot in known)
        yield f"snapshots_{state}", f"Landed snapshots that are {state}.", _one(found)
    if layout.database.exists():
        yield from _warehouse_samples(layout)


def _warehouse_samples(layout: Layout) -> Iterator[tuple[str, str, Sequence[Sample]]]:
    yield "warehouse_bytes", "Size of the warehouse file.", _one(layout.database.stat().st_size)
    for name, words, query in (
        ("gaps", "Dates without a book.", "from ops.gaps where reason <> 'pruned'"),
        ("checks_failed", "Failed checks of the newest book.", "from ops.checks where not passed"),
        ("findings", "Findings in the newest book.", "from findings"),
    ):
        yield name, words, _one(_rows(layout, f"select count(*) {query}")[0][0])
    yield from _newest(layout)


def _newest(layout: Layout) -> Iterator[tuple[str, str, Sequence[Sample]]]:
    """Of the newest book: when it was read, for how long, how much, and how far the clock was."""
    rows = _rows(
        layout,
        "select * from ops.snapshots where is_book order by snapshot_id desc limit 1",
    )
    if not rows:
        return
    names = ask(layout.database, "select * from ops.snapshots limit 0").columns
    book = dict(zip(names, rows[0], strict=True))
    started, finished = _seconds(book["started_at"]), _seconds(book["finished_at"])
    yield "book_timestamp_seconds", "When the newest book was read.", _one(started)
    yield "pull_seconds", "How long its reading took.", _one(round(finished - started, 6))
    yield "requests", "Requests it took.", _one(book["request_count"])
    yield "requests_failed", "Requests given up.", _one(book["failed_request_count"])
    yield "received_bytes", "Bytes received for it, decoded.", _one(book["byte_count"])
    skew = (book["clock_skew_ms"] or 0) / 1000
    yield "clock_skew_seconds", "How far this clock was behind the API's.", _one(skew)
    samples = [({"what": count}, book[f"{count}_count"] or 0) for count in COUNTS]
    yield "records", "Records of the newest book, by what they are.", samples
    stale = _rows(
        layout, "select count(distinct venue_id) from instruments where stale_since is not null"
    )
    yield "stale_venues", "Venues whose instruments are carried over.", _one(stale[0][0])


def _one(value: float) -> list[Sample]:
    return [({}, value)]


def _seconds(moment: datetime) -> float:
    return moment.astimezone(UTC).timestamp()


def _rows(layout: Layout, query: str) -> tuple[tuple[Any, ...], ...]:
    return ask(layout.database, query).rows
