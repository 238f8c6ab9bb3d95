"""Taking pruned nights out of the Iceberg tables, before their files go.

A file may go only when nothing points at it any more. Each tag points at all files of its time, so
the tags of the nights that stay are moved to the tables as they are without the pruned ones, and
all older snapshots are forgotten. Their metadata files stay where they are.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import structs
from pyiceberg.expressions import In
from pyiceberg.table.update.snapshot import ExpireSnapshots, ManageSnapshots

from pipelines.lake.iceberg.catalog import commit_together
from pipelines.lake.iceberg.registration import (
    TAG,
    drop_rows,
    gate_transaction,
    last_rows,
    rows_of,
    set_tags,
)
from pipelines.lake.iceberg.tables import identifier
from warehouse.contract.lake import LAKE
from warehouse.contract.states import PRUNED


def expire(catalog: Any, namespace: str, snapshot_ids: Collection[str]) -> list[str]:
    """Let no table point at the files of these nights, in one commit; returns which it knew.

    The gate says `pruned` of them from then on. Raises `Conflict`: then nothing may be deleted.
    """
    rows = rows_of(catalog, namespace)
    last = last_rows(rows)
    going = [last[name] for name in snapshot_ids if name in last and last[name].state != PRUNED]
    if not going:
        return []
    pruned = [
        structs.replace(row, sequence=row.sequence + 1, state=PRUNED, files="") for row in going
    ]
    tags = {f"{TAG}{row.snapshot_id}" for row in going}
    transactions = []
    for table in LAKE:
        transaction = catalog.load_table(identifier(namespace, table.name)).transaction()
        drop_rows(transaction, In("snapshot_id", [row.snapshot_id for row in going]))
        _forget(transaction, tags)
        transactions.append(transaction)
    gate = gate_transaction(catalog, namespace, [*rows, *pruned], ())
    commit_together(catalog, [*transactions, gate])
    return [row.snapshot_id for row in going]


def _forget(transaction: Any, tags: AbstractSet[str]) -> None:
    """Remove some tags, move the others to the table as it is now, and drop all older snapshots."""
    there = [name for name in transaction.table_metadata.refs if name != "main"]
    manage = ManageSnapshots(transaction)
    for name in tags & set(there):
        manage.remove_tag(name)
    manage._commit_if_ref_updates_exist()  # noqa: SLF001 - its public one commits this table alone
    set_tags(transaction, [name for name in there if name not in tags])
    current = transaction.table_metadata.current_snapshot_id
    numbers = [snapshot.snapshot_id for snapshot in transaction.table_metadata.snapshots]
    expiry = ExpireSnapshots(transaction).by_ids(
        [number for number in numbers if number != current]
    )
    transaction._stage(*expiry._commit())  # noqa: SLF001 - the same
