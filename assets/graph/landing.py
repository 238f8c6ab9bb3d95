"""Assets for the landed resources. One pull lands all three, so they share one step.

Only today's night can be pulled. For a past date, the step reuses the landed bytes or fails if
there are none, so data is never stored under the wrong date.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import dagster as dg

from assets.console.invocation import program_version
from assets.console.terminal import progress_reporter
from assets.graph.step import NightStep, name_snapshot, night_step
from assets.home.demo import require_real
from assets.home.writer_lock import RunLock
from assets.nightbook import WARNING, EventCallback, Nightbook
from assets.publishing import publish
from pipelines import night
from pipelines.edge.client import EdgeClient
from pipelines.edge.sending.retries import Event
from pipelines.landing.lock import WriterBusy
from pipelines.landing.manifest import Manifest
from pipelines.pull import pull as tonight
from warehouse.contract.book import BOOK
from warehouse.contract.model import count_of

API = dg.AssetKey("api")
# The API operation and the description of each resource.
RESOURCES = {
    "portfolios": (
        "list_portfolios",
        "The unchanged response to GET /portfolios?include=integrations (API document, 4.1).",
    ),
    "venues": (
        "list_venues",
        "The unchanged response to GET /venues?include=instruments (API document, 4.3).",
    ),
    "instruments": (
        "list_instruments",
        (
            "The unchanged responses to GET /venues/{id}/instruments for every venue, once with "
            "?type=spot and once with ?type=future (API document, 4.5)."
        ),
    ),
}


def api_asset() -> dg.AssetSpec:
    """Return the API itself as an asset, so that lineage starts where the data comes from."""
    return dg.AssetSpec(
        API,
        description="The read-only Portfolio and Venue Read API. It requires signed requests and "
        "keeps no history.",
        kinds={"api"},
        group_name="source",
        metadata={"dagster/column_schema": _fields(*RESOURCES)},
    )


def _fields(*resources: str) -> dg.TableSchema:
    """Return the API fields of these resources that become columns in the book."""
    tables = [table for table in BOOK if table.resource in resources]
    sources = {column.source: column for table in tables for column in table.columns}
    return dg.TableSchema(
        [
            dg.TableColumn(source, "JSON", description=column.meaning)
            for source, column in sources.items()
            if "." in source
        ]
    )


def _lineage(resource: str) -> dg.TableColumnLineage:
    names = [field.name for field in _fields(resource).columns]
    return dg.TableColumnLineage({name: [dg.TableColumnDep(API, name)] for name in names})


def landed_assets(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the step that pulls tonight's snapshot and lands the three resources."""

    @dg.multi_asset(
        name="pull",
        specs=[
            dg.AssetSpec(
                ["landing", name],
                deps=[API],
                description=description,
                group_name="landing",
                kinds={"json"},
                metadata={
                    "dagster/column_schema": _fields(name),
                    "dagster/column_lineage": _lineage(name),
                },
            )
            for name, (_, description) in RESOURCES.items()
        ],
        partitions_def=partitions,
        can_subset=True,
    )
    def pull(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> Iterator[dg.MaterializeResult]:
        with night_step(context, nightbook) as step:
            manifest, is_reused = _land_or_reuse(step, writing)
        name_snapshot(context, manifest.snapshot_id)
        for name, (operation, _) in RESOURCES.items():
            key = dg.AssetKey(["landing", name])
            if key in context.selected_asset_keys:
                metadata = _metadata(step, manifest, operation, is_reused=is_reused)
                yield dg.MaterializeResult(asset_key=key, metadata=metadata)

    return pull


def _land_or_reuse(step: NightStep, lock: RunLock) -> tuple[Manifest, bool]:
    """Pull tonight's snapshot, or find a past date's snapshot, and acquire the writer's lock.

    Return the night's manifest, and whether it was landed earlier.
    """
    nightbook, day, tell = step.nightbook, step.day, step.tell
    # Read the clock only once. A night belongs to the date on which it began, even if the run
    # continues past midnight.
    settings, started = nightbook.settings(), nightbook.now()
    is_reused = day != night.business_date(settings, started)
    if is_reused:
        manifest = night.landed_for(settings, started, day)
        lock.acquire(nightbook, f"rebuilding {day}", tell)
    else:
        # Pull without the writer's lock. Otherwise, a command that holds the lock could make us
        # miss the night.
        if not nightbook.is_demo:
            require_real(step.layout)
        manifest = tonight.pull_snapshot(
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
            lock.acquire(nightbook, f"building the night of {day}", tell)
        except WriterBusy as busy:
            raise WriterBusy(busy.layout, busy.holder, _landed_message(manifest)) from None
    publish.recover(nightbook, tell, but=manifest.snapshot_id)
    return manifest, is_reused


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
) -> dict[str, Any]:
    answers = [answer for answer in manifest.answers if answer.operation == operation]
    folder = step.layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    return {
        "snapshot_id": manifest.snapshot_id,
        "folder": folder,
        "started_at": dg.MetadataValue.timestamp(datetime.fromisoformat(manifest.started_at)),
        "requests": len(answers),
        "failed requests": sum(answer.error is not None for answer in answers),
        "attempts": sum(answer.attempts for answer in answers),
        "bytes": sum(answer.byte_count or 0 for answer in answers),
        "reused": is_reused,
    }
