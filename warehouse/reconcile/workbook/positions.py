"""Every key of a run with both amounts and what is said of it, as Parquet for machines.

Beside the workbook, and whole however many keys there are: a sheet has its end, this file has none.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.reconcile.dimensions import CUSTOM, DIMENSIONS
from warehouse.reconcile.errors import NotReconciled
from warehouse.reconcile.matching.key_resolution import copy_table
from warehouse.reconcile.workbook.content import WorkbookContent
from warehouse.storage.parquet import ROW_GROUP, stream_rows

_CUSTOM = f"ends_with(asset, {literal(CUSTOM)})"
_WORDS = {
    "portfolio_id": "Portfolio of the key; unknown names stand as they were folded, after a ?.",
    "asset_id": "Asset of the key.",
    "is_custom_asset": "Whether the asset is one the organization defined itself.",
    "venue_id": "Venue of the key.",
    "account_name": "Account of the key.",
    "bucket": "Balance kind and state of the key.",
    "ledger_text": "The ledger's amount, exact; NULL where the key is not in the ledger.",
    "snapshot_text": "The snapshot's amount, exact; NULL where the key is not in the snapshot.",
    "ledger_rows": "Rows of the ledger of this key.",
    "result": "What is said of the key.",
    "break_id": "Its break, NULL where it is none.",
}
_SAID = ("ledger_text", "snapshot_text", "ledger_rows", "result", "break_id")


def name(day: date) -> str:
    """The name of the file of a day."""
    return f"positions_{day}.parquet"


def write(shown: WorkbookContent, path: Path) -> None:
    """Write every key in order; the same run gives the same bytes."""
    connection = shown.source.connection
    _add_names(connection, shown.outcome.ids)
    found = connection.sql(
        f"select {', '.join(map(_key, shown.outcome.fields))}, "
        "ledger as ledger_text, snapshot as snapshot_text, rows as ledger_rows, result, "
        "break_id from compared left join break_ids on break_no = no order by no"
    )
    about = {"nightbook.run": shown.run_id, "nightbook.snapshot": shown.source.snapshot_id}
    stream_rows(found.to_arrow_reader(ROW_GROUP), path, _WORDS, about)


def read_positions(path: Path, run_id: str, fields: Sequence[str]) -> pa.Table:
    """Every key of a run again: its fields as their ids, then the amounts and what was said.

    Raises `NotReconciled` where the file is not there, not whole, or of another run.
    """
    then = "`nightbook reconcile run` writes it for its newest result."
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            told = (file.schema_arrow.metadata or {}).get(b"nightbook.run", b"").decode()
            if told != run_id:
                raise NotReconciled(
                    f"{path.name} is of run {told or 'unknown'}, not {run_id}. {then}"
                )
            found = file.read()
        if "asset" in fields:
            custom = pc.binary_join_element_wise(found["asset_id"], CUSTOM, "")
            asset = pc.if_else(found["is_custom_asset"], custom, found["asset_id"])
            found = found.append_column("asset", asset)
        given = {
            name: found[name if name == "asset" else DIMENSIONS[name].column] for name in fields
        }
        return pa.table(given | {name: found[name] for name in _SAID})
    except (OSError, pa.ArrowException, KeyError) as error:
        what = "is not there" if isinstance(error, FileNotFoundError) else "cannot be read"
        raise NotReconciled(f"{path.name} {what} in {path.parent.name}. {then}") from error


def _add_names(connection: DuckDBPyConnection, ids: Mapping[int, str]) -> None:
    table = {"break_no": pa.array(list(ids), pa.int64()), "break_id": list(ids.values())}
    copy_table(connection, "break_ids", pa.table(table))


def _key(name: str) -> str:
    if name == "asset":
        bare = f"case when {_CUSTOM} then left(asset, length(asset) - 1) else asset end"
        return f"{bare} as asset_id, {_CUSTOM} as is_custom_asset"
    return f"{name} as {DIMENSIONS[name].column}"
