"""Every key of a run with both amounts and what is said of it, as Parquet for machines.

Beside the workbook, and whole however many keys there are: a sheet has its end, this file has none.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.reconcile.matching.key_resolution import copy_table
from warehouse.reconcile.terms.dimensions import CUSTOM, DIMENSIONS
from warehouse.reconcile.terms.errors import NotReconciled
from warehouse.reconcile.workbook.content import WorkbookContent
from warehouse.storage.parquet import ROW_GROUP, stream_rows

_CUSTOM = f"ends_with(asset, {literal(CUSTOM)})"
_WORDS = {
    "portfolio_id": "Portfolio of the position; an unknown name is folded, after a ?.",
    "asset_id": "Asset of the position.",
    "is_custom_asset": "Whether the asset is one the organization defined itself.",
    "venue_id": "Venue of the position.",
    "account_name": "Account of the position.",
    "bucket": "Balance kind and state of the position.",
    "ledger_text": "The exact amount in the ledger; NULL if the ledger does not have the position.",
    "snapshot_text": "The exact amount in the book; NULL if the book does not have the position.",
    "ledger_rows": "Rows of the ledger for this position.",
    "result": "The code of the result, as in ops.breaks.",
    "break_id": "The ID of its break; NULL if it has none.",
}
_PLAIN = ("account_name", "ledger_text", "snapshot_text", "break_id")
_SAID = ("ledger_text", "snapshot_text", "ledger_rows", "result", "break_id")


def write_positions(content: WorkbookContent, path: Path) -> None:
    """Write every key in order; the same run gives the same bytes."""
    connection = content.source.connection
    _add_names(connection, content.outcome.ids)
    rows = connection.sql(
        f"select {', '.join(map(_key, content.outcome.fields))}, "
        "ledger as ledger_text, snapshot as snapshot_text, rows as ledger_rows, result, "
        "break_id from compared left join break_ids on break_no = no order by no"
    )
    about = {"nightbook.run": content.run_id, "nightbook.snapshot": content.source.snapshot_id}
    stream_rows(rows.to_arrow_reader(ROW_GROUP), path, _WORDS, about, plain=_PLAIN)


def read_positions(path: Path, run_id: str, fields: Sequence[str]) -> pa.Table:
    """Read every key of a run again: its fields as their ids, then the amounts and the result.

    Raises `NotReconciled` where the file is not there, not whole, or of another run.
    """
    then = "`nightbook reconcile run` writes it for its newest result."
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            of_run = (file.schema_arrow.metadata or {}).get(b"nightbook.run", b"").decode()
            if of_run != run_id:
                raise NotReconciled(
                    f"{path.name} is of run {of_run or 'unknown'}, not {run_id}. {then}"
                )
            table = file.read()
        if "asset" in fields:
            custom = pc.binary_join_element_wise(table["asset_id"], CUSTOM, "")
            asset = pc.if_else(table["is_custom_asset"], custom, table["asset_id"])
            table = table.append_column("asset", asset)
        columns = {
            name: table[name if name == "asset" else DIMENSIONS[name].column] for name in fields
        }
        return pa.table(columns | {name: table[name] for name in _SAID})
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
