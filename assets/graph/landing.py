"""The landed resources: one read of the API gives all three, so they are one step.

Only today can be pulled. For a past date that was landed the landed bytes are used again; for one
that was not, the step fails with words and pulls nothing under a wrong date. One resource alone may
be materialized: the step then does the same and tells of that one only.
"""

from collections.abc import Callable, Iterator
from datetime import date, datetime

import dagster as dg

from assets.console.progress import saying
from assets.console.version import program_version
from assets.graph.log import telling
from assets.graph.step_errors import failing_in_words
from assets.home.demo import require_real
from assets.home.writer_lock import Writing
from assets.nightbook import WARNING, Nightbook, Tell
from assets.publishing import publish
from pipelines import night
from pipelines.edge.client import EdgeClient
from pipelines.edge.sending.attempts import Event
from pipelines.landing.lock import WriterBusy
from pipelines.landing.manifest import Manifest
from warehouse.contract.wording import count_of
from warehouse.storage.layout import Layout

API = dg.AssetKey("api")
RESOURCES = {
    "portfolios": ("list_portfolios", "GET /portfolios?include=integrations (4.1), as it came."),
    "venues": ("list_venues", "GET /venues?include=instruments (4.3), as it came."),
    "instruments": (
        "list_instruments",
        "GET /venues/{id}/instruments?type=spot and ?type=future of every venue (4.5), as it came.",
    ),
}


def api_asset() -> dg.AssetSpec:
    """The service itself, so that lineage starts where the data does."""
    return dg.AssetSpec(
        API,
        description="The signed, read-only Portfolio and Venue Read API. It keeps no history.",
        kinds={"api"},
        group_name="source",
    )


def landed_assets(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """The step that takes tonight's snapshot, and the three resources it lands."""

    @dg.multi_asset(
        name="pull",
        specs=[
            dg.AssetSpec(
                ["landing", name],
                deps=[API],
                description=words,
                group_name="landing",
                kinds={"json"},
            )
            for name, (_, words) in RESOURCES.items()
        ],
        partitions_def=partitions,
        can_subset=True,
    )
    def pull(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[Writing],
    ) -> Iterator[dg.MaterializeResult]:
        day = date.fromisoformat(context.partition_key)
        with failing_in_words(nightbook.layout.home):
            tell = nightbook.tell or telling(context.log)
            manifest, reused = _land(nightbook, writing, day, tell)
        for name, (operation, _) in RESOURCES.items():
            key = dg.AssetKey(["landing", name])
            if key in context.selected_asset_keys:
                metadata = _metadata(nightbook.layout, manifest, operation, reused=reused)
                yield dg.MaterializeResult(asset_key=key, metadata=metadata)

    return pull


def _land(nightbook: Nightbook, writing: Writing, day: date, tell: Tell) -> tuple[Manifest, bool]:
    """The snapshot to go on with, and whether it was landed before; the run is the writer then."""
    # Read once: midnight may pass at any moment, and a night is of the date on which it began.
    settings, started = nightbook.settings(), nightbook.now()
    reused = day != night.business_date(settings, started)
    if reused:
        manifest = night.landed_for(settings, started, day)
        writing.begin(nightbook, f"making {day} again", tell)
    else:
        # Read without the writer's lock: whoever else works here must not cost the night.
        manifest = _take(nightbook, tell, started)
        try:
            writing.begin(nightbook, f"making the night of {day}", tell)
        except WriterBusy as busy:
            raise WriterBusy(busy.layout, busy.holder, _safe(manifest)) from None
    publish.recover(nightbook, tell, but=manifest.snapshot_id)
    return manifest, reused


def _safe(manifest: Manifest) -> str:
    """What is done where a landed night could not be made."""
    return (
        f"Snapshot {manifest.snapshot_id} of {manifest.snapshot_date} is landed, every byte of it, "
        "and is no book yet: the next run judges and publishes it, and so does nightbook rebuild."
    )


def _take(nightbook: Nightbook, tell: Tell, started: datetime) -> Manifest:
    if not nightbook.is_demo:
        require_real(nightbook.layout)
    settings = nightbook.settings(api=True)
    manifest = night.take(
        settings,
        nightbook.now,
        program_version(),
        saying(nightbook, tell, "pulling"),
        _warnings(tell),
        started=started,
        pause=nightbook.pause,
        connect=nightbook.connect or EdgeClient,
    )
    size = sum(answer.byte_count or 0 for answer in manifest.answers) / 1e6
    failed = sum(answer.error is not None for answer in manifest.answers)
    given_up = f", {failed} given up" if failed else ""
    words = f"landed {count_of(len(manifest.answers), 'answer')}, {size:.1f} MB{given_up}"
    tell(words, event="landed", snapshot=manifest.snapshot_id)
    return manifest


def _warnings(tell: Tell) -> Callable[[Event], None]:
    def warn(event: Event) -> None:
        tell(f"{event.kind}: {_in_short(event)}", event=event.kind, level=WARNING)

    return warn


def _in_short(event: Event) -> str:
    """What happened and what comes next; what a person can do is told if the last attempt fails."""
    happened = event.words.partition(". ")[0]
    if event.kind == "retry":
        return f"{happened}; again in {event.wait:.1f} s"
    if event.kind == "pace":
        return f"{happened}; all requests wait {event.wait:.1f} s, then they go more slowly"
    if event.kind == "breaker":
        next_one = f"; one is tried in {event.wait:.0f} s" if event.wait else ""
        return f"{happened}; other requests wait until one gets through{next_one}"
    return event.words


def _metadata(
    layout: Layout, manifest: Manifest, operation: str, *, reused: bool
) -> dict[str, dg.MetadataValue]:
    answers = [answer for answer in manifest.answers if answer.operation == operation]
    failed = [answer for answer in answers if answer.error is not None]
    started = datetime.fromisoformat(manifest.started_at)
    folder = layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
    return {
        "snapshot_id": dg.MetadataValue.text(manifest.snapshot_id),
        "folder": dg.MetadataValue.path(str(folder)),
        "started_at": dg.MetadataValue.timestamp(started),
        "requests": dg.MetadataValue.int(len(answers)),
        "requests given up": dg.MetadataValue.int(len(failed)),
        "attempts": dg.MetadataValue.int(sum(answer.attempts for answer in answers)),
        "bytes": dg.MetadataValue.int(sum(answer.byte_count or 0 for answer in answers)),
        "used again": dg.MetadataValue.bool(reused),
    }
