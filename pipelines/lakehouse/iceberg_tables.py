"""The Iceberg tables: one for each lake table, and a gate table that lists complete nights.

The tables refer to the lake's files, but do not own them. With `gc.enabled=false`, engines do not
delete files when they expire a snapshot. Without this property, Spark deleted them.
"""

import contextlib
from typing import Any

from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestamptzType,
)

from pipelines.lakehouse.errors import ForeignTable
from warehouse.contract.book import SNAPSHOT_DATE
from warehouse.contract.lake import LAKE, field_ids
from warehouse.contract.model import Kind, Table
from warehouse.contract.ops import SNAPSHOT_ID, moment, ordinal, text

TYPES = {
    Kind.TEXT: StringType(),
    Kind.AMOUNT: DecimalType(38, 18),
    Kind.FLAG: BooleanType(),
    Kind.ORDINAL: IntegerType(),
    Kind.COUNT: LongType(),
    Kind.DAY: DateType(),
    Kind.MOMENT: TimestamptzType(),
}
NIGHTS = Table(
    "nights",
    "One row for each state of a snapshot. The row with the highest sequence applies. Rows are "
    "added and never changed.",
    key=("snapshot_id", "sequence"),
    columns=(
        SNAPSHOT_DATE,
        SNAPSHOT_ID,
        ordinal("sequence", "Row number within this snapshot, starting at 0."),
        text(
            "state",
            "accepted (the book of its date), superseded, held, rejected or pruned.",
        ),
        moment("since", "Time of the decision, UTC.", nullable=True),
        ordinal(
            "generation",
            "Number of the night's manifest on the shelf that contains the decision.",
        ),
        text(
            "files",
            "Digest of the files registered for the snapshot. Empty if there are none.",
        ),
    ),
)
PROPERTIES = {
    "gc.enabled": "false",
    # Collect statistics only for these two columns, because they determine a file's partition.
    "write.metadata.metrics.default": "none",
    "write.metadata.metrics.column.snapshot_date": "full",
    "write.metadata.metrics.column.snapshot_id": "full",
}


def prepare(catalog: Any, namespace: str) -> None:
    """Create the namespace and all tables, and add new columns. Safe to interrupt and run again.

    Raises `ForeignTable` if a table exists with different columns.
    """
    catalog.create_namespace_if_not_exists(namespace)
    existing = {name[-1] for name in catalog.list_tables(namespace)}
    for table in (*LAKE, NIGHTS):
        if table.name not in existing:
            _create(catalog, namespace, table)
        _check(catalog.load_table((namespace, table.name)), table)


def ids(table: Table) -> dict[str, int]:
    """Return the Iceberg field ID of each of a table's columns."""
    if table is NIGHTS:
        return {name: number for number, name in enumerate(NIGHTS.names, start=1)}
    return {name: number for name, number in field_ids(table.name).items() if name in table.names}


def schema(table: Table) -> Schema:
    """Return a table's Iceberg schema, with the columns ordered by field ID."""
    # The order matters, because a catalog assigns its own IDs to a new table's columns, starting at
    # 1.
    in_order = sorted(ids(table).items(), key=lambda item: item[1])
    return Schema(*[_field(table, name, number) for name, number in in_order])


def _field(table: Table, name: str, number: int) -> NestedField:
    column = table.column(name)
    return NestedField(number, name, TYPES[column.kind], required=False, doc=column.meaning)


def _create(catalog: Any, namespace: str, table: Table) -> None:
    day = PartitionField(
        source_id=ids(table)[SNAPSHOT_DATE.name],
        field_id=1000,
        transform=IdentityTransform(),
        name=SNAPSHOT_DATE.name,
    )
    # Another machine may have created the table in the meantime.
    with contextlib.suppress(TableAlreadyExistsError):
        catalog.create_table(
            (namespace, table.name),
            schema=schema(table),
            partition_spec=PartitionSpec() if table is NIGHTS else PartitionSpec(day),
            properties=PROPERTIES | {"comment": table.meaning},
        )


def _check(existing: Any, table: Table) -> None:
    """Add missing columns to an existing table, and compare its other columns with the contract."""
    wanted = {field.name: field for field in schema(table).fields}
    lacking = [name for name in wanted if name not in existing.schema().column_names]
    if lacking:
        with existing.update_schema() as update:
            for name in lacking:
                update.add_column(name, wanted[name].field_type, doc=wanted[name].doc)
    there = {field.name: field for field in existing.schema().fields}
    differences = [
        f"{name} has the ID {there[name].field_id} and the type {there[name].field_type}, not "
        f"{field.field_id} and {field.field_type}"
        for name, field in wanted.items()
        if (there[name].field_id, there[name].field_type) != (field.field_id, field.field_type)
    ]
    if differences:
        raise ForeignTable(".".join(existing.name()), differences)
