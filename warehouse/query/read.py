"""Questions to the published warehouse: read-only, hardened, exact to the last digit.

Light to import: only DuckDB. No number on its way out passes through a float that was not one in
the database.
"""

import csv
import io
import json
import math
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.exact import plain
from warehouse.query.connect import QueryFailed, open_database
from warehouse.query.printable import printable, printable_json

LARGEST_JSON_INTEGER = 2**53


class NotAQuestion(QueryFailed):
    """What was asked is no question of this warehouse: bad SQL, an unknown name, or several."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Answer:
    """Columns and rows as DuckDB gave them; `is_cut` says that there were more rows than asked."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    is_cut: bool


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
    with open_database(database) as connection:
        try:
            _require_one(connection, sql)
            connection.execute(sql)
            columns = tuple(str(column[0]) for column in connection.description or ())
            rows = connection.fetchall() if limit is None else connection.fetchmany(limit + 1)
        except duckdb.Error as error:
            # What failed by the machine is no fault of the question.
            by_machine = isinstance(error, duckdb.OperationalError | duckdb.InternalError)
            kind = QueryFailed if by_machine else NotAQuestion
            raise kind(f"DuckDB could not answer: {error}\nNothing was changed.") from error
    first_rows = rows if limit is None else rows[:limit]
    return Answer(columns, tuple(first_rows), len(first_rows) < len(rows))


def _require_one(connection: DuckDBPyConnection, sql: str) -> None:
    """Raise `NotAQuestion` where a text holds none, or several: only the last would be shown."""
    count = len(connection.extract_statements(sql))
    if count != 1:
        several = f"{count} statements" if count else "no statement"
        raise NotAQuestion(
            f"What was asked holds {several}, and one is answered at a time. Nothing was asked. "
            "Ask one after the other."
        )


def text(value: object) -> str:
    """Return one value as text: every digit of a number, times in UTC, nothing for NULL."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, list | tuple | dict):
        return json.dumps(_plain(value), ensure_ascii=False)
    return str(value)


def _moment(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(sep=" ")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ") + "Z"


def _plain(value: object) -> Any:
    """Return a value as JSON may hold it: what a reader would make a float of is text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else text(value)
    if isinstance(value, int) and abs(value) <= LARGEST_JSON_INTEGER:
        return value
    return text(value)


def as_csv(answer: Answer) -> str:
    """Return the answer as CSV (RFC 4180) with every digit; NULL is an empty field."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(answer.columns)
    writer.writerows([text(value) for value in row] for row in answer.rows)
    return out.getvalue()


def as_json(answer: Answer) -> str:
    """Return the answer as a JSON array of objects; decimals are text."""
    names = _distinct(answer.columns)
    rows = [dict(zip(names, map(_plain, row), strict=True)) for row in answer.rows]
    return printable_json(json.dumps(rows, ensure_ascii=False, indent=1))


def _distinct(names: tuple[str, ...]) -> list[str]:
    """Return column names, numbered where one repeats: an object keeps one value a name."""
    distinct: list[str] = []
    for index, name in enumerate(names):
        free, number = name, 1
        while free in distinct or (number > 1 and free in names[index:]):
            number += 1
            free = f"{name}_{number}"
        distinct.append(free)
    return distinct


def as_table(answer: Answer) -> str:
    """Return the answer as a table for a terminal: numbers to the right, controls made visible."""
    cells = [[printable(text(value)) for value in row] for row in answer.rows]
    heads = [printable(name) for name in answer.columns]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    right = [
        any(isinstance(row[n], int | float | Decimal) for row in answer.rows)
        for n in range(len(heads))
    ]

    def line(row: list[str]) -> str:
        aligned = zip(row, widths, right, strict=True)
        return "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in aligned
        ).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(heads), rule, *map(line, cells)]) + "\n"


def tables(database: Path) -> tuple[Description, ...]:
    """Return every table, view and macro of the warehouse with its comment and columns."""
    with open_database(database) as connection:
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
