"""The landed resources: one read of the API gives all three, so they are one step.

Only today can be pulled. A past date that was landed uses its bytes again; one that was not fails,
and nothing is pulled under a wrong date.
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
from assets.nightbook import WARNING, Nightbook, Tell
from assets.publishing import publish
from pipelines import night
from pipelines.edge.client import EdgeClient
from pipelines.edge.sending.attempts import Event
from pipelines.landing.lock import WriterBusy
from pipelines.landing.manifest import Manifest
from pipelines.pull import pull as tonight
from warehouse.contract.book import BOOK
from warehouse.contract.model import count_of

API = dg.AssetKey("api")
# The operation of each resource, and what it is.
RESOURCES = {
    "portfolios": ("list_portfolios", "GET /portfolios?include=integrations (4.1), as it came."),
    "venues": ("list_venues", "GET /venues?include=instruments (4.3), as it came."),
    "instruments": (
        "list_instruments",
        "GET /venues/{id}/instruments?type=spot and ?type=future of every venue (4.5), as it came.",
    ),
}


def api_asset() -> dg.AssetSpec:
    """Return the service itself, so that lineage starts where the data does."""
    return dg.AssetSpec(
        API,
        description="The signed, read-only Portfolio and Venue Read API. It keeps no history.",
        kinds={"api"},
        group_name="source",
        metadata={"dagster/column_schema": _fields(*RESOURCES)},
    )


def _fields(*resources: str) -> dg.TableSchema:
    """Return the fields of the API that become columns, as they came."""
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
    """Return the step that takes tonight's snapshot, with the three resources it lands."""

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
            manifest, is_reused = _land(step, writing)
        name_snapshot(context, manifest.snapshot_id)
        for name, (operation, _) in RESOURCES.items():
            key = dg.AssetKey(["landing", name])
            if key in context.selected_asset_keys:
                metadata = _metadata(step, manifest, operation, is_reused=is_reused)
                yield dg.MaterializeResult(asset_key=key, metadata=metadata)

    return pull


def _land(step: NightStep, lock: RunLock) -> tuple[Manifest, bool]:
    """Return the snapshot to go on with, and whether it was landed before; the run then writes."""
    nightbook, day, tell = step.nightbook, step.day, step.tell
    # Read once: midnight may pass at any moment, and a night is of the date on which it began.
    settings, started = nightbook.settings(), nightbook.now()
    is_reused = day != night.business_date(settings, started)
    if is_reused:
        manifest = night.landed_for(settings, started, day)
        lock.acquire(nightbook, f"making {day} again", tell)
    else:
        # Read without the writer's lock: whoever else works here must not cost the night.
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
            lock.acquire(nightbook, f"making the night of {day}", tell)
        except WriterBusy as busy:
            raise WriterBusy(busy.layout, busy.holder, _safe(manifest)) from None
    publish.recover(nightbook, tell, but=manifest.snapshot_id)
    return manifest, is_reused


def _safe(manifest: Manifest) -> str:
    """Say what is done where a landed night could not be made."""
    return (
        f"Snapshot {manifest.snapshot_id} of {manifest.snapshot_date} is landed, every byte of it, "
        "and is no book yet: the next run judges and publishes it, and so does nightbook rebuild."
    )


def _summary(manifest: Manifest) -> str:
    size = sum(answer.byte_count or 0 for answer in manifest.answers) / 1e6
    failed = sum(answer.error is not None for answer in manifest.answers)
    given_up = f", {failed} given up" if failed else ""
    return f"landed {count_of(len(manifest.answers), 'answer')}, {size:.1f} MB{given_up}"


def _warnings(tell: Tell) -> Callable[[Event], None]:
    def warn(event: Event) -> None:
        tell(f"{event.kind}: {_in_short(event)}", event=event.kind, level=WARNING)

    return warn


def _in_short(event: Event) -> str:
    """Say what happened and what comes next; what to do is said if the last attempt fails."""
    happened = event.words.partition(". ")[0]
    if event.kind == "retry":
        return f"{happened}; again in {event.wait:.1f} s"
    if event.kind == "pace":
        return f"{happened}; all requests wait {event.wait:.1f} s, then they go more slowly"
    if event.kind == "breaker":
        probe = f"; one is tried in {event.wait:.0f} s" if event.wait else ""
        return f"{happened}; other requests wait until one gets through{probe}"
    return event.words


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
        "requests given up": sum(answer.error is not None for answer in answers),
        "attempts": sum(answer.attempts for answer in answers),
        "bytes": sum(answer.byte_count or 0 for answer in answers),
        "used again": is_reused,
    }
