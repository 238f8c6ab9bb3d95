"""Assets for the landed resources. One pull lands all three, so they share one step."""

from collections.abc import Iterator

import dagster as dg

from assets.graph.step import name_snapshot, night_step, selection_of
from assets.home.writer_lock import RunLock
from assets.night import landing
from assets.nightbook import Nightbook
from warehouse.contract.book import BOOK

API = dg.AssetKey("api")
# The description of each resource.
RESOURCES = {
    "portfolios": "The unchanged response to GET /portfolios?include=integrations (API document, "
    "4.1).",
    "venues": "The unchanged response to GET /venues?include=instruments (API document, 4.3).",
    "instruments": "The unchanged responses to GET /venues/{id}/instruments for every venue, once "
    "with ?type=spot and once with ?type=future (API document, 4.5).",
}


def api_asset() -> dg.AssetSpec:
    """Return the API itself as an asset, so that lineage starts where the data comes from."""
    return dg.AssetSpec(
        API,
        description="The read-only Portfolio and Venue Read API. It requires signed requests and "
        "keeps no history.",
        kinds={"api"},
        group_name="source",
        metadata={"dagster/column_schema": _fields(*RESOURCES)},
    )


def _fields(*resources: str) -> dg.TableSchema:
    """Return the API fields of these resources that become columns in the book."""
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
    """Return the step that pulls tonight's snapshot and lands the three resources."""

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
            for name, description in RESOURCES.items()
        ],
        partitions_def=partitions,
        can_subset=True,
    )
    def pull(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        with night_step(context, nightbook, writing) as step:
            results = landing.pull(step)
            name_snapshot(context, str(results[0].metadata["snapshot_id"]))
        yield from selection_of(context, results)

    return pull
