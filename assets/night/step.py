"""The context of a night's steps, and the failure of a step in words."""

from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from assets.console.errors import disk_message, helping_command, is_ours
from assets.console.invocation import spell_for_any_folder
from assets.home.writer_lock import RunLock
from assets.nightbook import EventCallback, Nightbook
from pipelines import night
from pipelines.landing import snapshots
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.snapshots import Snapshot
from warehouse.storage.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class NightStep:
    """The context of a step: the night's date, the writer lock, and a progress callback.

    All steps of a run share the lock. `is_decision` is true if a person decided on the night.
    """

    nightbook: Nightbook
    layout: Layout
    day: date
    tell: EventCallback
    lock: RunLock = field(default_factory=RunLock)
    is_decision: bool = False

    def manifest(self) -> Manifest:
        """Return the manifest of the night landed for this date. Raises `NeverLanded`."""
        # A step may continue with a rejected night only if a person started the run to decide.
        if self.is_decision and (snapshot := night_of_date(self.layout, self.day)) is not None:
            return load_manifest(snapshot.folder)
        return night.landed_for(self.nightbook.settings(), self.nightbook.now(), self.day)

    def has_book(self) -> bool:
        """Return whether the date has a book."""
        return self.day in snapshots.books(snapshots.landed_snapshots(self.layout))

    def snapshot(self) -> Snapshot:
        """Return the book of the date or, without a book, its newest snapshot.

        A night may have a different date, because its date comes from the server's clock. Raises
        `NeverLanded`.
        """
        newest = night_of_date(self.layout, self.day)
        return newest or snapshots.find(self.layout, self.manifest().snapshot_id)

    def acquire_lock(self, operation: str) -> None:
        """Acquire the writer lock, unless an earlier step of the run holds it already."""
        self.lock.acquire(self.nightbook, operation, self.tell)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailure:
    """A failed step: the reason, the command that helps, and the traceback if it is unexpected."""

    step: str
    message: str
    command: str = ""
    trace: str = ""


def parse_date(text: str) -> date | None:
    """Parse a date in ISO format, such as a partition key. Return None if it is invalid."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def night_of_date(layout: Layout, day: date) -> Snapshot | None:
    """Return the book of a date. If the date has no book, return its newest snapshot, or None."""
    nights = [night for night in snapshots.landed_snapshots(layout) if night.snapshot_date == day]
    return snapshots.books(nights).get(day) or (nights[-1] if nights else None)


def explain(error: BaseException, home: Path) -> tuple[str, str] | None:
    """Return the message and the helping command for an expected error, or None.

    Expected errors are our own, and disk errors in the home. The command in the message works in
    any folder.
    """
    message = str(error) if is_ours(error) else disk_message(error, home)
    if message is None:
        return None
    return spell_for_any_folder(Layout(home), message), helping_command(error, home)
