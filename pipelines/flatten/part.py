"""What flattening made of a snapshot, in two parts: tables, notes and control totals, as values."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from pipelines.flatten.control_totals.totals import ControlTotal
from pipelines.records.issues import Drift, Inexact, Reject
from warehouse.storage.layout import Layout, read_json, write_json
from warehouse.storage.parquet import WrittenFile

PORTFOLIOS, VENUES = "portfolios", "venues"


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a staged snapshot; it lies beside the tables as `<part>.json`."""

    tables: Mapping[str, WrittenFile]
    rejects: list[Reject]
    inexact: list[Inexact]
    drift: list[Drift]
    totals: list[ControlTotal]


class VenuesPart(Part, frozen=True, kw_only=True):
    """The part of venues and instruments."""

    listings: list[tuple[str, str, str]]  # venue, instrument, what lacks it or differs
    stale_venues: list[str]  # venues whose instruments were carried over
    emptied: list[str] = []  # venues that answered with no instruments where they had some


@dataclass(frozen=True, slots=True)
class Parts:
    """Both parts of a snapshot."""

    portfolios: Part
    venues: VenuesPart

    def __iter__(self) -> Iterator[Part]:
        """Yield the parts, portfolios first."""
        yield self.portfolios
        yield self.venues

    @property
    def tables(self) -> dict[str, WrittenFile]:
        """The files of all eight tables."""
        return {**self.portfolios.tables, **self.venues.tables}

    @property
    def rejects(self) -> list[Reject]:
        """The rejects of both parts."""
        return [*self.portfolios.rejects, *self.venues.rejects]


def write_part(path: Path, part: Part) -> None:
    """Write a part beside its tables."""
    write_json(path, msgspec.to_builtins(part))


def read_parts(layout: Layout, snapshot_id: str) -> Parts:
    """Read what was staged of a snapshot."""
    portfolios = read_json(layout.part(PORTFOLIOS, snapshot_id))
    venues = read_json(layout.part(VENUES, snapshot_id))
    return Parts(msgspec.convert(portfolios, Part), msgspec.convert(venues, VenuesPart))
