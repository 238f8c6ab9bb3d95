"""Registering nights: their files as they lie on the shelf, all tables of a date in one commit.

What a reader may believe is said by the table `nights`, committed with the rest or after it: a
night counts when its last row there says `accepted`. So nobody who loads the tables one by one sees
half a night, and a night that is superseded or rejected needs no row deleted.
"""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Any

import msgspec
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, EqualTo
from pyiceberg.table.update.snapshot import ManageSnapshots

from pipelines.lake.iceberg.catalog import commit_together
from pipelines.lake.iceberg.tables import NIGHTS, identifier, prepare
from warehouse.contract.lake import LAKE
from warehouse.contract.states import ACCEPTED
from warehouse.storage.parquet import TYPES

SUPERSEDED = "superseded"
BOOKS = (ACCEPTED, SUPERSEDED)  # only the files of what is or was a book are registered
PROPERTY = "nightbook.snapshot_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelvedNight:
    """A night on the shelf: what was decided, and by table where its files lie, if they have rows.

    `manifest_sha256` is that of its manifest, which changes when its lake was made again.
    """

    snapshot_id: str
    snapshot_date: date
    state: str
    since: datetime | None
    manifest_sha256: str
    files: Mapping[str, Sequence[str]]


class NightRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the gate; `manifest_sha256` is empty as long as its files are not registered."""

    snapshot_date: date
    snapshot_id: str
    sequence: int
    state: str
    since: datetime | None
    manifest_sha256: str

    @property
    def tag(self) -> str:
        """How Iceberg names the tables as of this night."""
        return f"night_{self.snapshot_id}"


def register(catalog: Any, namespace: str, nights: Iterable[ShelvedNight]) -> list[str]:
    """Register what the catalog does not have yet, one commit a date; returns those snapshot ids.

    Can be interrupted and run again. Raises `Conflict` where another writer was quicker: then the
    date at hand is not there at all.
    """
    prepare(catalog, namespace)
    changed = []
    rows = rows_of(catalog, namespace)
    in_order = sorted(nights, key=lambda night: (night.snapshot_date, night.snapshot_id))
    for _, group in groupby(in_order, key=lambda night: night.snapshot_date):
        fresh = _fresh_rows(list(group), last_rows(rows))
        if not fresh:
            continue
        again = {night.snapshot_id: night for night, row in fresh if _has_new_files(row, rows)}
        rows = [*rows, *(row for _, row in fresh)]
        transactions = [
            table_transaction(catalog, identifier(namespace, table.name), list(again.values()))
            for table in LAKE
            if again
        ]
        tags = [row.tag for row in last_rows(rows).values() if row.snapshot_id in again]
        gate = gate_transaction(catalog, namespace, rows, tags)
        commit_together(catalog, [*transactions, gate])
        changed += [row.snapshot_id for _, row in fresh]
    return changed


def rows_of(catalog: Any, namespace: str) -> list[NightRow]:
    """Return all rows of the gate."""
    gate = catalog.load_table(identifier(namespace, NIGHTS.name))
    return msgspec.convert(gate.scan().to_arrow().to_pylist(), list[NightRow])


def last_rows(rows: Iterable[NightRow]) -> dict[str, NightRow]:
    """Return by snapshot the row that counts."""
    return {row.snapshot_id: row for row in sorted(rows, key=lambda row: row.sequence)}


def _fresh_rows(
    nights: list[ShelvedNight], last: Mapping[str, NightRow]
) -> list[tuple[ShelvedNight, NightRow]]:
    """Return the nights of one date of which the gate says something else, with its new row."""
    accepted = [night.snapshot_id for night in nights if night.state == ACCEPTED]
    fresh = []
    for night in nights:
        before = last.get(night.snapshot_id)
        is_older = night.state == ACCEPTED and night.snapshot_id != max(accepted)
        state = SUPERSEDED if is_older else night.state
        there = before.manifest_sha256 if before else ""
        manifest = night.manifest_sha256 if state in BOOKS else there
        if before is None or (before.state, there) != (state, manifest):
            row = NightRow(
                snapshot_date=night.snapshot_date,
                snapshot_id=night.snapshot_id,
                sequence=before.sequence + 1 if before else 0,
                state=state,
                since=night.since,
                manifest_sha256=manifest,
            )
            fresh.append((night, row))
    return fresh


def _has_new_files(row: NightRow, rows: Iterable[NightRow]) -> bool:
    before = last_rows(rows).get(row.snapshot_id)
    return row.manifest_sha256 != (before.manifest_sha256 if before else "")


def table_transaction(catalog: Any, name: tuple[str, str], nights: list[ShelvedNight]) -> Any:
    """Return the change of one table: the files of some nights, and a tag after each."""
    table = catalog.load_table(name)
    transaction = table.transaction()
    for night in nights:
        about = {PROPERTY: night.snapshot_id}
        tag = f"night_{night.snapshot_id}"
        if tag in table.metadata.refs:  # its lake was made again: other files stand for it now
            drop_rows(transaction, EqualTo("snapshot_id", night.snapshot_id))
        # Also without a file: a table without rows that night can be read as of it, too.
        transaction.add_files(
            list(night.files.get(name[-1], ())), about, check_duplicate_files=False
        )
        set_tags(transaction, [tag])
    return transaction


def gate_transaction(
    catalog: Any, namespace: str, rows: Iterable[NightRow], tags: Iterable[str]
) -> Any:
    """Return the change of the gate: all of its rows, in one small file, and tags upon it."""
    # All in one file, because after ten years a file for each night would be thousands to read.
    kinds = {column.name: TYPES[column.kind] for column in NIGHTS.columns}
    content = [msgspec.structs.asdict(row) for row in rows]
    transaction = catalog.load_table(identifier(namespace, NIGHTS.name)).transaction()
    drop_rows(transaction, AlwaysTrue())
    transaction.append(pa.Table.from_pylist(content, schema=pa.schema(list(kinds.items()))))
    set_tags(transaction, tags)
    return transaction


def drop_rows(transaction: Any, condition: Any) -> None:
    """Take whole files out of a table; the files stay where they are."""
    with warnings.catch_warnings():  # it warns where a table has no row of that night, as many do
        warnings.filterwarnings("ignore", "Delete operation did not match any records")
        transaction.delete(condition)


def set_tags(transaction: Any, tags: Iterable[str]) -> None:
    """Let names stand for a table as it is after the changes so far."""
    manage = ManageSnapshots(transaction)
    for tag in tags:
        manage.create_tag(transaction.table_metadata.current_snapshot_id, tag)
    # Its public `commit` would commit the transaction of this one table.
    manage._commit_if_ref_updates_exist()  # noqa: SLF001 - see above
