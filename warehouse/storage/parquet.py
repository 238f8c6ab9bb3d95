"""The contract as Arrow schemas, and the code that writes all Parquet files.

Each field's metadata contains the meaning of its column. Pages have checksums. ID columns use
dictionary encoding, but amount columns do not.
"""

import contextlib
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.contract.lake import field_ids, lake_table
from warehouse.contract.model import Kind, Table
from warehouse.contract.ops import SNAPSHOT_ID
from warehouse.storage.layout import written_aside

TYPES: dict[Kind, pa.DataType] = {
    Kind.TEXT: pa.string(),
    Kind.AMOUNT: pa.decimal128(38, 18),
    Kind.FLAG: pa.bool_(),
    Kind.ORDINAL: pa.int32(),
    Kind.COUNT: pa.int64(),
    Kind.DAY: pa.date32(),
    Kind.MOMENT: pa.timestamp("us", tz="UTC"),
}
# The number of rows in a row group, which is the same as in DuckDB. If two threads load row groups
# of a different size, DuckDB merges the groups and compresses them twice, which doubles CPU time
# and disk usage.
ROW_GROUP = 120 * 1024
# Text columns with few repeated values. They are stored without a dictionary, because a dictionary
# would be built and then discarded.
PLAIN = ("amount_text", "created_at", "updated_at", "value", "example")


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A written Parquet file: its row count, its size in bytes, and its SHA-256."""

    rows: int
    size: int
    sha256: str


def arrow_schema(table: Table) -> pa.Schema:
    """Return a table's Arrow schema, with types, nullability, and meanings as metadata."""
    fields = [
        pa.field(
            column.name,
            TYPES[column.kind],
            nullable=column.nullable,
            metadata={"comment": column.meaning, "source": column.source},
        )
        for column in table.columns
    ]
    return pa.schema(fields, metadata={"nightbook.table": table.name, "comment": table.meaning})


def file_schema(table: Table) -> pa.Schema:
    """Return the schema of a table's lake files, including snapshot_id and field IDs."""
    schema, ids = arrow_schema(lake_table(table)), field_ids(table.name)
    fields = [
        field.with_metadata(field.metadata | {b"PARQUET:field_id": str(ids[field.name]).encode()})
        for field in schema
    ]
    return pa.schema(fields, metadata=schema.metadata)


def conform(table: Table, columns: dict[str, Any], rows: int) -> pa.RecordBatch:
    """Convert columns to a batch with the table's schema, without changing any value.

    Raises `ValueError`, which names the table and column, if a column does not match the schema.
    """
    schema = arrow_schema(table)
    if set(columns) != set(schema.names):
        mismatched = sorted(set(columns) ^ set(schema.names))
        raise ValueError(
            f"{table.name}: columns {mismatched} are missing or not in warehouse/contract/book.py"
        )
    arrays = []
    for field in schema:
        array = columns[field.name]
        if isinstance(array, pa.ChunkedArray):
            array = array.combine_chunks()
        if array.type != field.type:
            # Use a safe cast, which raises an error if a value would change.
            array = array.cast(field.type, safe=True)
        if len(array) != rows:
            raise ValueError(f"{table.name}.{field.name}: {len(array)} values for {rows} rows")
        if array.null_count and not field.nullable:
            raise ValueError(f"{table.name}.{field.name} is NULL in {array.null_count} rows")
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Writer:
    """A writer for one Parquet file, which appears only when the writer is closed successfully."""

    def __init__(self, table: Table, path: Path, snapshot_id: str) -> None:
        self.rows = 0
        self._schema = file_schema(table)
        self._snapshot_id = pa.scalar(snapshot_id, pa.string())
        self._aside = written_aside(path)
        self._file = self._aside.__enter__()
        try:
            self._writer = _parquet_writer(table, self._schema, self._file)
        except BaseException as error:
            self._aside.__exit__(type(error), error, error.__traceback__)
            raise
        self._pending: list[pa.RecordBatch] = []
        self._pending_rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch. All row groups except the last have exactly `ROW_GROUP` rows."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        columns.setdefault(SNAPSHOT_ID.name, pa.repeat(self._snapshot_id, batch.num_rows))
        arrays = [columns[name] for name in self._schema.names]
        self._pending.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._pending_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._pending_rows >= ROW_GROUP:
            self._flush(self._pending_rows - self._pending_rows % ROW_GROUP)

    def _flush(self, rows: int) -> None:
        """Write the first `rows` pending rows to the file."""
        if rows:
            pending = pa.Table.from_batches(self._pending)
            self._writer.write_table(pending.slice(0, rows), row_group_size=ROW_GROUP)
            self._pending = pending.slice(rows).to_batches()
            self._pending_rows -= rows

    def close(self, error: BaseException | None = None) -> WrittenFile | None:
        """Finish the file, or discard it if there was an error."""
        if error is not None:
            self._discard(error)
            return None
        try:
            self._flush(self._pending_rows)
            self._writer.close()
            self._file.flush()
            self._file.seek(0)
            digest = hashlib.file_digest(self._file, "sha256").hexdigest()
            written = WrittenFile(self.rows, self._file.tell(), digest)
        except BaseException as failure:
            self._discard(failure)
            raise
        self._aside.__exit__(None, None, None)
        return written

    def _discard(self, error: BaseException) -> None:
        # A full disk can cause errors at three points: when rows are written, when the footer is
        # written, and when Python closes the file. Only the first error is raised.
        with contextlib.suppress(OSError, ValueError):
            self._writer.close()
        # Mark the writer as closed. Otherwise, the destructor of the writer would close it again.
        self._writer.is_open = False
        with contextlib.suppress(
            OSError, ValueError
        ):  # if the disk is full, writing the rest of the buffer fails too
            self._aside.__exit__(type(error), error, error.__traceback__)


