"""A few rows of a table, as Markdown for the pages of Dagster.

Names come from the wire, so every cell is escaped: none can end a cell, start a link or markup.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq

from warehouse.report.markdown import escape

ROWS = 5
LONGEST_CELL = 40
HIDDEN = ("snapshot_date", "snapshot_id")


def preview(path: Path) -> str:
    """Return the first rows of a Parquet file as a Markdown table."""
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
    """Return one value as Markdown text on one line, shortened; nothing for NULL."""
    if value is None:
        return ""
    text = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode()
        for char in str(value)
    )
    if len(text) > LONGEST_CELL:
        text = f"{text[: LONGEST_CELL - 1]}…"
    return escape(text)
