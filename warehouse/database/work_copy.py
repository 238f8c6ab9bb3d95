"""The working copy of the database: opened as the last version was, or empty and new."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.database.ddl import newest_book, structure, surface
from warehouse.storage.layout import STORAGE_SETTINGS, STORAGE_VERSION, Layout
from warehouse.storage.parquet import ROW_GROUP

# What DuckDB may take before it spills to disk; the next only where it cannot go on.
MEMORY = ("512MB", "2GB", "8GB")
# Rows of a night that get a group of their own; fewer share one, for each takes whole blocks.
SMALLEST_GROUP = ROW_GROUP // 3
_VECTOR = 2048  # a group has a multiple of it


def group_for(rows: int) -> int:
    """Return how large the groups of rows are to be, for nights whose longest table has so many."""
    # Rows lie in groups, and a checkpoint presses neighbours together that fit into fewer groups.
    # With groups of the usual size 50,000 rows a night cost the pressing of 150,000, and now and
    # then of 400,000 (measured). A night that nearly fills a group has one of its own, which stays
    # as it is.
    return -(-rows // _VECTOR) * _VECTOR if SMALLEST_GROUP <= rows <= ROW_GROUP else ROW_GROUP


def last(
    layout: Layout, file: Path, memory: str, schema: str, rows: int = ROW_GROUP
) -> DuckDBPyConnection | None:
    """Open the copy of the last version; None where it cannot be built upon.

    `schema` is the version of today's, `rows` are those of the longest table of the night to come.
    """
    with contextlib.suppress(duckdb.Error):
        connection = connect(layout, file, memory, group_for(rows))
        if _is_of(connection, schema):
            return connection
        connection.close()
    return None


def remove(file: Path) -> None:
    """Take the file away, and the log that an unclean end left beside it."""
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.wal").unlink(missing_ok=True)


def empty(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection:
    """Open an empty warehouse in the place of whatever is there."""
    remove(file)
    connection = connect(layout, file, memory)
    run_all(connection, (*structure(), *newest_book(None, None), *surface()))
    return connection


def run_all(connection: DuckDBPyConnection, statements: Iterable[str]) -> None:
    """Run statements, one after another."""
    for statement in statements:
        connection.execute(statement)


def save(connection: DuckDBPyConnection) -> None:
    """Commit what was put in so far: many nights are too much for one transaction."""
    connection.execute("commit")
    connection.execute("begin")


def complete(connection: DuckDBPyConnection) -> None:
    """Commit the rest and see all of it in the file, without writing it to a log first."""
    # A commit of more than the threshold is written into the file itself, not to the log and then
    # into the file: everything is larger than a kilobyte.
    connection.execute("set checkpoint_threshold = '1KB'")
    connection.execute("commit")
    connection.execute("checkpoint")


def _is_of(connection: DuckDBPyConnection, schema: str) -> bool:
    with contextlib.suppress(duckdb.Error):
        rows = connection.execute("select schema_version from ops.build").fetchall()
        return bool(rows == [(schema,)])
    return False


def connect(layout: Layout, file: Path, memory: str, group: int = ROW_GROUP) -> DuckDBPyConnection:
    """Open the file to be built in a transaction, within its home and so much memory."""
    connection = duckdb.connect(
        config={
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": memory,
            "threads": "2",
            "temp_directory": str(layout.work / "duckdb"),
            **STORAGE_SETTINGS,
        },
    )
    try:
        connection.execute(
            f"attach {literal(str(file))} as draft "
            f"(storage_version {literal(STORAGE_VERSION)}, row_group_size {group})"
        )
        connection.execute("use draft")
        connection.execute("set TimeZone = 'UTC'")
        # Always within a transaction: each commit waits for the disk, and a night is one.
        connection.execute("begin")
    except BaseException:
        connection.close()
        raise
    return connection
