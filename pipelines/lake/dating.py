"""Whether the date of a night is sure: the API keeps no history, so a wrong date loses two books.

A night whose date is doubtful is held, and takes no other book's place without a word.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states


def doubts(manifest: Manifest, landed: Sequence[Snapshot]) -> list[str]:
    """Return why the date of a landed night is not sure, in sentences; empty where it is."""
    return [*_by_clock(manifest), *_backwards(manifest, landed), *_by_zone(manifest, landed)]


def _by_clock(manifest: Manifest) -> Iterator[str]:
    if manifest.is_date_doubtful:
        yield (
            f"the date is not sure: it is {manifest.snapshot_date} by the server's clock and "
            f"{manifest.machine_date} by this machine's, so one of them is wrong: set the clock of "
            "this machine right"
        )


def _backwards(manifest: Manifest, landed: Sequence[Snapshot]) -> Iterator[str]:
    """Yield a night that begins before the one that was taken before it: a clock was moved back."""
    for earlier in landed:
        if earlier.snapshot_id != manifest.follows or earlier.state == states.REJECTED:
            continue
        before = datetime.fromisoformat(load_manifest(earlier.folder).started_at)
        if before > datetime.fromisoformat(manifest.started_at):
            yield (
                f"the date is not sure: this night begins at {manifest.started_at}, and "
                f"{earlier.snapshot_id}, which was taken before it, at {before.isoformat()}: the "
                "clock was moved back, or was ahead then"
            )


def _by_zone(manifest: Manifest, landed: Sequence[Snapshot]) -> Iterator[str]:
    day = manifest.snapshot_date
    for book in landed:
        is_book = book.state == states.ACCEPTED and book.snapshot_id != manifest.snapshot_id
        if book.snapshot_date != day or not is_book:
            continue
        zone = load_manifest(book.folder).timezone
        if zone != manifest.timezone:
            yield (
                f"the date is not sure: {day} has the book {book.snapshot_id}, which was dated in "
                f"{zone}, and this night is dated in {manifest.timezone}"
            )
            return
