"""Registration of nights in the Iceberg tables, and removal of pruned nights."""

import warnings
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import sha256
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import structs
from pyiceberg.expressions import AlwaysTrue, EqualTo, In
from pyiceberg.table.update.snapshot import ExpireSnapshots, ManageSnapshots

from pipelines.lake.night_files import Role
from pipelines.lakehouse.iceberg_catalog import commit_together
from pipelines.lakehouse.iceberg_tables import NIGHTS, prepare
from pipelines.lakehouse.night_manifest import Document, NightManifest, generation_of
from pipelines.lakehouse.object_store import ObjectStore
from pipelines.lakehouse.shelf_list import newest_manifests, read_night
from warehouse.contract.lake import LAKE
from warehouse.contract.states import ACCEPTED, PRUNED
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.storage.parquet import TYPES

SUPERSEDED = "superseded"
# Only the files of nights in these states are registered. These nights are or were a book.
BOOKS = (ACCEPTED, SUPERSEDED)
PROPERTY = "nightbook.snapshot_id"
TAG = "night_"


class NightRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the gate table: a snapshot's state. `files` is empty if no file is registered."""

    snapshot_date: date
    snapshot_id: str
    sequence: int
    state: str
    since: datetime | None
    generation: int
    files: str


@dataclass(frozen=True, slots=True)
class NightChange:
    """A night's new row in the gate table.

    `new_files` contains the night's file for each table, or is None if no files must be registered.
    """

    row: NightRow
    new_files: Mapping[str, str] | None


def register(
    catalog: Any, namespace: str, store: ObjectStore, say: ProgressCallback = silent
) -> tuple[str, ...]:
    """Register the shelved nights that the catalog lacks, and return their snapshot IDs.

    There is one commit for each date, so the function can be interrupted and run again. Raises
    `Conflict` if another writer changed a table. In that case, nothing is registered for the date
    being processed.
    """
    prepare(catalog, namespace)
    rows = rows_of(catalog, namespace)
    dates = _changed_dates(store, rows)
    progress, changed = Tally(say, len(dates), "dates registered"), list[str]()
    for _, nights in sorted(dates.items()):
        changes = _changes(store, nights, rows)
        rows = [*rows, *(change.row for change in changes)]
        _commit(catalog, namespace, changes, rows)
        changed += [change.row.snapshot_id for change in changes]
        progress.add(1)
    return tuple(changed)


def rows_of(catalog: Any, namespace: str) -> list[NightRow]:
    """Return all rows of the gate table."""
    gate = catalog.load_table((namespace, NIGHTS.name))
    return msgspec.convert(gate.scan().to_arrow().to_pylist(), list[NightRow])


def last_rows(rows: Iterable[NightRow]) -> dict[str, NightRow]:
    """Return each snapshot's latest row in the gate table."""
    return {row.snapshot_id: row for row in sorted(rows, key=lambda row: row.sequence)}


def files_of(store: ObjectStore, night: NightManifest) -> dict[str, str]:
    """Map each table that has rows for a night to the address of the night's file."""
    lake = night.parse(Document.LAKE)
    counts = {name: table["rows"] for name, table in (lake["tables"] | lake["nightly"]).items()}
    return {
        file.name: f"{store.address.url}/{file.key}"
        for file in night.files
        if file.role in (Role.TABLE, Role.NIGHTLY) and counts[file.name]
    }


def table_transaction(
    catalog: Any, name: tuple[str, str], files: Mapping[str, Mapping[str, str]]
) -> Any:
    """Prepare a transaction that adds a file and a tag to one table for each night in `files`."""
    table = catalog.load_table(name)
    transaction = table.transaction()
    for snapshot_id, paths in files.items():
        tag, about = f"{TAG}{snapshot_id}", {PROPERTY: snapshot_id}
        if tag in table.metadata.refs:  # The lake was rebuilt, so replace the night's files.
            drop_rows(transaction, EqualTo("snapshot_id", snapshot_id))
        # Set the tag even if the night has no rows, so that the table can be read as of any night.
        mine = [paths[name[-1]]] if name[-1] in paths else []
        transaction.add_files(mine, about, check_duplicate_files=False)
        set_tags(transaction, [tag])
    return transaction


def gate_transaction(
    catalog: Any, namespace: str, rows: Iterable[NightRow], tags: Iterable[str]
) -> Any:
    """Prepare a transaction that replaces the gate table's file with a new one, and sets tags."""
    # Write all rows to one file. With one file per night, readers would have to open thousands of
    # files after ten years.
    kinds = {column.name: TYPES[column.kind] for column in NIGHTS.columns}
    content = [msgspec.structs.asdict(row) for row in rows]
    transaction = catalog.load_table((namespace, NIGHTS.name)).transaction()
    drop_rows(transaction, AlwaysTrue())
    transaction.append(pa.Table.from_pylist(content, schema=pa.schema(list(kinds.items()))))
    set_tags(transaction, tags)
    return transaction


