"""Questions to the published warehouse: read-only, hardened, exact to the last digit.

Light to import: only DuckDB.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.query.connect import QueryFailed, lake_files, open_database
from warehouse.query.formats import Answer

# Python's intervals have no months, its times no nanoseconds, and its bytes another form.
_CHANGED = re.compile(r"\b(INTERVAL|TIMESTAMP_NS|BLOB)\b")


class NotAQuestion(QueryFailed):
    """What was asked is no question of this warehouse: bad SQL, an unknown name, or several."""

    exit_code = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """A table, view or macro: where it is, what it is, its comment, and its columns.

    `columns` are name, type and comment; those of a macro are its parameters, without type.
    """

    schema: str
    name: str
    kind: str
    comment: str
    columns: tuple[tuple[str, str, str], ...]


def run(database: Path, sql: str, limit: int | None = None) -> Answer:
    """Ask one question; at most `limit` rows come back. Raises `QueryFailed` with the reason."""
    with asking(database, sql) as connection:
        described = connection.description or ()
        columns = tuple(str(column[0]) for column in described)
        _read_as_text(connection, sql, [str(column[1]) for column in described])
        rows = connection.fetchall() if limit is None else connection.fetchmany(limit + 1)
    first_rows = rows if limit is None else rows[:limit]
    return Answer(columns, tuple(first_rows), len(first_rows) < len(rows))


def _read_as_text(connection: DuckDBPyConnection, sql: str, kinds: list[str]) -> None:
    """Ask again for the text of columns whose values would come back as others."""
    texts = [
        f"#{n}::varchar" if _CHANGED.search(kind) else f"#{n}" for n, kind in enumerate(kinds, 1)
    ]
    if any(text.endswith("varchar") for text in texts):
        [statement] = connection.extract_statements(sql)
        query = statement.query.rstrip("; \n")
        connection.execute(f"select {', '.join(texts)} from ({query}\n)")  # noqa: S608 - the question itself, which was asked as it is


@contextlib.contextmanager
def keep_open(database: Path) -> Iterator[None]:
    """Keep the warehouse open within the block: our own small questions then share what is open.

    To open it takes 30 ms of CPU, many times what such a question takes. Raises as `run`.
    """
    with open_database(database):
        yield


@contextlib.contextmanager
def asking(database: Path, sql: str) -> Iterator[DuckDBPyConnection]:
    """Ask one question, whose rows are read within the block. Raises as `run`."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(open_database(database, with_lake=False))
        try:
            asked = _require_one(connection, sql)
            try:
                connection.execute(sql)
            except duckdb.PermissionException:
                # Of a night in the lake, perhaps. Whoever may read a file could overwrite it by
                # `copy` or `explain analyze copy`: so none but a `select` is given the files.
                if asked is not duckdb.StatementType.SELECT:
                    raise
                connection.close()
                connection = stack.enter_context(open_database(database))
                _require_lake(connection)
                connection.execute(sql)
            yield connection
        except duckdb.Error as error:
            # What failed by the machine is no fault of the question.
            by_machine = isinstance(error, duckdb.OperationalError | duckdb.InternalError)
            kind = QueryFailed if by_machine else NotAQuestion
            message = f"DuckDB could not answer: {error}\nNothing was changed."
            raise kind(f"{message}{_advice(connection, sql, error)}") from error


def _advice(connection: DuckDBPyConnection, sql: str, error: duckdb.Error) -> str:
    """Return what to type instead, where the error lets one tell."""
    try:
        [statement] = connection.extract_statements(sql)
    except (duckdb.Error, ValueError):
        return " A question is one statement of SQL that begins with select, with or from."
    if statement.type.name in _WRITING:
        return (
            " The book is read-only: a question begins with select, with or from. To keep what it "
            "answers: `nightbook query -o FILE SQL`."
        )
    if isinstance(error, duckdb.CatalogException | duckdb.BinderException):
        return " `nightbook tables` lists what there is, `nightbook tables NAME` its columns."
    return ""


def _require_lake(connection: DuckDBPyConnection) -> None:
    """Raise `QueryFailed` where a file is gone that the nights in the lake are read from."""
    files = lake_files(connection)
    if missing := [file for file in files if not Path(file).is_file()]:
        raise QueryFailed(
            f"{len(missing)} of the {len(files)} files that older nights are read from are not "
            f"there, the first {missing[0]}: no question that could need them is answered with "
            "less. Nothing was changed. `nightbook verify` tells what is damaged; `nightbook "
            "rebuild` makes the warehouse anew, with `--from-landing` also the lake."
        )


def _require_one(connection: DuckDBPyConnection, sql: str) -> duckdb.StatementType:
    """Return the kind of a question.

    Raises `NotAQuestion` where a text holds none, or several: only the last would be shown.
    """
    statements = connection.extract_statements(sql)
    count = len(statements)
    if count != 1:
        several = f"{count} statements" if count else "no statement"
        raise NotAQuestion(
            f"What was asked holds {several}, and one is answered at a time. Nothing was asked. "
            "Ask one after the other."
        )
    return statements[0].type


def tables(database: Path) -> tuple[Description, ...]:
    """Return every table, view and macro of the warehouse with its comment and columns."""
    with open_database(database, with_lake=False) as connection:
        listed = connection.execute(_LISTED).fetchall()
        columns = connection.execute(_COLUMNS).fetchall()
    columns_by_table: dict[tuple[str, str], list[tuple[str, str, str]]] = {}
    for schema, name, column, kind, comment in columns:
        columns_by_table.setdefault((schema, name), []).append((column, kind, comment or ""))
    return tuple(
        Description(
            schema=schema,
            name=name,
            kind=kind,
            comment=comment or "",
            columns=tuple((parameter, "", "") for parameter in parameters)
            if parameters is not None
            else tuple(columns_by_table[schema, name]),
        )
        for schema, name, kind, comment, parameters in listed
    )


_WRITING = ("ALTER", "ATTACH", "COPY", "CREATE", "DELETE", "DROP", "EXPORT", "INSERT", "UPDATE")
_LISTED = """
select schema_name, table_name as name, 'table' as kind, comment, null::varchar[] as parameters
from duckdb_tables() where database_name = current_database() and not internal and not temporary
    and schema_name <> 'internal'
union all
select schema_name, view_name, 'view', comment, null
from duckdb_views() where database_name = current_database() and not internal
    and schema_name <> 'internal'
union all
select schema_name, function_name, 'macro', comment, parameters
from duckdb_functions()
where database_name = current_database() and not internal
    and function_type in ('macro', 'table_macro') and schema_name <> 'internal'
order by schema_name = 'ops', schema_name = 'history', kind = 'macro', name
"""
_COLUMNS = """
select schema_name, table_name, column_name, data_type, comment
from duckdb_columns() where database_name = current_database() and not internal
order by schema_name, table_name, column_index
"""
