"""Reasons why a night's date is uncertain."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states


class DateDoubt(NamedTuple):
    """A reason why a night's date is uncertain.

    `code` is part of the reason's stored key, so it must never change.
    """

    code: str
    message: str


def find_date_doubts(manifest: Manifest, landed: Sequence[Snapshot]) -> list[DateDoubt]:
    """Return the reasons why a landed night's date is uncertain, or an empty list."""
    return [*_by_clock(manifest), *_backwards(manifest, landed), *_by_zone(manifest, landed)]


def _by_clock(manifest: Manifest) -> Iterator[DateDoubt]:
    if manifest.is_date_doubtful:
        yield DateDoubt(
            "clocks differ",
            f"the date is uncertain: it is {manifest.snapshot_date} by the server's clock, but "
            f"{manifest.machine_date} by this machine's clock. Check this machine's clock",
        )


def _backwards(manifest: Manifest, landed: Sequence[Snapshot]) -> Iterator[DateDoubt]:
    """Yield a doubt if a night seems to have started before the previous night."""
    for earlier in landed:
        if earlier.snapshot_id != manifest.follows or earlier.state == states.REJECTED:
            continue
        before = datetime.fromisoformat(load_manifest(earlier.folder).started_at)
        if before > datetime.fromisoformat(manifest.started_at):
            yield DateDoubt(
                "clock moved back",
                f"the date is uncertain: this night began at {manifest.started_at}, but the "
                f"previous night, {earlier.snapshot_id}, began at {before.isoformat()}. The clock "
                "has been moved back since then, or it was ahead on the previous night",
            )


def _by_zone(manifest: Manifest, landed: Sequence[Snapshot]) -> Iterator[DateDoubt]:
    day = manifest.snapshot_date
    for book in landed:
        is_book = book.state == states.ACCEPTED and book.snapshot_id != manifest.snapshot_id
        if book.snapshot_date != day or not is_book:
            continue
        zone = load_manifest(book.folder).timezone
        if zone != manifest.timezone:
            yield DateDoubt(
                "time zone changed",
                f"the date is uncertain: the book of {day}, {book.snapshot_id}, uses the time zone "
                f"{zone}, but this night uses {manifest.timezone}",
            )
            return
