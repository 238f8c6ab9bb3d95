"""SQL over a night's Parquet files, with the warehouse's exact macros."""

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal, quote_identifier
from warehouse.query.connect import HARDENED
from warehouse.sql.catalog import macros

_SETTINGS: dict[str, Any] = {
    **HARDENED,
    # Use one thread, because the last digit of a sum of floating-point numbers depends on timing if
    # there are several threads.
    "threads": "1",
    "python_enable_replacements": "false",
    # Disable temporary files. Otherwise, DuckDB would create a folder in the current directory when
    # memory runs low.
    "max_temp_directory_size": "0B",
}


@functools.cache
def _database() -> DuckDBPyConnection:
    """Create an in-memory database with the macros. It is cached, because creation takes 25 ms."""
    connection = duckdb.connect(config=_SETTINGS)
    connection.execute("create schema internal")
    for macro in macros():
        if macro.schema == "internal" and not macro.is_table:
            connection.execute(macro.sql)
    return connection


@contextlib.contextmanager
def open_files(files: Mapping[str, Path]) -> Iterator[DuckDBPyConnection]:
    """Open a connection with one view per file, and with the macros in the schema `internal`.

    A path must not contain anything that DuckDB misinterprets, see
    `warehouse.storage.home.misleading_sign`.
    """
    with contextlib.closing(_database().cursor()) as connection:
        connection.execute("set TimeZone = 'UTC'")
        for name, path in files.items():
            connection.execute(
                f"create temp view {quote_identifier(name)} as "
                f"from read_parquet({literal(str(path))}, hive_partitioning = false)"
            )
        yield connection
