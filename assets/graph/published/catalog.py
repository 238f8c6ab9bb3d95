"""What the catalog says of every asset: who answers for it, who reads it, when it is due."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import dagster as dg

from assets.monitoring.staleness import GRACE
from assets.nightbook import Nightbook
from pipelines.schedule import last_tick
from pipelines.settings import Settings

# The owner of each group, and who reads what it holds; an asset of its own goes before its group.
OWNERS = {"source": "operator", "landing": "operator", "lake": "operator", "published": "operator"}
READERS = {"source": "operator", "landing": "operator", "lake": "analyst", "views": "analyst"}
FOR_FINANCE = ("workbook", "reconciliation")
LAST_MINUTE = 24 * 60 - 1


def in_catalog(
    nightbook: Nightbook, assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]
) -> Sequence[dg.AssetsDefinition | dg.AssetSpec]:
    """Return the same assets with owners, tags, and the hour by which they are made."""
    policy = _freshness(nightbook.settings())

    def say(spec: dg.AssetSpec) -> dg.AssetSpec:
        group, name = spec.group_name or "", spec.key.path[0]
        is_finance = name in FOR_FINANCE
        owner = "finance" if is_finance else OWNERS.get(group, "analyst")
        reader = "finance" if is_finance else READERS.get(group, "everybody")
        is_late_told = group != "source" and name not in ("decision", "reconciliation")
        return spec.replace_attributes(
            owners=[f"team:{owner}"],
            tags={"nightbook/reader": reader},
            freshness_policy=policy if is_late_told else None,
        )

    return dg.map_asset_specs(say, assets)


def _freshness(settings: Settings) -> dg.FreshnessPolicy:
    """Return by when a night of the schedule is made: after that it would be told as late."""
    # It is on the days of the schedule, at the latest just before midnight.
    last = last_tick(settings.schedule)
    over = timedelta(hours=last.hour, minutes=last.minute, seconds=settings.deadline) + GRACE
    minutes = min(int(over / timedelta(minutes=1)), LAST_MINUTE)
    days = " ".join(settings.schedule.split()[2:])
    return dg.FreshnessPolicy.cron(
        deadline_cron=f"{minutes % 60} {minutes // 60} {days}",
        lower_bound_delta=timedelta(minutes=minutes),
        timezone=str(settings.timezone),
    )
