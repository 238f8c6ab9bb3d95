"""A table of the book as Parquet: exact decimals and every column's meaning, for machines."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from duckdb import DuckDBPyRelation

from warehouse.contract.model import quote_identifier
from warehouse.export.staged_tables import columns_of, meanings
from warehouse.query.book import PORTFOLIO_NAME, Exhibit, OpenBook
from warehouse.storage.layout import written_aside

_ROW_GROUP = 128 * 1024


def write(source: OpenBook, exhibit: Exhibit, path: Path) -> int:
    """Write the columns of the view as they are; returns how many rows."""
    names = [name for name in columns_of(source, exhibit) if name != PORTFOLIO_NAME]
    shown = ", ".join(map(quote_identifier, names))
    found = source.connection.sql(f"select {shown} from {exhibit.staged_name}")
    about = {"nightbook.view": exhibit.view, "nightbook.snapshot": source.snapshot_id}
    return stream_rows(found, path, meanings(exhibit), about)


def stream_rows(
    found: DuckDBPyRelation, path: Path, words: Mapping[str, str], about: Mapping[str, str]
) -> int:
    """Write the rows of a query with the meaning of each column; returns how many rows."""
    reader = found.to_arrow_reader(_ROW_GROUP)
    schema = pa.schema(
        [field.with_metadata({"comment": words[field.name]}) for field in reader.schema],
        metadata=dict(about),
    )
    rows = 0
    with (
        written_aside(path) as file,
        pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True) as writer,
    ):
        for batch in reader:
            writer.write_table(pa.Table.from_batches([batch]).cast(schema), _ROW_GROUP)
            rows += batch.num_rows
    return rows
