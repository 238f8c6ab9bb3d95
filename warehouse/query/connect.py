"""Open a published warehouse: read-only, with no way to files, network or extensions.

Light to import: only DuckDB.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal

_CHUNK = 10_000  # rows that are fetched at once
HARDENED = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
}


class QueryFailed(ValueError):
    """The question could not be answered; the sentence is DuckDB's own, and nothing was changed."""


def connect(
    database: Path, *, with_lake: bool = True, is_apart: bool = False, **settings: str
) -> DuckDBPyConnection:
    """Open the warehouse with further settings of DuckDB.

    `with_lake` lets it reach the files of nights that it does not hold itself, and no others. With
    `is_apart` it is attached to a DuckDB of its own, so that the same program can open the file by
    other means too: DuckDB shares a file within a process, and then refuses different settings.

    Raises `FileNotFoundError` where nothing has been published yet, `PermissionError` where it may
    not be read, `QueryFailed` where it is damaged.
    """
    if not database.exists():
        raise FileNotFoundError(
            f"There is no warehouse at {database} yet. Take a first night with `nightbook run`, or "
            "try `nightbook demo`."
        )
    with database.open("rb"):
        """What may not be read says so itself, and is not taken for damaged."""
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
        why = str(error).partition("\n")[0].rstrip(".!")
        raise QueryFailed(
            f"The warehouse {database} cannot be read: {why}. Nothing was changed. `nightbook "
            "verify` tells what is damaged, and `nightbook rebuild` makes it anew from the lake."
        ) from error
    return connection


def _lock_files(connection: DuckDBPyConnection, *, with_lake: bool) -> None:
    """Take away every way to files, but for those of nights that are read from the lake."""
    # Within one process DuckDB shares what is open: a second reader finds it locked already.
    if not scalar(connection, "select current_setting('enable_external_access')"):
        return
    if with_lake and lake_files(connection):
        connection.execute("set variable files = (select list(file) from internal.lake_files)")
        connection.execute("set allowed_paths = getvariable('files')")
        connection.execute("reset variable files")
    connection.execute("set enable_external_access = false")


def lake_files(connection: DuckDBPyConnection) -> list[str]:
    """Return the files of nights that an open warehouse reads from the lake."""
    query = "select count(*) from information_schema.tables where table_name = 'lake_files'"
    if not scalar(connection, query):
        return []
    return list(
        scalar(connection, "select list(file order by file) from internal.lake_files") or ()
    )


def open_database(database: Path, *, with_lake: bool = True) -> DuckDBPyConnection:
    """Open the warehouse for questions of strangers, bounded for good. Raises as `connect`."""
    connection = connect(
        database,
        with_lake=with_lake,
        python_enable_replacements="false",
        memory_limit="2GB",
        max_temp_directory_size="0B",
        threads="2",
    )
    # Within one process DuckDB shares what is open: the second reader finds it locked already.
    if not scalar(connection, "select current_setting('lock_configuration')"):
        connection.execute("set global TimeZone = 'UTC'")
        connection.execute("set global lock_configuration = true")
    return connection


def tables_read(queries: Sequence[str]) -> list[frozenset[str]]:
    """Parse queries and return the names that each reads: tables, views and its own CTEs."""
    # Serializing parses the SQL but does not bind it, so the tables need not exist.
    sql = "select json_extract_string(json_serialize_sql(unnest($1)), '$..table_name')"
    with duckdb.connect(config={**HARDENED, "threads": 1}) as connection:
        return [frozenset(names) for (names,) in connection.execute(sql, [queries]).fetchall()]


def records(connection: DuckDBPyConnection, query: str, *values: object) -> list[dict[str, Any]]:
    """Return the rows of a small query, each by column name."""
    return list(stream_records(connection, query, list(values)))


def stream_records(
    connection: DuckDBPyConnection, query: str, values: object
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a query by column name; those of a large book one chunk at a time."""
    result = connection.execute(query, values)
    names = [column[0] for column in result.description or ()]
    while chunk := result.fetchmany(_CHUNK):
        yield from (dict(zip(names, row, strict=True)) for row in chunk)


def scalar(connection: DuckDBPyConnection, query: str, *values: object) -> Any:
    """Return the one value of a query."""
    # All rows: a result that is not read to its end keeps a connection from answering `sql`.
    rows = connection.execute(query, list(values)).fetchall()
    return rows[0][0] if rows else None
