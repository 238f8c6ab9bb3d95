"""Records as rows of the tables in `schema.sql`, and rows as records.

Every function takes an open connection and commits nothing. Text that is not valid Unicode (a lone
surrogate from a damaged file) is stored as bytes, because SQLite text cannot hold it.
"""

# ruff: noqa: S608 - names of tables and columns are ours, or checked by `import_rows`

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from itertools import chain
from typing import Any, Final

import msgspec
from msgspec import structs

from warehouse.reconcile.model import (
    Annotation,
    Break,
    Closing,
    Notice,
    Restatement,
    Run,
    Signature,
)
from warehouse.reconcile.terms import FIELDS

Row = dict[str, Any]
_BREAK: Final = "break"
_NOT_COMPARED: Final = "not compared"
_RESOLVED: Final = "resolved"
# Names of columns that differ from the field of the record.
_OF_BREAK = {"id": "break_id", "rows": "ledger_rows"}
_OF_RUN = {"settings_digest": "settings_sha256", "by": "made_by"}
_OF_SOURCE = {"rows": "row_count"}
_OF_NOTICE = {"words": "message", "where": "location"}
_OF_TIE = {"of": "name"}
_SHOWN = (
    "counts",
    "coverage",
    "workbook",
    "evidence",
)  # read as a whole, so they are one JSON text
_CHAIN = (
    "with recursive chain(no) as (select ? union all "
    "select prior from runs join chain using (no) where prior is not null) "
)


def insert(connection: sqlite3.Connection, table: str, rows: Iterable[Row]) -> None:
    """Insert rows, which all have the same columns, into a table."""
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return
    values = ", ".join("?" * len(first))
    connection.executemany(
        f"insert into {table} ({', '.join(first)}) values ({values})",
        ([_to_sqlite(value) for value in row.values()] for row in chain([first], rows)),
    )


def select(connection: sqlite3.Connection, sql: str, *parameters: object) -> list[Row]:
    """Return all rows of a query. The read lock ends with the call."""
    cursor = connection.execute(sql, [_to_sqlite(value) for value in parameters])
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, map(_read, row), strict=True)) for row in cursor.fetchall()]


