"""Queries against the published warehouse: read-only, hardened and exact.

This module imports only DuckDB.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.query.connect import lake_files, open_database
from warehouse.query.errors import NotAQuestion, QueryFailed
from warehouse.query.formats import QueryResult
from warehouse.query.text_order import text_order

# Read values of these DuckDB types as text, because Python would change the values. In Python,
# intervals have no months, times have no nanoseconds, and bytes are printed in a different format.
_READ_AS_TEXT = re.compile(r"\b(INTERVAL|TIMESTAMP_NS|BLOB)\b")

# Suggestions of names that are not tables of the book, and links to DuckDB's own manual.
_NOT_OURS = re.compile(
    r'\nDid you mean "(?:pg|duckdb|sqlite|pragma|information_schema)[^\n]*'
    r"|\n\nPossible solutions:.*",
    re.DOTALL,
)
_BEGIN = "A query is one SQL statement that begins with SELECT, WITH or FROM."
_WRITING = ("ALTER", "ATTACH", "COPY", "CREATE", "DELETE", "DROP", "EXPORT", "INSERT", "UPDATE")
_LISTED = """
with listed as (
    select schema_name, table_name as name, 'table' as kind, comment, [] as parameters
    from duckdb_tables() where database_name = current_database() and not internal
        and not temporary
    union all
    select schema_name, view_name, 'view', comment, []
    from duckdb_views() where database_name = current_database() and not internal
    union all
    select schema_name, function_name, 'macro', comment, parameters
    from duckdb_functions()
    where database_name = current_database() and not internal
        and function_type in ('macro', 'table_macro')
),

columns as (
    select schema_name, table_name as name,
        list((column_name, data_type, coalesce(comment, '')) order by column_index) as columns
    from duckdb_columns() where database_name = current_database() and not internal
    group by all
)

