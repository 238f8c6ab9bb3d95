"""Instruments that are carried over from the last book, if tonight's list is missing."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest
from warehouse.contract.book import INSTRUMENTS
from warehouse.sql.files import open_files
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import arrow_schema

# If a venue's instrument list is suddenly empty, keep its last known instruments for this long.
BELIEVED_AFTER = timedelta(days=7)


_CARRIED = Path(__file__).with_name("carried_instruments.sql").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class CarriedInstruments:
    """Instrument rows carried over from the last book, and the venues whose lists became empty."""

    rows: dict[str, pa.Table] = field(default_factory=dict)
    emptied: tuple[str, ...] = ()


# A function with two arguments, the failed venues and the venues with empty lists. It returns the
# last known instruments of these venues.
Carry = Callable[[set[str], set[str]], CarriedInstruments]


def carry_nothing(_failed: set[str], _empty: set[str]) -> CarriedInstruments:
    """Return no instruments, for callers that do not carry over any."""
    return CarriedInstruments()


def carry_from_last(
    layout: Layout, manifest: Manifest, failed: set[str], empty: set[str]
) -> CarriedInstruments:
    """Return the last book's instruments for venues whose lists failed or are empty now."""
    path = _last_file(layout, manifest) if failed or empty else None
    if path is None:
        return CarriedInstruments()
    values = {
        "day": manifest.snapshot_date,
        "failed": sorted(failed),
        "empty": sorted(empty),
        "started_at": datetime.fromisoformat(manifest.started_at),
        "oldest": manifest.snapshot_date - BELIEVED_AFTER,
    }
    with open_files({"instruments": path}) as connection:
        carried = connection.sql(_CARRIED, params=values).to_arrow_table()
    new = carried.filter(carried["is_new"])["venue_id"].to_pylist()
    rows = carried.select(INSTRUMENTS.names).cast(arrow_schema(INSTRUMENTS))
    venues = pc.unique(rows["venue_id"]).to_pylist()
    return CarriedInstruments(
        {venue: rows.filter(pc.equal(rows["venue_id"], venue)) for venue in venues},
        tuple(sorted(empty.intersection(new))),
    )


def _last_file(layout: Layout, manifest: Manifest) -> Path | None:
    """Return the last book's instruments file, or None if it is missing or was pruned."""
    moment = datetime.fromisoformat(manifest.finished_at)
    landed = snapshots.landed_snapshots(layout)
    last = next(snapshots.accepted_before(landed, manifest.snapshot_id, moment), None)
    if last is None:
        return None
    placed = layout.parquet(INSTRUMENTS.name, last.snapshot_date, last.snapshot_id)
    places = (placed, layout.staged_file(INSTRUMENTS.name, last.snapshot_id))
    return next((path for path in places if path.is_file()), None)
