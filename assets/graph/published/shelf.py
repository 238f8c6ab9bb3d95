"""The shelf: the night on an object store, for other machines, where `NIGHTBOOK_LAKE` is set."""

import dataclasses

import dagster as dg

from assets.graph.published.warehouse import WAREHOUSE
from assets.graph.step import night_step
from assets.home.writer_lock import RunLock
from assets.nightbook import Nightbook
from assets.publishing import open_tables, shelf

SHELF = dg.AssetKey("shelf")
ICEBERG = dg.AssetKey("iceberg_tables")


def shelf_assets(
    nightbook: Nightbook, partitions: dg.DailyPartitionsDefinition
) -> list[dg.AssetsDefinition]:
    """Return the shelved nights; none of it where nights stay on this machine."""
    if shelf.shelf_of(nightbook) is None:
        return []

    @dg.asset(
        key=SHELF,
        deps=[WAREHOUSE],
        partitions_def=partitions,
        group_name="published",
        kinds={"objectstore"},
        description="The judged night on the object store of NIGHTBOOK_LAKE: bodies, tables, then "
        "the manifest that makes them a night. A store that is down costs this step alone: the "
        "book is published here, and the next run shelves what is missing.",
    )
    def shelved_nights(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            writing.acquire(nightbook, f"shelving {step.day}", step.tell)
            nights = shelf.shelve(dataclasses.replace(nightbook, tell=step.tell))
        return dg.MaterializeResult(metadata={"nights": dg.MetadataValue.json(list(nights))})

    if open_tables.catalog_of(nightbook) is None:
        return [shelved_nights]

    @dg.asset(
        key=ICEBERG,
        deps=[SHELF],
        partitions_def=partitions,
        group_name="published",
        kinds={"iceberg"},
        description="The shelf's files registered as Iceberg tables, all tables of a date in one "
        "commit, for the engines that read the catalog of NIGHTBOOK_CATALOG. A catalog that is "
        "down costs this step alone; the next run registers what is missing.",
    )
    def iceberg_tables(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            writing.acquire(nightbook, f"registering {step.day}", step.tell)
            nights = open_tables.register(dataclasses.replace(nightbook, tell=step.tell))
        return dg.MaterializeResult(metadata={"nights": dg.MetadataValue.json(list(nights))})

    return [shelved_nights, iceberg_tables]
