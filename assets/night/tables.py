"""The steps that flatten a night's records into Parquet tables, with a preview of their rows."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

from assets.console.terminal import progress_reporter
from assets.night.results import AssetResult, Markdown, Value
from assets.night.step import NightStep
from pipelines import night
from pipelines.flatten.parts import Part
from pipelines.landing.manifest import Manifest
from warehouse.contract.book import BOOK
from warehouse.contract.model import Table
from warehouse.progress import ProgressCallback
from warehouse.report.render import escape_markdown
from warehouse.storage.layout import Layout

PREVIEW_ROWS = 5
MAX_CELL_CHARACTERS = 40
HIDDEN_COLUMNS = ("snapshot_date", "snapshot_id")
PORTFOLIO_TABLES = tuple(table for table in BOOK if table.resource == "portfolios")
VENUE_TABLES = tuple(table for table in BOOK if table.resource != "portfolios")

Stage = Callable[[Layout, Manifest, ProgressCallback], Part]


def _flatten(step: NightStep, *, tables: Sequence[Table], stage: Stage) -> Sequence[AssetResult]:
    """Write the staged Parquet files of some tables."""
    layout, tell = step.layout, step.tell
    step.acquire_lock(f"flattening {step.day}")
    manifest = step.manifest()
    say = progress_reporter(step.nightbook, tell, "flattening", manifest.snapshot_id)
    part = stage(layout, manifest, say)
    counts = ", ".join(f"{part.tables[table.name].rows:,} {table.name}" for table in tables)
    tell(f"flattened {counts}", event="flattened", snapshot=manifest.snapshot_id)
    return [
        AssetResult(asset=("lake", table.name), metadata=_metadata(layout, table, manifest, part))
        for table in tables
    ]


flatten_portfolios = partial(_flatten, tables=PORTFOLIO_TABLES, stage=night.stage_portfolios)
flatten_venues = partial(_flatten, tables=VENUE_TABLES, stage=night.stage_venues)


def _metadata(layout: Layout, table: Table, manifest: Manifest, part: Part) -> dict[str, Value]:
    written = part.tables[table.name]
    return {
        "dagster/row_count": written.rows,
        "dagster/partition_row_count": written.rows,
        "snapshot_id": manifest.snapshot_id,
        "bytes": written.size,
        "sha256": written.sha256,
        "rejected records in this response": len(part.rejects),
        "values kept as text only": sum(value.table_name == table.name for value in part.inexact),
        "file": layout.parquet(table.name, manifest.snapshot_date, manifest.snapshot_id),
        "preview": Markdown(preview(layout.staged_file(table.name, manifest.snapshot_id))),
    }


def preview(path: Path) -> str:
    """Format the first rows of a Parquet file as a Markdown table."""
    with pq.ParquetFile(path) as file:
        names = [name for name in file.schema_arrow.names if name not in HIDDEN_COLUMNS]
        batch = next(file.iter_batches(batch_size=PREVIEW_ROWS, columns=names), None)
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
    if len(text) > MAX_CELL_CHARACTERS:
        text = f"{text[: MAX_CELL_CHARACTERS - 1]}…"
    return escape_markdown(text)
