"""Assets for the flattened tables, with a preview of their rows."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow.parquet as pq

from assets.console.terminal import progress_reporter
from assets.graph.step import night_step
from assets.home.writer_lock import RunLock
from assets.nightbook import Nightbook
from pipelines import night
from pipelines.flatten.columns import Part
from pipelines.landing.manifest import Manifest
from warehouse.contract.book import BOOK
from warehouse.contract.model import Table
from warehouse.progress import ProgressCallback
from warehouse.report.render import escape_markdown
from warehouse.storage.layout import Layout

ROWS = 5
LONGEST_CELL = 40
HIDDEN = ("snapshot_date", "snapshot_id")


def preview(path: Path) -> str:
    """Format the first rows of a Parquet file as a Markdown table."""
    with pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name not in HIDDEN]
        batch = next(file.iter_batches(batch_size=ROWS, columns=names), None)
    rows = batch.to_pylist() if batch is not None else []
    return "\n".join(_lines(names, rows)) if rows else "No rows tonight."


def _lines(names: list[str], rows: list[dict[str, object]]) -> Iterator[str]:
    yield f"| {' | '.join(map(cell, names))} |"
    yield f"|{'---|' * len(names)}"
    for row in rows:
        yield f"| {' | '.join(cell(row[name]) for name in names)} |"


def cell(value: object) -> str:
    """Format a value as one line of Markdown of at most 40 characters. NULL becomes empty."""
    if value is None:
        return ""
    text = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in str(value)
    )
    if len(text) > LONGEST_CELL:
        text = f"{text[: LONGEST_CELL - 1]}…"
    return escape_markdown(text)


Stage = Callable[[Layout, Manifest, ProgressCallback], Part]


def key_of(table: Table) -> dg.AssetKey:
    """Return the asset key of a table's Parquet file."""
    return dg.AssetKey(["lake", table.name])


def table_assets(partitions: dg.DailyPartitionsDefinition) -> list[dg.AssetsDefinition]:
    """Return two steps, which flatten the portfolio tables and the venue and instrument tables."""
    of_portfolios = tuple(table for table in BOOK if table.resource == "portfolios")
    of_venues = tuple(table for table in BOOK if table.resource != "portfolios")
    return [
        _step("flatten_portfolios", of_portfolios, night.stage_portfolios, partitions),
        _step("flatten_venues", of_venues, night.stage_venues, partitions),
    ]


def _step(
    name: str, tables: tuple[Table, ...], stage: Stage, partitions: dg.DailyPartitionsDefinition
) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=name,
        specs=[_spec(table) for table in tables],
        partitions_def=partitions,
        can_subset=True,
    )
    def flatten(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> Iterator[dg.MaterializeResult]:
        with night_step(context, nightbook) as step:
            layout, tell = step.layout, step.tell
            writing.acquire(nightbook, f"flattening {step.day}", tell)
            manifest = step.manifest()
            part = stage(
                layout,
                manifest,
                progress_reporter(nightbook, tell, "flattening", manifest.snapshot_id),
            )
            previews = {
                table: preview(layout.staged_file(table.name, manifest.snapshot_id))
                for table in tables
            }
        counts = ", ".join(f"{part.tables[table.name].rows:,} {table.name}" for table in tables)
        tell(f"flattened {counts}", event="flattened", snapshot=manifest.snapshot_id)
        for table in tables:
            if key_of(table) in context.selected_asset_keys:
                path = layout.parquet(table.name, manifest.snapshot_date, manifest.snapshot_id)
                metadata = _metadata(table, manifest, part) | {
                    "file": path,
                    "preview": dg.MetadataValue.md(previews[table]),
                }
                yield dg.MaterializeResult(asset_key=key_of(table), metadata=metadata)

    return flatten


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


def _metadata(table: Table, manifest: Manifest, part: Part) -> dict[str, Any]:
    written = part.tables[table.name]
    inexact = sum(value.table_name == table.name for value in part.inexact)
    return {
        "dagster/row_count": written.rows,
        "dagster/partition_row_count": written.rows,
        "snapshot_id": manifest.snapshot_id,
        "bytes": written.size,
        "sha256": written.sha256,
        "rejected records in this response": len(part.rejects),
        "values kept as text only": inexact,
    }