select schema_name, name, kind, comment, parameters, if(kind = 'macro', null, columns)
from listed left join columns using (schema_name, name)
where schema_name <> 'internal'
order by schema_name = 'ops', schema_name = 'history', kind = 'macro', name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A table, view or macro with its comment and columns.

    `columns` contains the name, type and comment of each column, or of each parameter of a macro.
    Parameters have no type.
    """

    schema: str
    name: str
    kind: str
    comment: str
    columns: tuple[tuple[str, str, str], ...]


def run(
    database: Path, sql: str, limit: int | None = None, *, is_typed: bool = False
) -> QueryResult:
    """Run one query and return at most `limit` rows. Raises `QueryFailed` with the reason.

    `is_typed` means that a person wrote the query, so it must not rank amounts by their text.
    """
    with asking(database, sql, is_typed=is_typed) as connection:
        described = connection.description or ()
        columns = tuple(str(column[0]) for column in described)
        _read_as_text(connection, sql, [str(column[1]) for column in described])
        rows = connection.fetchall() if limit is None else connection.fetchmany(limit + 1)
    first_rows = rows if limit is None else rows[:limit]
    return QueryResult(columns, tuple(first_rows), len(first_rows) < len(rows))


@contextlib.contextmanager
def keep_open(database: Path) -> Iterator[None]:
    """Keep the warehouse open within the block, so that small queries share the open file.

    Opening it takes 30 ms of CPU, much more than a small query. Raises the same errors as `run`.
    """
    with open_database(database):
        yield


@contextlib.contextmanager
def asking(database: Path, sql: str, *, is_typed: bool = False) -> Iterator[DuckDBPyConnection]:
    """Run one query and yield the connection, so that the block can read its rows.

    `is_typed` is the same as for `run`, and so are the errors.
    """
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(open_database(database, with_lake=False))
        try:
            statement_type = _require_one(connection, sql)
            if is_typed:
                require_numeric_order(connection, sql)
            try:
                connection.execute(sql)
            except duckdb.PermissionException:
                # The query may need files in the lake. Only a `select` may access them, because
                # `copy` and `explain analyze copy` could overwrite any file that they can access.
                if statement_type is not duckdb.StatementType.SELECT:
                    raise
                connection.close()
                connection = stack.enter_context(open_database(database))
                _require_lake(connection)
                connection.execute(sql)
            yield connection
        except duckdb.Error as error:
            reason = _NOT_OURS.sub("", str(error))
            message = f"{reason}\nNothing was changed.{_advice(connection, sql, error)}"
            raise query_error(error, message) from error


def query_error(error: duckdb.Error, message: str) -> QueryFailed:
    """Create a `NotAQuestion` error for an invalid query, or a `QueryFailed` for other failures."""
    is_system_error = isinstance(error, duckdb.OperationalError | duckdb.InternalError)
    return (QueryFailed if is_system_error else NotAQuestion)(
        f"DuckDB could not run the query: {message}"
    )


def require_numeric_order(connection: DuckDBPyConnection, sql: str) -> None:
    """Raise `NotAQuestion` if a query sorts or compares amounts by the characters of their text."""
    if problem := text_order(connection, sql):
        raise NotAQuestion(problem)


def tables(database: Path) -> tuple[Description, ...]:
    """Return all tables, views and macros of the warehouse with their comments and columns."""
    with open_database(database, with_lake=False) as connection:
        listed = connection.execute(_LISTED).fetchall()
    return tuple(
        Description(
            schema=schema,
            name=name,
            kind=kind,
            comment=comment or "",
            columns=tuple(columns or [(parameter, "", "") for parameter in parameters]),
        )
        for schema, name, kind, comment, parameters, columns in listed
    )


def _read_as_text(connection: DuckDBPyConnection, sql: str, kinds: list[str]) -> None:
    """Rerun the query, casting columns to text if Python would change their values."""
    texts = [
        f"#{n}::varchar" if _READ_AS_TEXT.search(kind) else f"#{n}"
        for n, kind in enumerate(kinds, 1)
    ]
    if any(text.endswith("varchar") for text in texts):
        [statement] = connection.extract_statements(sql)
        query = statement.query.rstrip("; \n")
        connection.execute(f"select {', '.join(texts)} from ({query}\n)")  # noqa: S608 - the query itself, which already ran unchanged


def _advice(connection: DuckDBPyConnection, sql: str, error: duckdb.Error) -> str:
    """Return advice to append to the error message of a query, or an empty string."""
    try:
        [statement] = connection.extract_statements(sql)
    except (duckdb.Error, ValueError):
        return f" {_BEGIN}"
    if statement.type.name in _WRITING:
        return (
            " The book is read-only: a query must begin with SELECT, WITH or FROM. To save the "
            "answer, use `nightbook query -o FILE SQL`."
        )
    if isinstance(error, duckdb.CatalogException | duckdb.BinderException):
        return " `nightbook tables` lists the tables, and `nightbook tables NAME` lists columns."
    return ""


def _require_lake(connection: DuckDBPyConnection) -> None:
    """Raise `QueryFailed` if a night's file is missing from the lake."""
    files = lake_files(connection)
    if missing := [file for file in files if not Path(file).is_file()]:
        raise QueryFailed(
            f"{len(missing)} of the {len(files)} files for older nights are missing. The first is "
            f"{missing[0]}. Queries that may need them are refused, because rows would be missing. "
            "Nothing was changed. `nightbook verify` finds the damage. `nightbook rebuild` "
            "rebuilds the warehouse, and with `--from-landing` also the lake."
        )


def _require_one(connection: DuckDBPyConnection, sql: str) -> duckdb.StatementType:
    """Return the type of a query's only statement.

    Raises `NotAQuestion` if there are several or none, because only the last result would be shown.
    """
    statements = connection.extract_statements(sql)
    count = len(statements)
    if count != 1:
        problem = f"has {count} statements instead of one" if count else "is empty"
        advice = "Run the statements one at a time." if count else _BEGIN
        raise NotAQuestion(f"The query {problem}. Nothing was run. {advice}")
    return statements[0].type
