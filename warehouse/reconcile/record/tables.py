"""Conversion between records and rows of the tables in `schema.sql`.

Functions use an open connection and never commit. A string that is not valid Unicode (it has a lone
surrogate from a damaged file) is stored as bytes, because SQLite text cannot represent it.
"""

# ruff: noqa: S608 - names of tables and columns are ours, or checked by `import_rows`

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict
from datetime import date
from itertools import chain
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from warehouse.reconcile.model import Annotation, Break, Closing, Restatement, Run, Signature
from warehouse.reconcile.terms import FIELDS

Row = dict[str, Any]

# Numbered records are never changed after they are stored.
NumberedRecord = Annotation | Signature | Restatement | Closing

Numbered = TypeVar("Numbered", bound=NumberedRecord)

NUMBERED_TABLES: dict[type, str] = {
    Annotation: "revisions",
    Signature: "signatures",
    Restatement: "restatements",
    Closing: "closings",
}

# Column names by field name, for fields whose column has a different name.
_RENAMED = {
    "runs": {"by": "made_by", "day_settings": "own_settings"},
    "breaks": {"id": "break_id", "rows": "ledger_rows"},
    "run_inputs": {"rows": "row_count"},
    "ties": {"of": "name"},
}

# Fields that are stored as JSON.
_JSON_FIELDS = {"fields", "day_settings", "names", "skipped", "covers"}

_JSON_ENCODER = json.JSONEncoder(sort_keys=True)

# Fields that are stored as a single JSON value, because they are always read together.
_SHOWN = ("counts", "coverage", "workbook", "evidence")

_BREAKS_BY_STATE = {"break": "breaks", "not compared": "not_compared", "resolved": "resolved"}
_PARTS_OF_RUN = {"ties": "ties", "notices": "notices", "run_inputs": "sources"}

_CHAIN = (
    "with recursive chain(no) as (select ? union all "
    "select prior from runs join chain using (no) where prior is not null) "
)

# The tables in a pack, each with its sort order. A condition limits some of them to the days of a
# month.
_OF_RUNS = "where run_no in (select no from runs where day between ?1 and ?2)"

_EXPORTED = {
    "runs": "where day between ?1 and ?2 order by no",
    "breaks": f"{_OF_RUNS} order by run_no, state, place",
    "ties": f"{_OF_RUNS} order by run_no, place",
    "run_inputs": f"{_OF_RUNS} order by run_no, place",
    "notices": f"{_OF_RUNS} or revision is not null order by run_no, revision, place",
    "revisions": "order by no",
    "replacements": "order by revision, replaced_by",
    "entries": "order by revision, entry_no",
    "signatures": "order by no",
    "restatements": "order by no",
    "closings": "order by no",
    "closed_days": "order by closing, day",
}


def insert(connection: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    """Insert rows into a table. All rows must have the same columns, in the same order."""
    rows = iter(rows)
    first = next(rows, None)
    if first is not None:
        values = (list(map(_to_sqlite, row.values())) for row in chain([first], rows))
        connection.executemany(_insertion("insert", table, first), values)


def select(connection: sqlite3.Connection, sql: str, *parameters: object) -> list[Row]:
    """Fetch all rows of a query immediately, so that the read lock is released."""
    cursor = connection.execute(sql, list(map(_to_sqlite, parameters)))
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, _from_sqlite(row), strict=True)) for row in cursor.fetchall()]


def to_json(value: object) -> str:
    """Encode a value as ASCII JSON."""
    return _JSON_ENCODER.encode(msgspec.to_builtins(value))


