"""One partition a night: the business date, in one time zone for partitions and schedule."""

import dagster as dg

from assets.nightbook import Nightbook, utc_now
from pipelines.landing import night_folders

PARTITION = "dagster/partition"


def nights(nightbook: Nightbook) -> dg.DailyPartitionsDefinition:
    """Return daily partitions from the first landed night (or today) up to today."""
    # Today's partition exists while today lasts (`end_offset`), because a snapshot is of now. Only
    # a demo's nights run ahead of this machine's clock, which Dagster goes by.
    settings = nightbook.settings()
    today = nightbook.now().astimezone(settings.timezone).date()
    ahead = (today - utc_now().astimezone(settings.timezone).date()).days
    first = min([*night_folders.dates(nightbook.layout)[:1], today])
    return dg.DailyPartitionsDefinition(
        start_date=first.isoformat(),
        timezone=str(settings.timezone),
        end_offset=1 + (max(ahead, 0) if nightbook.is_demo else 0),
    )