def _parquet_writer(table: Table, schema: pa.Schema, file: Any) -> Any:
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=1,
        use_dictionary=[
            column.name
            for column in lake_table(table).columns
            if column.kind is Kind.TEXT and column.name not in PLAIN
        ],
        # Write statistics (minimum and maximum) only for the sort columns, because statistics do
        # not help for other columns. Table formats read the partition of a file from the statistics
        # of its first columns.
        write_statistics=list(dict.fromkeys((*schema.names[:2], *table.key[:2]))),
        write_page_checksum=True,
        store_decimal_as_integer=False,
    )


def write(
    table: Table, batches: Iterable[pa.RecordBatch], path: Path, snapshot_id: str
) -> WrittenFile:
    """Write all batches of a table atomically to one snapshot file."""
    writer = Writer(table, path, snapshot_id)
    try:
        for batch in batches:
            writer.write(batch)
    except BaseException as error:
        writer.close(error)
        raise
    written = writer.close()
    assert written is not None  # noqa: S101 - close returns a file unless it is given an error
    return written


def stream_rows(
    reader: pa.RecordBatchReader,
    path: Path,
    meanings: Mapping[str, str],
    about: Mapping[str, str],
    *,
    plain: Collection[str] = (),
) -> int:
    """Write a query's rows and column meanings to a file, and return the row count.

    `plain` lists the text columns with few repeated values.
    """
    schema = pa.schema(
        [field.with_metadata({"comment": meanings[field.name]}) for field in reader.schema],
        metadata=dict(about),
    )
    rows = 0
    with (
        written_aside(path) as file,
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            use_dictionary=[name for name in schema.names if name not in plain],
            write_page_checksum=True,
        ) as writer,
    ):
        for batch in reader:
            writer.write_table(pa.Table.from_batches([batch]).cast(schema), ROW_GROUP)
            rows += batch.num_rows
    return rows


def rows_batch(table: Table, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Build a record batch from a few rows, which are dictionaries.

    Raises `ValueError` for missing or unknown keys.
    """
    names = set(table.names)
    for row in rows:
        if row.keys() != names:
            mismatched = sorted(row.keys() ^ names)
            raise ValueError(f"{table.name}: keys {mismatched} are missing or not column names")
    columns = {
        column.name: pa.array([row[column.name] for row in rows], TYPES[column.kind])
        for column in table.columns
    }
    return conform(table, columns, len(rows))
