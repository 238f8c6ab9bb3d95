"""Last good instruments of venues that gave none tonight: carried over, never a guess (3, 6).

A venue fails, or it answers with empty lists and status 200 where it had instruments: from
outside nobody can tell whether they are delisted or whether it is our access that is gone (4.1).
So what expired is left out, the rest is shown with its `stale_since`, and an emptiness that lasts
longer than `BELIEVED_AFTER` is believed.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest
from warehouse.contract.book import INSTRUMENTS
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import arrow_schema

# How long empty lists are answered with the rows of the last good night.
BELIEVED_AFTER = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class CarriedInstruments:
    """Rows by venue, with `stale_since`; and the venues that were not empty in the book before."""

    rows: dict[str, pa.Table] = field(default_factory=dict)
    emptied: tuple[str, ...] = ()


_OF_LISTS = ("feed_id", "venue_symbol", "base_asset", "term_asset", "created_at", "updated_at")

# Takes the venues that failed and those whose lists are empty; gives what is carried over.
Carry = Callable[[set[str], set[str]], CarriedInstruments]


def nothing(_failed: set[str], _empty: set[str]) -> CarriedInstruments:
    """Return where there is no night before."""
    return CarriedInstruments()


def from_last(layout: Layout, manifest: Manifest) -> Carry:
    """Return what the book before a snapshot has of such venues."""

    def carry(failed: set[str], empty: set[str]) -> CarriedInstruments:
        rows = _last_rows(layout, manifest, failed | empty)
        emptied = []
        # A venue that failed shows all it had; one that answered with nothing loses what expired,
        # and after a week all the rest.
        for venue in sorted(empty & rows.keys()):
            credible = _still_credible(rows[venue], manifest)
            if len(credible) and credible["stale_since"].null_count:
                emptied.append(venue)
            rows[venue] = credible
        dated = {venue: _set_date(each, manifest) for venue, each in rows.items() if len(each)}
        return CarriedInstruments(dated, tuple(emptied))

    return carry


def _last_rows(layout: Layout, manifest: Manifest, venues: set[str]) -> dict[str, pa.Table]:
    """Return the instruments of these venues in the book before, as they stand there."""
    path = _last_file(layout, manifest) if venues else None
    if path is None:
        return {}
    wanted = pa.array(sorted(venues), pa.string())
    with pq.ParquetFile(path) as file:
        column = file.read(columns=["venue_id"])["venue_id"]
        there = pc.is_in(column, wanted)
        if not pc.any(there).as_py():
            return {}
        rows = file.read(list(INSTRUMENTS.names)).filter(there)
    rows = rows.filter(_is_listed(rows))
    there = pc.unique(rows["venue_id"]).to_pylist()
    return {venue: rows.filter(pc.equal(rows["venue_id"], venue)) for venue in there}


def _is_listed(rows: pa.Table) -> pa.ChunkedArray:
    """Tell rows of a list from those that only a venue had: type and name, no more."""
    is_stated = [pc.is_valid(rows[name]) for name in _OF_LISTS]
    return functools.reduce(pc.or_, is_stated)


def _last_file(layout: Layout, manifest: Manifest) -> Path | None:
    """Return where it lies; None where it was pruned before this rebuild."""
    moment = datetime.fromisoformat(manifest.finished_at)
    landed = snapshots.landed_snapshots(layout)
    last = next(snapshots.accepted_before(landed, manifest.snapshot_id, moment), None)
    if last is None:
        return None
    placed = layout.parquet(INSTRUMENTS.name, last.snapshot_date, last.snapshot_id)
    places = (placed, layout.staged_file(INSTRUMENTS.name, last.snapshot_id))
    return next((path for path in places if path.is_file()), None)


def _still_credible(rows: pa.Table, manifest: Manifest) -> pa.Table:
    """Return what an empty list does not explain: neither expired, nor gone for long."""
    started = pa.scalar(datetime.fromisoformat(manifest.started_at), rows["expiration"].type)
    oldest = pa.scalar(manifest.snapshot_date - BELIEVED_AFTER, pa.date32())
    expired = pc.fill_null(pc.less_equal(rows["expiration"], started), fill_value=False)
    long_gone = pc.fill_null(pc.less(rows["stale_since"], oldest), fill_value=False)
    return rows.filter(pc.invert(pc.or_(expired, long_gone)))


def _set_date(rows: pa.Table, manifest: Manifest) -> pa.Table:
    since = pc.coalesce(rows["stale_since"], rows["snapshot_date"])
    day = pa.repeat(pa.scalar(manifest.snapshot_date, pa.date32()), len(rows))
    return _with(_with(rows, "snapshot_date", day), "stale_since", since)


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    schema = arrow_schema(INSTRUMENTS)
    return rows.set_column(rows.column_names.index(name), schema.field(name), values).cast(schema)