def _to_sqlite(value: object) -> Any:
    """Return a value as SQLite stores it."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    return value


def _read(value: Any) -> Any:
    return value.decode("utf-8", "surrogatepass") if isinstance(value, bytes) else value


def to_json(value: object) -> str:
    """Return a value as JSON in ASCII."""
    return json.dumps(msgspec.to_builtins(value), sort_keys=True)


def _columns(record: msgspec.Struct, names: Mapping[str, str], left: Collection[str] = ()) -> Row:
    """Return the fields of a record by column; dates become ISO 8601 text."""
    fields = ((name, value) for name, value in structs.asdict(record).items() if name not in left)
    return {
        names.get(name, name): value
        if value is None or isinstance(value, str | int)
        else str(msgspec.to_builtins(value))
        for name, value in fields
    }


def _fields(row: Row, names: Mapping[str, str], left: Collection[str] = ()) -> Row:
    """Return a row by the names of the fields of its record."""
    fields = {column: name for name, column in names.items()}
    return {fields.get(name, name): value for name, value in row.items() if name not in left}


def insert_run(
    connection: sqlite3.Connection,
    run: Run,
    *,
    no: int | None,
    day_no: int,
    prior: int | None,
) -> int:
    """Store a run and return its number; a run that has this number already is replaced."""
    row = _run_row(run) | {"no": no, "day_no": day_no, "prior": prior}
    if no is None:
        insert(connection, "runs", [row])
        [(no,)] = connection.execute("select last_insert_rowid()").fetchall()
    else:
        for table in ("breaks", "carried", "ties", "run_inputs", "notices"):
            connection.execute(f"delete from {table} where run_no = ?", [no])
        changes = ", ".join(f"{name} = :{name}" for name in row)
        values = {name: _to_sqlite(value) for name, value in row.items()}
        connection.execute(f"update runs set {changes} where no = :no", values)
    groups = ((_BREAK, run.breaks), (_NOT_COMPARED, run.not_compared), (_RESOLVED, run.resolved))
    for state, breaks in groups:
        insert(connection, "breaks", _break_rows(no, state, breaks))
    for table, records, names in (
        ("ties", run.ties, _OF_TIE),
        ("notices", run.notices, _OF_NOTICE),
    ):
        rows = (
            _of_run(no, place, _notice_or_tie(item, names)) for place, item in enumerate(records)
        )
        insert(connection, table, rows)
    sources = (_source_row(source) for source in run.sources)
    rows = (_of_run(no, place, source) for place, source in enumerate(sources))
    insert(connection, "run_inputs", rows)
    return no


def _run_row(run: Run) -> Row:
    return {
        "day": run.day.isoformat(),
        "run_id": run.run_id,
        "digest": run.digest,
        "name": run.name,
        "snapshot_id": run.snapshot_id,
        "fields": to_json(run.fields),
        "settings_sha256": run.settings_digest,
        "own_settings": to_json(run.day_settings) if run.day_settings else None,
        "rejected": run.rejected,
        "uncovered": run.uncovered,
        "revision": run.revision,
        "written": run.written,
        "made_at": run.made_at,
        "made_by": run.by,
        "shown": to_json({name: getattr(run, name) for name in _SHOWN}),
    }


def _of_run(no: int, place: int, row: Row) -> Row:
    return {"run_no": no, "place": place} | row


def _notice_or_tie(item: Any, names: Mapping[str, str]) -> Row:
    if isinstance(item, Notice):
        return {names.get(name, name): getattr(item, name) for name in item.__slots__}
    return _columns(item, names)


def _source_row(source: msgspec.Struct) -> Row:
    json_columns = ("skipped", "fields", "covers")
    row = _columns(source, _OF_SOURCE, json_columns)
    return row | {name: to_json(getattr(source, name)) for name in json_columns}


def _break_rows(no: int, state: str, breaks: Iterable[Break]) -> Iterator[Row]:
    for place, break_ in enumerate(breaks):
        key = dict(zip(break_.fields, break_.key, strict=True))
        row = {"run_no": no, "place": place, "state": state}
        row |= _columns(break_, _OF_BREAK, ("key", "names"))
        row |= {name: key.get(name) for name in FIELDS}
        yield row | {"names": to_json(break_.names)}


def break_of(row: Row) -> Row:
    """Return the fields of a break from its row."""
    left = ("run_no", "place", "state", *FIELDS)
    if row["state"] != _RESOLVED:
        left = (*left, "closed_on", "closed_because")
    fields = _fields(row, _OF_BREAK, left)
    key = [row[name] for name in FIELDS if row[name] is not None]
    return fields | {"key": key, "names": msgspec.json.decode(row["names"])}


def read_run(connection: sqlite3.Connection, row: Row) -> Run:
    """Return the run of a row of `runs`."""
    no = row["no"]
    breaks: dict[str, list[Row]] = defaultdict(list)
    for item in select(
        connection, "select * from breaks where run_no = ? order by state, place", no
    ):
        breaks[item["state"]].append(break_of(item))
    left = ("no", "prior", "day_no", "settings_sha256", "own_settings", "shown", "fields")
    of_run = "where run_no = ? order by place"
    ties = select(connection, f"select * from ties {of_run}", no)
    notices = select(connection, f"select * from notices {of_run}", no)
    sources = select(connection, f"select * from run_inputs {of_run}", no)
    place = ("run_no", "place", "revision")
    own_settings = row["own_settings"]
    fields = _fields(row, _OF_RUN, left) | {
        "no": row["day_no"],
        "fields": msgspec.json.decode(row["fields"]),
        "breaks": breaks[_BREAK],
        "not_compared": breaks[_NOT_COMPARED],
        "resolved": breaks[_RESOLVED],
        "day_settings": msgspec.json.decode(own_settings) if own_settings else None,
        "ties": [_fields(tie, _OF_TIE, place) for tie in ties],
        "notices": [_fields(notice, _OF_NOTICE, place) for notice in notices],
        "sources": [_source(source) for source in sources],
    }
    return msgspec.convert(fields | msgspec.json.decode(row["shown"]), Run)


def _source(row: Row) -> Row:
    fields = _fields(row, _OF_SOURCE, ("run_no", "place", "fingerprint"))
    decoded = {name: msgspec.json.decode(row[name]) for name in ("skipped", "fields", "covers")}
    return fields | decoded | {"print": row["fingerprint"]}  # its name in records


def latest_occurrences(
    connection: sqlite3.Connection, run_no: int, ids: Collection[str]
) -> dict[str, tuple[int, str]]:
    """Return for each break its last occurrence up to a run, and the first day of its first one.

    Breaks that never occurred are left out.
    """
    found: dict[str, tuple[int, str]] = {}
    connection.execute("create temp table if not exists asked (break_id text primary key)")
    connection.execute("delete from asked")
    connection.executemany("insert or ignore into asked values (?)", ((id_,) for id_ in ids))
    rows = connection.execute(
        f"{_CHAIN} select break_id, max(episode), min(ever_seen) from ("
        "select break_id, episode, ever_seen from breaks join asked using (break_id) "
        "where state = 'break' and run_no in chain union all "
        "select break_id, episode, ever_seen from carried join asked using (break_id) "
        "where run_no in chain) group by break_id",
        [run_no],
    )
    found |= {id_: (episode, ever_seen) for id_, episode, ever_seen in rows.fetchall()}
    return found


def insert_annotation(connection: sqlite3.Connection, note: Annotation) -> None:
    """Store what a workbook or the engine said."""
    left = ("entries", "notices", "replaces")
    insert(connection, "revisions", [_columns(note, {}, left)])
    insert(
        connection,
        "replacements",
        ({"revision": old, "replaced_by": note.no} for old in note.replaces),
    )
    entries = (structs.asdict(entry) for entry in note.entries)
    numbered = ({"revision": note.no, "entry_no": no} | row for no, row in enumerate(entries, 1))
    insert(connection, "entries", numbered)
    notices = (_notice_or_tie(notice, _OF_NOTICE) for notice in note.notices)
    placed = ({"revision": note.no, "place": no} | row for no, row in enumerate(notices))
    insert(connection, "notices", placed)


def read_annotations(connection: sqlite3.Connection) -> list[Annotation]:
    """Return everything that workbooks and the engine said, the oldest first."""
    parts: dict[str, dict[int, list[Any]]] = {
        "entries": defaultdict(list),
        "notices": defaultdict(list),
        "replaces": defaultdict(list),
    }
    for row in select(connection, "select * from entries order by revision, entry_no"):
        entry = _fields(row, {}, ("revision", "entry_no"))
        parts["entries"][row["revision"]].append(
            entry | {"is_restored": bool(entry["is_restored"])}
        )
    for row in select(
        connection, "select * from notices where revision is not null order by revision, place"
    ):
        notice = _fields(row, _OF_NOTICE, ("revision", "run_no", "place"))
        parts["notices"][row["revision"]].append(notice)
    for row in select(connection, "select * from replacements order by replaced_by, revision"):
        parts["replaces"][row["replaced_by"]].append(row["revision"])
    rows = select(connection, "select * from revisions order by no")
    return [
        msgspec.convert(row | {name: part[row["no"]] for name, part in parts.items()}, Annotation)
        for row in rows
    ]


def insert_signature(connection: sqlite3.Connection, signature: Signature) -> None:
    """Store a signature."""
    insert(connection, "signatures", [_columns(signature, {})])


def read_signatures(connection: sqlite3.Connection) -> list[Signature]:
    """Return all signatures, the oldest first."""
    return msgspec.convert(
        select(connection, "select * from signatures order by no"), list[Signature]
    )


def insert_restatement(connection: sqlite3.Connection, restatement: Restatement) -> None:
    """Store that a closed day was run again."""
    insert(connection, "restatements", [_columns(restatement, {})])


def read_restatements(connection: sqlite3.Connection) -> list[Restatement]:
    """Return all restatements, the oldest first."""
    rows = select(connection, "select * from restatements order by no")
    return msgspec.convert(rows, list[Restatement])


def insert_closing(connection: sqlite3.Connection, closing: Closing) -> None:
    """Store the close of a month with its days."""
    insert(connection, "closings", [_columns(closing, {}, ("days",))])
    insert(
        connection,
        "closed_days",
        ({"closing": closing.no} | _columns(day, {}) for day in closing.days),
    )


def read_closings(connection: sqlite3.Connection) -> list[Closing]:
    """Return all closings, the oldest first."""
    days: dict[int, list[Row]] = defaultdict(list)
    for row in select(connection, "select * from closed_days order by closing, day"):
        days[row["closing"]].append(_fields(row, {}, ("closing",)))
    rows = select(connection, "select * from closings order by no")
    return [msgspec.convert(row | {"days": days[row["no"]]}, Closing) for row in rows]


# Each table of a pack in the order of its rows, with the condition for the runs of some days.
_OF_RUNS = "where run_no in (select no from runs where day between ?1 and ?2)"
_EXPORTED = {
    "runs": "where day between ?1 and ?2 order by no",
    "breaks": f"{_OF_RUNS} order by run_no, state, place",
    "carried": f"{_OF_RUNS} order by run_no, break_id",
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


def export(
    connection: sqlite3.Connection, first: date, last: date
) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of each table: runs of some days, and everything that people wrote."""
    for table, rows in _EXPORTED.items():
        days = (first.isoformat(), last.isoformat()) if "?1" in rows else ()
        yield table, select(connection, f"select * from {table} {rows}", *days)


def import_rows(connection: sqlite3.Connection, read: Callable[[str], Iterable[Row]]) -> None:
    """Fill empty tables with exported rows; `read` returns the rows of a table by its name.

    Raises `ValueError` if rows have other columns than their table.
    """
    for table in _EXPORTED:
        known = {row["name"] for row in select(connection, f"pragma table_info({table})")}
        rows = list(read(table))
        if any(row.keys() != known for row in rows):
            raise ValueError(f"the rows of {table} do not have its columns")
        insert(connection, table, rows)
