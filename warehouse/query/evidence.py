"""The evidence of a query result: the query, the version that it read, and a digest of its rows."""

import hashlib
from pathlib import Path
from typing import Any

from warehouse.query import child
from warehouse.query.formats import QueryResult, as_csv, text

_BUILD = (
    "select build.*, (select max(snapshot_id) from ops.snapshots where is_book) as snapshot_id "
    "from ops.build as build"
)


def evidence_of(database: Path, query: str, result: QueryResult) -> dict[str, Any]:
    """Return the evidence of a result from this version of the database, as JSON values.

    `digest` is the SHA-256 of the rows as CSV, which `nightbook query QUERY --format csv` prints.
    Raises `QueryFailed`, or `FileNotFoundError` if the version was removed in the meantime.
    """
    build = child.ask(database, _BUILD)
    facts = dict(zip(build.columns, build.rows[0], strict=True))
    return {
        "query": query,
        "newest_night": facts["snapshot_id"],
        "newest_date": text(facts["newest_date"]),
        "version": facts["version"],
        "fingerprint": facts.get("fingerprint"),
        "program_version": facts["program_version"],
        "row_count": len(result.rows),
        "is_whole": not result.is_cut,
        "digest": hashlib.sha256(as_csv(result).encode()).hexdigest(),
    }
