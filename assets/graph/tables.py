"""Assets for the flattened tables."""

from collections.abc import Callable, Sequence

import dagster as dg

from assets.graph.step import yielding
from assets.night import tables as flattening
from assets.night.results import Result
from assets.night.step import NightStep
from warehouse.contract.model import Table


def key_of(table: Table) -> dg.AssetKey:
    """Return the asset key of a table's Parquet file."""
    return dg.AssetKey(["lake", table.name])


def table_assets(partitions: dg.DailyPartitionsDefinition) -> list[dg.AssetsDefinition]:
    """Return two steps, which flatten the portfolio tables and the venue and instrument tables."""
    of_portfolios, of_venues = flattening.PORTFOLIO_TABLES, flattening.VENUE_TABLES
    return [
        _step("flatten_portfolios", of_portfolios, flattening.flatten_portfolios, partitions),
        _step("flatten_venues", of_venues, flattening.flatten_venues, partitions),
    ]


def _step(
    name: str,
    tables: tuple[Table, ...],
    run: Callable[[NightStep], Sequence[Result]],
    partitions: dg.DailyPartitionsDefinition,
) -> dg.AssetsDefinition:
    declare = dg.multi_asset(
        name=name,
        specs=[_spec(table) for table in tables],
        partitions_def=partitions,
        can_subset=True,
    )
    return declare(yielding(run))


def _spec(table: Table) -> dg.AssetSpec:
    deps = {"portfolios": ["portfolios"], "venues": ["venues"]}
    sources = deps.get(table.resource, ["venues", "instruments"])
    return dg.AssetSpec(
        key_of(table),
        deps=[["landing", source] for source in sources],
        description=table.meaning,
        group_name="lake",
        kinds={"parquet"},
        metadata={
            "dagster/table_name": f"lake.{table.name}",
            "dagster/column_schema": column_schema(table),
            "dagster/column_lineage": _lineage(table),
            "key": ", ".join(table.key),
        },
    )


def column_schema(table: Table) -> dg.TableSchema:
    """Describe a table's columns for Dagster, with types, meanings and constraints."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                column.name,
                column.kind.value,
                description=column.meaning,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in table.columns
        ]
    )


def _lineage(table: Table) -> dg.TableColumnLineage:
    landed = dg.AssetKey(["landing", table.resource])
    return dg.TableColumnLineage(
        {
            column.name: [dg.TableColumnDep(landed, column.source)]
            for column in table.columns
            if "." in column.source
        }
    )
