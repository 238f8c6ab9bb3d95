"""The landed resources: one read of the API gives all three, so they are one step.

Only today can be pulled. For a past date that was landed the landed bytes are used again; for one
that was not, the step fails with words and pulls nothing under a wrong date.
"""

from collections.abc import Callable, Iterator
from datetime import date, datetime

import dagster as dg

from assets.demo_home import OnlyADemo, require_real
from assets.resources import Nightbook, program_version
from pipelines import night
from pipelines.edge.attempts import Event
from pipelines.edge.errors import EdgeError
from pipelines.landing import Manifest
from pipelines.pull import Progress
from pipelines.settings import SettingsWrong
from pipelines.writer import WriterBusy, the_writer

API = dg.AssetKey("api")
RESOURCES = {
    "portfolios": ("list_portfolios", "GET /portfolios?include=integrations (4.1), as it came."),
    "venues": ("list_venues", "GET /venues?include=instruments (4.3), as it came."),
    "instruments": (
        "list_instruments",
        "GET /venues/{id}/instruments?type=spot and ?type=future of every venue (4.5), as it came.",
    ),
}
EXPECTED = (EdgeError, SettingsWrong, WriterBusy, night.NeverLanded, OnlyADemo)
TELL_EVERY = 20


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
        pool="nightbook",
    )
    def pull(
        context: dg.AssetExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.MaterializeResult]:
        day = date.fromisoformat(context.partition_key)
        try:
            manifest, reused = _landed(nightbook, day, nightbook.tell or context.log.info)
        except EXPECTED as error:
            raise dg.Failure(description=str(error), allow_retries=False) from None
        for name, (operation, _) in RESOURCES.items():
            yield dg.MaterializeResult(
                asset_key=["landing", name], metadata=_metadata(manifest, operation, reused=reused)
            )

    return pull


def _landed(nightbook: Nightbook, day: date, tell: Callable[[str], None]) -> tuple[Manifest, bool]:
    settings = nightbook.settings()
    today = night.business_date(settings, nightbook.now())
    layout = nightbook.layout
    with the_writer(layout, f"taking the snapshot of {day}", nightbook.now()):
        if day == today:
            if not nightbook.is_demo:
                require_real(layout)
            settings = nightbook.settings(api=True)
            version = program_version()
            said = _sayings(tell)
            return night.take(settings, nightbook.now, version, said, _warnings(tell)), False
        return night.landed_for(settings, nightbook.now(), day), True


def _sayings(tell: Callable[[str], None]) -> Callable[[Progress], None]:
    def say(progress: Progress) -> None:
        if progress.done == progress.known or progress.done % TELL_EVERY == 0:
            size = progress.byte_count / 1e6
            tell(f"{progress.done} of {progress.known} requests answered, {size:.1f} MB landed")

    return say


def _warnings(tell: Callable[[str], None]) -> Callable[[Event], None]:
    def warn(event: Event) -> None:
        tell(f"{event.kind}: {event.words}")

    return warn


def _metadata(manifest: Manifest, operation: str, *, reused: bool) -> dict[str, dg.MetadataValue]:
    answers = [answer for answer in manifest.answers if answer.operation == operation]
    failed = [answer for answer in answers if answer.file is None]
    started = datetime.fromisoformat(manifest.started_at)
    return {
        "snapshot_id": dg.MetadataValue.text(manifest.snapshot_id),
        "started_at": dg.MetadataValue.timestamp(started),
        "requests": dg.MetadataValue.int(len(answers)),
        "requests given up": dg.MetadataValue.int(len(failed)),
        "attempts": dg.MetadataValue.int(sum(answer.attempts for answer in answers)),
        "bytes": dg.MetadataValue.int(sum(answer.byte_count or 0 for answer in answers)),
        "used again": dg.MetadataValue.bool(reused),
    }
