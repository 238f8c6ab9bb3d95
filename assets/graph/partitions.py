"""The partitions of the graph: one for each night, named by the business date.

Partitions and schedule use the same time zone, that of the settings.
"""

from datetime import date

import dagster as dg

from assets.nightbook import Nightbook, utc_now
from pipelines.landing import night_folders
from warehouse.storage.firm import is_firm, read_firm
from warehouse.storage.layout import Layout

PARTITION = "dagster/partition"


def parse_date(text: str) -> date | None:
    """Parse a date in ISO format, such as a partition key. Return None if it is invalid."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _first_dates(layout: Layout) -> list[date]:
    if is_firm(layout.home):
        named = read_firm(layout.home).sources
        return [day for source in named for day in night_folders.dates(source.layout)[:1]]
    return night_folders.dates(layout)[:1]


def nights(nightbook: Nightbook) -> dg.DailyPartitionsDefinition:
    """Return daily partitions from the first landed night, or else today, to today inclusive."""
    # `end_offset` makes today's partition exist during the day, because a snapshot shows the
    # present. Dagster uses this machine's clock, and only the nights of a demo are ahead of it.
    settings = nightbook.settings()
    today = nightbook.now().astimezone(settings.timezone).date()
    ahead = (today - utc_now().astimezone(settings.timezone).date()).days
    first = min([*_first_dates(nightbook.layout), today])
    return dg.DailyPartitionsDefinition(
        start_date=first.isoformat(),
        timezone=str(settings.timezone),
        end_offset=1 + (max(ahead, 0) if nightbook.is_demo else 0),
    )
