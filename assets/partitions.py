"""One partition a night: the business date, in one time zone for partitions and schedule."""

import re
from datetime import date

import dagster as dg

from assets.resources import Nightbook

PARTITION = "dagster/partition"
_DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


def nights(nightbook: Nightbook) -> dg.DailyPartitionsDefinition:
    """Daily partitions from the first landed night (or today) up to today.

    Today's partition exists while today lasts (`end_offset`), because a snapshot is of now.
    """
    settings = nightbook.settings()
    landed = sorted(
        filter(_DAY.fullmatch, (one.name for one in nightbook.layout.landing.glob("*")))
    )
    today = nightbook.now().astimezone(settings.timezone).date()
    first = min([date.fromisoformat(name) for name in landed[:1]] + [today])
    return dg.DailyPartitionsDefinition(
        start_date=first.isoformat(), timezone=str(settings.timezone), end_offset=1
    )
