"""The table that only a file with a part of a book has, and the columns of `ops` that it keeps.

A column that is not listed here is blank in a part, because it may describe other portfolios.
"""

from collections.abc import Iterator, Mapping

from warehouse.contract.model import Kind, Table
from warehouse.contract.ops import BUILD, REQUESTS, SNAPSHOTS, ops_table, ordinal, text

PART = ops_table(
    "part",
    "One row for each notice about a file with a part of a book. The first notice says which "
    "portfolios are in the file. All totals are totals of the part. The file has one book, "
    "without labels, thresholds, transactions and the tables of schema ops about other "
    "portfolios. It has only the valid prices of the assets that it holds.",
    ("notice_no",),
    (ordinal("notice_no", "Number of the notice."), text("notice", "The notice.")),
)
KEPT: dict[Table, tuple[str, ...]] = {
    REQUESTS: (
        *("snapshot_date", "snapshot_id", "request_no", "operation", "path", "query", "status"),
        *("attempts", "sent_at", "received_at", "purpose"),
    ),
    SNAPSHOTS: (
        *("snapshot_date", "snapshot_id", "state", "is_book", "started_at", "finished_at"),
        *("decided_by", "decided_at", "origin"),
    ),
    BUILD: (
        *("version", "built_at", "program_version", "schema_version", "duckdb_version"),
        *("storage_version", "fingerprint"),
    ),
}


def kept_columns(table: Table, replaced: Mapping[str, str]) -> Iterator[str]:
    """Yield SQL for each column of a table of `ops`: its value, `replaced` SQL, or a blank."""
    for column in table.columns:
        blank = "''" if column.kind is Kind.TEXT else "0"
        value = column.name if column.name in KEPT[table] else "null" if column.nullable else blank
        yield f"{replaced.get(column.name, value)} as {column.name}"
