"""Connections to a published warehouse: read-only, without access to files, network or extensions.

This module imports only DuckDB.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.isolation import usable_memory
from warehouse.query.errors import QueryFailed

_MEMORY = 2 * 1024**3  # bytes that an untrusted query may use
_CHUNK = 10_000  # number of rows to fetch from a query at once
HARDENED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}


def connect(
    database: Path, *, with_lake: bool = True, is_apart: bool = False, **settings: str
) -> DuckDBPyConnection:
    """Open the warehouse with additional DuckDB settings.

    `with_lake` allows reading the files of nights that are in the lake, but no other files. With
    `is_apart`, the file is attached to a separate DuckDB instance, so the same program can also
    open it with other settings. Otherwise DuckDB shares the file within the process and refuses
    different settings.

    Raises `FileNotFoundError` if nothing is published, `PermissionError` if the file is not
    readable, and `QueryFailed` if it is damaged.
    """
    if not database.exists():
        raise FileNotFoundError(
            f"There is no warehouse at {database} yet. Pull a first night with `nightbook run`, or "
            "try `nightbook demo`."
        )
    with database.open("rb"):
        """Raise PermissionError here, because DuckDB would report the file as damaged."""
    try:
        config: dict[str, Any] = {**HARDENED, **settings}
        if is_apart:
            connection = duckdb.connect(config=config)
            connection.execute(f"attach {literal(str(database))} as nightbook (read_only)")
            connection.execute("use nightbook")
        else:
            connection = duckdb.connect(str(database), read_only=True, config=config)
        _lock_files(connection, with_lake=with_lake)
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0].rstrip(".!")
        raise QueryFailed(
            f"The warehouse {database} cannot be read: {reason}. Nothing was changed. `nightbook "
            "verify` finds the damage, and `nightbook rebuild` rebuilds the file from the lake."
        ) from error
    return connection


def lake_files(connection: DuckDBPyConnection) -> list[str]:
    """Return the paths of all Parquet files in the lake that an open warehouse's views read."""
    query = "select count(*) from information_schema.tables where table_name = 'lake_files'"
    if not scalar(connection, query):
        return []
    return list(
        scalar(connection, "select list(file order by file) from internal.lake_files") or ()
    )


def open_database(database: Path, *, with_lake: bool = True) -> DuckDBPyConnection:
    """Open the warehouse for untrusted queries, with fixed limits.

    Raises the same errors as `connect`.
    """
    connection = connect(
        database,
        with_lake=with_lake,
        python_enable_replacements="false",
        memory_limit=f"{usable_memory(_MEMORY) // 1024**2}MiB",
        max_temp_directory_size="0B",
        threads="2",
    )
    # All connections to the same file share their settings, so another reader may already have
    # locked the settings.
    if not scalar(connection, "select current_setting('lock_configuration')"):
        connection.execute("set global TimeZone = 'UTC'")
        connection.execute("set global lock_configuration = true")
    return connection


def tables_read(queries: Sequence[str]) -> list[frozenset[str]]:
    """Parse queries, and return the names of the tables, views and CTEs that each query reads."""
    # `json_serialize_sql` parses a query but does not bind it, so the tables need not exist.
    sql = "select json_extract_string(json_serialize_sql(unnest($1)), '$..table_name')"
    with duckdb.connect(config={**HARDENED, "threads": 1}) as connection:
        return [frozenset(names) for (names,) in connection.execute(sql, [queries]).fetchall()]


def records(connection: DuckDBPyConnection, query: str, *values: object) -> list[dict[str, Any]]:
    """Return a small query's rows as dictionaries keyed by column name."""
    return list(stream_records(connection, query, list(values)))


def stream_records(
    connection: DuckDBPyConnection, query: str, values: object
) -> Iterator[dict[str, Any]]:
    """Yield a query's rows, fetched in chunks, as dictionaries keyed by column name."""
    result = connection.execute(query, values)
    names = [column[0] for column in result.description or ()]
    while chunk := result.fetchmany(_CHUNK):
        yield from (dict(zip(names, row, strict=True)) for row in chunk)


def scalar(connection: DuckDBPyConnection, query: str, *values: object) -> Any:
    """Return the single value of a query, or None if it has no rows."""
    # Fetch all rows, because an unfinished result blocks later calls to the connection's `sql`
    # method.
    rows = connection.execute(query, list(values)).fetchall()
    return rows[0][0] if rows else None


def _lock_files(connection: DuckDBPyConnection, *, with_lake: bool) -> None:
    """Block access to files, except to the nights' lake files if `with_lake` is set."""
    # All connections to the same file share their settings, so another reader may already have
    # blocked access to files.
    if not scalar(connection, "select current_setting('enable_external_access')"):
        return
    if with_lake and lake_files(connection):
        connection.execute("set variable files = (select list(file) from internal.lake_files)")
        connection.execute("set allowed_paths = getvariable('files')")
        connection.execute("reset variable files")
    connection.execute("set enable_external_access = false")