def insert_run(
    connection: sqlite3.Connection, run: Run, *, no: int | None, prior: int | None
) -> int:
    """Store a run and return its key. If `no` is given, replace the run with this key."""
    left_out = ("no", *_SHOWN, *_BREAKS_BY_STATE.values(), *_PARTS_OF_RUN.values())
    row = _row(run, "runs", left_out) | {"no": no, "day_no": run.no, "prior": prior}
    row["settings_sha256"] = run.settings_digest
    row["shown"] = {name: getattr(run, name) for name in _SHOWN}
    # Replacing a run also deletes its old rows in other tables ("on delete cascade").
    insertion = _insertion("insert" if no is None else "replace", "runs", row)
    stored = connection.execute(insertion, list(map(_to_sqlite, row.values()))).lastrowid or 0
    for state, field in _BREAKS_BY_STATE.items():
        insert(connection, "breaks", _break_rows(stored, state, getattr(run, field)))
    for table, field in _PARTS_OF_RUN.items():
        parts = enumerate(getattr(run, field))
        about = ({"run_no": stored, "place": place} | _row(part, table) for place, part in parts)
        insert(connection, table, about)
    return stored


def break_fields(row: Row) -> Row:
    """Convert a row to a break's fields."""
    fields = _fields(row, "breaks")
    fields["key"] = [row[name] for name in FIELDS if row[name] is not None]
    return fields


def read_run(connection: sqlite3.Connection, row: Row) -> Run:
    """Load a run from its row in `runs`."""
    fields = _fields(row, "runs") | json.loads(row["shown"]) | {"no": row["day_no"]}
    ordered = "select * from breaks where run_no = ? order by state, place"
    breaks = _group(select(connection, ordered, row["no"]), "state")
    for state, field in _BREAKS_BY_STATE.items():
        fields[field] = [break_fields(item) for item in breaks[state]]
    for table, field in _PARTS_OF_RUN.items():
        ordered = f"select * from {table} where run_no = ? order by place"
        fields[field] = [_fields(item, table) for item in select(connection, ordered, row["no"])]
    return msgspec.convert(fields, Run)


def latest_occurrences(
    connection: sqlite3.Connection, run_no: int, ids: Collection[str]
) -> dict[str, tuple[int, str]]:
    """Map break IDs to their latest occurrence as of a run, and the day when they were first seen.

    Breaks that never occurred are left out.
    """
    connection.execute("create temp table if not exists asked (break_id text primary key)")
    connection.execute("delete from asked")
    connection.executemany("insert or ignore into asked values (?)", ((id_,) for id_ in ids))
    rows = connection.execute(
        f"{_CHAIN} select break_id, max(episode), min(ever_seen) from breaks "
        "join asked using (break_id) where state = 'break' and run_no in chain group by 1",
        [run_no],
    )
    return {id_: (episode, ever_seen) for id_, episode, ever_seen in rows.fetchall()}


def insert_record(connection: sqlite3.Connection, record: NumberedRecord) -> None:
    """Store a record and its parts. The record must already have a number."""
    left_out = ("entries", "notices", "replaces", "days")
    table, no = NUMBERED_TABLES[type(record)], record.no
    insert(connection, table, [_row(record, table, left_out)])
    if isinstance(record, Closing):
        insert(connection, "closed_days", ({"closing": no} | _row(day, "") for day in record.days))
    if isinstance(record, Annotation):
        replaced = ({"revision": old, "replaced_by": no} for old in record.replaces)
        insert(connection, "replacements", replaced)
        for table, first, number in (("entries", 1, "entry_no"), ("notices", 0, "place")):
            parts = enumerate(getattr(record, table), first)
            rows = ({"revision": no, number: place} | _row(part, table) for place, part in parts)
            insert(connection, table, rows)


