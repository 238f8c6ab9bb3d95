"""The first step of a night: read the API and land its responses, or find a landed night.

Only today's night can be read. For a past date, the step reuses the landed bytes or fails if there
are none, so data is never stored under the wrong date.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from assets.console.invocation import program_version
from assets.console.terminal import progress_reporter
from assets.home.creation import refuse_missing_home
from assets.home.demo import require_real
from assets.night.results import AssetResult, Value
from assets.night.step import NightStep
from assets.nightbook import WARNING, EventCallback
from assets.publishing import repair
from pipelines import night
from pipelines.edge.client import EdgeClient
from pipelines.edge.sending.retries import Event
from pipelines.landing import night_folders
from pipelines.landing.lock import WriterBusy
from pipelines.landing.manifest import Manifest
from pipelines.pull.pull import pull_snapshot
from warehouse.contract.model import count_of
from warehouse.storage.probe import require_file_system

# The API operation of each landed resource.
OPERATIONS = {
    "portfolios": "list_portfolios",
    "venues": "list_venues",
    "instruments": "list_instruments",
}


def pull(step: NightStep) -> Sequence[AssetResult]:
    """Land tonight's snapshot, or find a past date's snapshot, and acquire the writer lock.

    Then finish what killed runs left behind. The repairs need the lock.
    """
    # Read the clock only once. A night belongs to the date on which it began, even if the run
    # continues past midnight.
    nightbook, started = step.nightbook, step.nightbook.now()
    is_reused = step.day != night.business_date(nightbook.settings(), started)
    if is_reused:
        manifest = night.landed_for(nightbook.settings(), started, step.day)
        step.acquire_lock(f"rebuilding {step.day}")
    else:
        manifest = _land(step, started)
    repair.before_night(nightbook, step.tell, but=manifest.snapshot_id)
    return [
        AssetResult(
            asset=("landing", name),
            metadata=_metadata(step, manifest, operation, is_reused=is_reused),
        )
        for name, operation in OPERATIONS.items()
    ]


def _land(step: NightStep, started: datetime) -> Manifest:
    """Read the API and land the responses, then acquire the writer lock."""
    # Pull without the writer lock. Otherwise, a command that holds the lock could make us miss the
    # night.
    nightbook, tell = step.nightbook, step.tell
    # Check this before each night, because the disk may be unmounted while the daemon is running.
    refuse_missing_home(step.layout, "The night")
    if not night_folders.dates(step.layout):
        require_file_system(step.layout.home)
    if not nightbook.is_demo:
        require_real(step.layout)
    manifest = pull_snapshot(
        nightbook.settings(api=True),
        nightbook.now,
        program_version(),
        progress_reporter(nightbook, tell, "pulling"),
        _warnings(tell),
        started=started,
        pause=nightbook.pause,
        connect=nightbook.connect or EdgeClient,
    )
    tell(_summary(manifest), event="landed", snapshot=manifest.snapshot_id)
    try:
        step.acquire_lock(f"building the night of {step.day}")
    except WriterBusy as busy:
        raise WriterBusy(busy.layout, busy.holder, _landed_message(manifest)) from None
    return manifest


def _landed_message(manifest: Manifest) -> str:
    """Return a message that the night was landed but could not be published."""
    return (
        f"Snapshot {manifest.snapshot_id} of {manifest.snapshot_date} has landed completely, but "
        "is not a book yet. The next run (or nightbook rebuild) will judge and publish it."
    )


def _summary(manifest: Manifest) -> str:
    size = sum(answer.byte_count or 0 for answer in manifest.answers) / 1e6
    failed = sum(answer.error is not None for answer in manifest.answers)
    given_up = f", {failed} failed" if failed else ""
    return f"landed {count_of(len(manifest.answers), 'response')}, {size:.1f} MB{given_up}"


def _warnings(tell: EventCallback) -> Callable[[Event], None]:
    def warn(event: Event) -> None:
        tell(f"{event.kind}: {_event_summary(event)}", event=event.kind, level=WARNING)

    return warn


def _event_summary(event: Event) -> str:
    """Return a message about a request's problem and the next step.

    Advice from the event's own message is omitted, except if the event is the final error.
    """
    happened = event.message.partition(". ")[0]
    if event.kind == "retry":
        return f"{happened}, so it is retried in {event.wait:.1f} s"
    if event.kind == "pace":
        return f"{happened}, so all requests wait {event.wait:.1f} s and are then sent more slowly"
    if event.kind == "breaker":
        probe = f". The next test request is sent in {event.wait:.0f} s" if event.wait else ""
        return f"{happened}, so all requests wait until a test request succeeds{probe}"
    return event.message


def _metadata(
    step: NightStep, manifest: Manifest, operation: str, *, is_reused: bool
) -> dict[str, Value]:
    answers = [answer for answer in manifest.answers if answer.operation == operation]
    return {
        "snapshot_id": manifest.snapshot_id,
        "folder": step.layout.snapshot(manifest.snapshot_date, manifest.snapshot_id),
        "started_at": datetime.fromisoformat(manifest.started_at),
        "requests": len(answers),
        "failed requests": sum(answer.error is not None for answer in answers),
        "attempts": sum(answer.attempts for answer in answers),
        "bytes": sum(answer.byte_count or 0 for answer in answers),
        "reused": is_reused,
    }
