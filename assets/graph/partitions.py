"""One partition a night: the business date, in one time zone for partitions and schedule."""

import dagster as dg

from assets.nightbook import Nightbook
from pipelines.landing import night_folders

PARTITION = "dagster/partition"


def nights(nightbook: Nightbook) -> dg.DailyPartitionsDefinition:
    """Return daily partitions from the first landed night (or today) up to today."""
    # Today's partition exists while today lasts (`end_offset`), because a snapshot is of now.
    settings = nightbook.settings()
    today = nightbook.now().astimezone(settings.timezone).date()
    first = min([*night_folders.dates(nightbook.layout)[:1], today])
    return dg.DailyPartitionsDefinition(
        start_date=first.isoformat(), timezone=str(settings.timezone), end_offset=1
    )