def drop_rows(transaction: Any, condition: Any) -> None:
    """Remove matching files from a table's metadata, without deleting the files themselves."""
    # Ignore the warning that nothing was deleted, because many tables have no rows for a night.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Delete operation did not match any records")
        transaction.delete(condition)


def set_tags(transaction: Any, tags: Iterable[str]) -> None:
    """Tag the state of a table after the changes made so far in the transaction."""
    with ManageSnapshots(transaction) as manage:
        for tag in tags:
            manage.create_tag(transaction.table_metadata.current_snapshot_id, tag)


def expire(catalog: Any, namespace: str, snapshot_ids: Collection[str]) -> list[str]:
    """Remove the files of some nights from all tables in one commit.

    Return the IDs of the nights that were registered. The gate table now lists these nights as
    `pruned`. If this function raises `Conflict`, the caller must not delete any file.
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
        transaction = catalog.load_table((namespace, table.name)).transaction()
        drop_rows(transaction, In("snapshot_id", [row.snapshot_id for row in going]))
        _forget(transaction, tags)
        transactions.append(transaction)
    gate = gate_transaction(catalog, namespace, [*rows, *pruned], ())
    commit_together(catalog, [*transactions, gate])
    return [row.snapshot_id for row in going]


def _changed_dates(store: ObjectStore, rows: Iterable[NightRow]) -> dict[date, list[NightManifest]]:
    """Map each date with new or changed nights to all of the date's nights.

    A night is new or changed if the gate table has no row for it, or an older generation.
    """
    # Read only the manifests of changed dates, because there are thousands of manifests after a few
    # years.
    keys, last = newest_manifests(store), last_rows(rows)
    changed = [
        read_night(store, key)
        for snapshot_id, key in keys.items()
        if snapshot_id not in last or last[snapshot_id].generation != generation_of(key)[1]
    ]
    dates: dict[date, list[NightManifest]] = {}
    for night in changed:
        dates.setdefault(night.snapshot_date, []).append(night)
    read = {night.snapshot_id for night in changed}
    for row in last.values():
        if row.snapshot_date in dates and row.snapshot_id in keys.keys() - read:
            dates[row.snapshot_date].append(read_night(store, keys[row.snapshot_id]))
    return dates


def _changes(
    store: ObjectStore, nights: Iterable[NightManifest], rows: Iterable[NightRow]
) -> list[NightChange]:
    """Return the changes to the gate table for the nights of one date."""
    last = last_rows(rows)
    book = max((night.snapshot_id for night in nights if night.state == ACCEPTED), default="")
    changes = []
    for night in sorted(nights, key=lambda night: night.snapshot_id):
        before = last.get(night.snapshot_id)
        is_older = night.state == ACCEPTED and night.snapshot_id != book
        state = SUPERSEDED if is_older else night.state
        registered = before.files if before else ""
        paths = files_of(store, night) if state in BOOKS else None
        files = registered if paths is None else _digest(paths)
        row = NightRow(
            snapshot_date=night.snapshot_date,
            snapshot_id=night.snapshot_id,
            sequence=before.sequence + 1 if before else 0,
            state=state,
            since=datetime.fromisoformat(night.decisions[-1].at),
            generation=night.generation,
            files=files,
        )
        if before is None or before != msgspec.structs.replace(row, sequence=before.sequence):
            changes.append(NightChange(row, paths if files != registered else None))
    return changes


def _digest(files: Mapping[str, str]) -> str:
    return sha256("\n".join(sorted(files.values())).encode()).hexdigest()


def _commit(
    catalog: Any, namespace: str, changes: Iterable[NightChange], rows: Iterable[NightRow]
) -> None:
    """Commit one date's changes to the gate table and, if there are new files, to all tables."""
    files = {
        change.row.snapshot_id: change.new_files
        for change in changes
        if change.new_files is not None
    }
    transactions = [
        table_transaction(catalog, (namespace, table.name), files) for table in LAKE if files
    ]
    gate = gate_transaction(catalog, namespace, rows, [f"{TAG}{name}" for name in files])
    commit_together(catalog, [*transactions, gate])


def _forget(transaction: Any, tags: AbstractSet[str]) -> None:
    """Remove the given tags, move all other tags to the current state, and expire old snapshots."""
    there = transaction.table_metadata.refs.keys() - {"main"}
    with ManageSnapshots(transaction) as manage:
        for name in tags & there:
            manage.remove_tag(name)
    set_tags(transaction, there - tags)
    # A snapshot that a tag or a branch refers to does not expire.
    ExpireSnapshots(transaction).older_than(datetime.max.replace(tzinfo=UTC)).commit()
