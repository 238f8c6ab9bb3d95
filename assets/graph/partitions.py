"""One partition a night: the business date, in one time zone for partitions and schedule."""

from datetime import date

import dagster as dg

from assets.nightbook import Nightbook, utc_now
from pipelines.landing import night_folders
from warehouse.storage.firm import is_firm, read_firm
from warehouse.storage.layout import Layout

PARTITION = "dagster/partition"


def _first_dates(layout: Layout) -> list[date]:
    if is_firm(layout.home):
        named = read_firm(layout.home).sources
        return [day for source in named for day in night_folders.dates(source.layout)[:1]]
    return night_folders.dates(layout)[:1]


def nights(nightbook: Nightbook) -> dg.DailyPartitionsDefinition:
    """Return daily partitions from the first landed night (or today) up to today."""
    # Today's partition exists while today lasts (`end_offset`), because a snapshot is of now. Only
    # a demo's nights run ahead of this machine's clock, which Dagster goes by.
    settings = nightbook.settings()
    today = nightbook.now().astimezone(settings.timezone).date()
    ahead = (today - utc_now().astimezone(settings.timezone).date()).days
    first = min([*_first_dates(nightbook.layout), today])
    return dg.DailyPartitionsDefinition(
        start_date=first.isoformat(),
        timezone=str(settings.timezone),
        end_offset=1 + (max(ahead, 0) if nightbook.is_demo else 0),
    )
