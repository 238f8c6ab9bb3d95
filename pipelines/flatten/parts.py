"""The metadata of a flattened snapshot, which is stored next to its tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipelines.flatten.control_totals.totals import ControlTotal
from pipelines.records.notes import Drift, Inexact, Reject
from warehouse.storage.layout import Layout, read_json, write_json
from warehouse.storage.parquet import WrittenFile

PORTFOLIOS, VENUES = "portfolios", "venues"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of one part of a staged snapshot, stored in `<part>.json` next to its tables."""

    tables: Mapping[str, WrittenFile]
    rejects: list[Reject]
    inexact: list[Inexact]
    drift: list[Drift]
    totals: list[ControlTotal]


class VenuesPart(Part, frozen=True, kw_only=True):
    """The metadata of the part of a snapshot that contains venues and instruments."""

    listings: list[tuple[str, str, str]]  # venue, instrument, and the list or field that differs
    stale_venues: list[str]  # venues whose instruments were carried over
    emptied: list[str] = []  # venues that had instruments before, but returned an empty list


@dataclass(frozen=True, slots=True)
class Parts:
    """The two parts of a flattened snapshot: portfolios and venues."""

    portfolios: Part
    venues: VenuesPart

    def __iter__(self) -> Iterator[Part]:
        """Yield the portfolios part, then the venues part."""
        yield self.portfolios
        yield self.venues

    @property
    def tables(self) -> dict[str, WrittenFile]:
        """The staged files of all eight tables, by table name."""
        return {**self.portfolios.tables, **self.venues.tables}

    @property
    def rejects(self) -> list[Reject]:
        """The rejected values from the portfolios and the venues."""
        return [*self.portfolios.rejects, *self.venues.rejects]


def write_part(path: Path, part: Part) -> None:
    """Write the metadata of one part of a staged snapshot next to its tables."""
    write_json(path, msgspec.to_builtins(part))


def read_parts(layout: Layout, snapshot_id: str) -> Parts:
    """Read the metadata of both parts of a staged snapshot."""
    portfolios = read_json(layout.part(PORTFOLIOS, snapshot_id))
    venues = read_json(layout.part(VENUES, snapshot_id))
    return Parts(msgspec.convert(portfolios, Part), msgspec.convert(venues, VenuesPart))
