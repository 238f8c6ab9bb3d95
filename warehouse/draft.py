"""A warehouse file while nobody sees it: opened as the last version was, or empty and new."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.layout import Layout
from warehouse.schema import STORAGE_VERSION, newest_book, schema_version, structure, surface

MEMORY = ("512MB", "2GB", "8GB")
"""What DuckDB may take of it before it spills to disk; more only where it cannot go on."""


def last(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection | None:
    """The copy of the last version, open; None where it cannot be built upon."""
    with contextlib.suppress(duckdb.Error):
        connection = connect(layout, file, memory)
        if _same_schema(connection):
            return connection
        connection.close()
    return None


def remove(file: Path) -> None:
    """Take the file away, and the log that an unclean end left beside it."""
    file.unlink(missing_ok=True)
    file.with_name(f"{file.name}.wal").unlink(missing_ok=True)


def empty(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection:
    """An empty warehouse in the place of whatever is there."""
    remove(file)
    connection = connect(layout, file, memory)
    run_all(connection, (*structure(), *newest_book(None, None), *surface()))
    return connection


def run_all(connection: DuckDBPyConnection, statements: Iterable[str]) -> None:
    """Run statements as one transaction: one write to disk instead of one for each."""
    connection.execute("begin")
    for statement in statements:
        connection.execute(statement)
    connection.execute("commit")


def _same_schema(connection: DuckDBPyConnection) -> bool:
    with contextlib.suppress(duckdb.Error):
        found = connection.execute("select schema_version from ops.build").fetchall()
        return bool(found == [(schema_version(),)])
    return False


def connect(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection:
    """The file, open to be built: it keeps to its home, and to so much memory."""
    connection = duckdb.connect(
        str(file),
        config={
            "storage_compatibility_version": STORAGE_VERSION,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": memory,
            "threads": "2",
            "temp_directory": str(layout.work / "duckdb"),
        },
    )
    connection.execute("set TimeZone = 'UTC'")
    return connection