def read_records(connection: sqlite3.Connection, kind: type[Numbered]) -> list[Numbered]:
    """Return all records of a kind, oldest first."""
    rows = select(connection, f"select * from {NUMBERED_TABLES[kind]} order by no")
    if kind is Closing:
        days = select(connection, "select * from closed_days order by closing, day")
        _add_parts(rows, "days", days, "closing")
    if kind is Annotation:
        entries = select(connection, "select * from entries order by revision, entry_no")
        for entry in entries:
            entry["is_restored"] = bool(entry["is_restored"])
        _add_parts(rows, "entries", entries, "revision")
        ordered = "select * from notices where revision is not null order by revision, place"
        _add_parts(rows, "notices", select(connection, ordered), "revision", "notices")
        replaced = select(connection, "select * from replacements order by replaced_by, revision")
        _add_parts(rows, "replaces", replaced, "replaced_by")
        for row in rows:
            row["replaces"] = [item["revision"] for item in row["replaces"]]
    return msgspec.convert(rows, list[kind])  # type: ignore[valid-type]  # a type at run time


def export(
    connection: sqlite3.Connection, first: date, last: date
) -> Iterator[tuple[str, list[Row]]]:
    """Yield each table's rows: the runs from `first` to `last`, and all comments and signatures."""
    for table, rows in _EXPORTED.items():
        days = (first, last) if "?1" in rows else ()
        yield table, select(connection, f"select * from {table} {rows}", *days)


def import_rows(connection: sqlite3.Connection, read: Callable[[str], Iterable[Row]]) -> None:
    """Fill empty tables with exported rows. `read` returns the rows for a table name.

    Rows from an older nightbook may lack columns that have a default value. Raises `ValueError` if
    the rows differ from the table's columns in any other way.
    """
    for table in _EXPORTED:
        columns = select(connection, f"pragma table_info({table})")
        known = {column["name"] for column in columns}
        required = {column["name"] for column in columns if column["dflt_value"] is None}
        rows = list(read(table))
        given = set(rows[0]) if rows else known
        if not required <= given <= known or any(row.keys() != given for row in rows):
            raise ValueError(f"the rows for the {table} table do not match its columns")
        insert(connection, table, rows)


def _insertion(verb: str, table: str, row: Row) -> str:
    return f"{verb} into {table} ({', '.join(row)}) values ({', '.join('?' * len(row))})"


def _to_sqlite(value: object) -> Any:
    """Convert a value for SQLite: dates become ISO 8601 text, and collections become JSON."""
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
        return value
    return value.isoformat() if isinstance(value, date) else to_json(value)


def _from_sqlite(row: tuple[Any, ...]) -> Iterable[Any]:
    if bytes not in map(type, row):
        return row
    return (item.decode("utf-8", "surrogatepass") if type(item) is bytes else item for item in row)


def _row(record: Any, table: str, left_out: Collection[str] = ()) -> Row:
    """Convert a record to a row, with its fields keyed by column name."""
    row = structs.asdict(record) if isinstance(record, msgspec.Struct) else asdict(record)
    for name in left_out:
        row.pop(name, None)
    for name, column in _RENAMED.get(table, {}).items():
        if name in row:
            row[column] = row.pop(name)
    return row


def _fields(row: Row, table: str) -> Row:
    """Convert a row to a record's fields. The result may contain columns that are not fields."""
    fields = row.copy()
    for name, column in _RENAMED.get(table, {}).items():
        fields[name] = fields.pop(column)
    for name in fields.keys() & _JSON_FIELDS:
        fields[name] = json.loads(fields[name]) if fields[name] else fields[name]
    return fields


def _break_rows(no: int, state: str, breaks: Iterable[Break]) -> Iterator[Row]:
    for place, break_ in enumerate(breaks):
        key = dict(zip(break_.fields, break_.key, strict=True))
        row = _row(break_, "breaks", ("key",))
        row.update(run_no=no, place=place, state=state)
        for name in FIELDS:
            row[name] = key.get(name)
        yield row


def _group(rows: Iterable[Row], column: str) -> dict[Any, list[Row]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[column]].append(row)
    return groups


def _add_parts(
    rows: Iterable[Row], field: str, parts: Iterable[Row], owner: str, table: str = ""
) -> None:
    """Attach to each row the parts whose `owner` column contains the row's number."""
    groups = _group(parts, owner)
    for row in rows:
        row[field] = [_fields(part, table) for part in groups[row["no"]]]
