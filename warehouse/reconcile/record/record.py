"""A reconciliation's state: the SQLite file `record.db` in the `reconcile` folder of a home.

A run commits once before it writes its files. A second transaction then records the written files.
Files that people use (inbox, recon.toml, workbooks, packs) and archived inputs are not in the
database. The database contains the digests of the packs, so a damaged pack is found.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from warehouse.contract.reconciliation import RECORD_FOLDERS
from warehouse.reconcile.model import Annotation, Closing, Restatement, Run, Signature
from warehouse.reconcile.record import tables
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import FILE_MODE, digest_of, make_directory

NAME = "record.db"
VERSION = 1  # the schema version, which SQLite stores as user_version
WAIT = 30  # maximum number of seconds to wait while another process writes
_FILES_OF_0_1_0 = ("results", "annotations", "signoffs", "closings", "read.json", "seen.json")
_SCHEMA = Path(__file__).with_name("schema.sql")
_DECLARED = """
    select m.name, c.name, c.type, c."notnull", c.dflt_value
    from sqlite_master as m, pragma_table_info(m.name) as c where m.type = 'table'
"""
_VIEWS = "select name, sql from sqlite_master where type = 'view'"
_Value = TypeVar("_Value")


class DayFiles(NamedTuple):
    """The files that a run writes for a day: workbook, positions (Parquet) and breaks (CSV)."""

    workbook: Path
    positions: Path
    breaks: Path


class RecordTable(Generic[tables.Numbered]):
    """A table of all records of one kind, oldest first.

    It supports iterating and adding records.
    """

    def __init__(self, record: "Record", kind: type[tables.Numbered]) -> None:
        self._record = record
        self._kind: type[tables.Numbered] = kind

    def __iter__(self) -> Iterator[tables.Numbered]:
        read = partial(tables.read_records, kind=self._kind)
        return iter(self._record.read_once(self._kind, read))

    def add(self, item: tables.Numbered) -> None:
        """Append a record, which gets the next number."""
        with self._record.transaction() as connection:
            table = tables.NUMBERED_TABLES[self._kind]
            numbers = f"select coalesce(max(no), 0) + 1 from {table}"  # noqa: S608 - our own name
            [(no,)] = connection.execute(numbers).fetchall()
            tables.insert_record(connection, replace(item, no=no))
            self._record.forget(self._kind)


class Record:
    """The folder `<home>/reconcile`, with its files and the state in `record.db`.

    Every method raises `NotReconciled` if the database is damaged, locked by another writer, or
    written by a newer version of nightbook, or if the folder has the JSON files of version 0.1.0
    instead. Not thread-safe.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "recon.toml"
        self.inbox = root / "inbox"
        self.out = root / "out"
        self.database = root / NAME
        self.annotations = RecordTable(self, Annotation)
        self.signatures = RecordTable(self, Signature)
        self.restatements = RecordTable(self, Restatement)
        self.closings = RecordTable(self, Closing)
        self._transaction: sqlite3.Connection | None = None
        self._cache: dict[object, Any] = {}

    @property
    def reconciliation(self) -> str:
        """The name of the reconciliation, as in `ops.breaks`."""
        return "movements" if self.root.name == RECORD_FOLDERS["movements"] else "ledger"

    @property
    def option(self) -> str:
        """The option that selects this record, to add to a command in a message."""
        return " --movements" if self.reconciliation == "movements" else ""

    def make(self) -> None:
        """Create the inbox and the output folder."""
        make_directory(self.inbox)
        make_directory(self.out)

    def day_files(self, day: date) -> DayFiles:
        """Return the paths for a day's files, whether the files exist or not."""
        folder = self.out / day.isoformat()
        return DayFiles(
            workbook=folder / f"recon_{day}.xlsx",
            positions=folder / f"positions_{day}.parquet",
            breaks=folder / f"breaks_{day}.machines.csv",
        )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all changes in the block, or none if the block raises an error. Can be nested."""
        if self._transaction is not None:
            yield self._transaction
            return
        with self._reporting(), closing(self._open_for_writing()) as connection:
            connection.execute("begin immediate")
            self._transaction = connection
            self._cache.clear()
            try:
                yield connection
                connection.execute("commit")
            except BaseException:
                self._cache.clear()
                with suppress(sqlite3.Error):
                    connection.execute("rollback")
                raise
            finally:
                self._transaction = None

    @contextmanager
    def open_for_queries(self) -> Iterator[sqlite3.Connection]:
        """Open the state for queries.

        Fetch all rows inside the block, because an unfinished query blocks writers.
        """
        if self._transaction is not None:
            yield self._transaction
            return
        with self._reporting(), closing(self._open_for_reading()) as connection:
            yield connection

    def select(self, sql: str, *parameters: object) -> list[tables.Row]:
        """Return all rows of a query."""
        with self.open_for_queries() as connection:
            return tables.select(connection, sql, *parameters)

    def read_once(self, name: object, read: Callable[[sqlite3.Connection], _Value]) -> _Value:
        """Call `read` once and cache the result, so that a command always sees the same state."""
        if name not in self._cache:
            with self.open_for_queries() as connection:
                self._cache[name] = read(connection)
        value: _Value = self._cache[name]
        return value

    def forget(self, name: object) -> None:
        """Drop a cached value, so that the next `read_once` reads the database."""
        self._cache.pop(name, None)

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise self._unreadable(error) from error
            raise NotReconciled(
                f"{self.database} has been in use by another command for more than {WAIT} s. "
                "Nothing was changed. Run this command again when the other command has finished."
            ) from error
        except (sqlite3.Error, msgspec.ValidationError, msgspec.DecodeError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> NotReconciled:
        return NotReconciled(
            f"{self.database} cannot be read ({type(error).__name__}: {str(error)[:200]}), because "
            "it was changed or damaged, or written by an older version. Nothing was reconciled and "
            "nothing was changed. Restore its folder from the backup."
        )

    def _open_for_reading(self) -> sqlite3.Connection:
        if not self._exists():
            return _empty()
        # If a killed writer left a journal, SQLite must roll it back, which needs write permission.
        may_write = os.access(self.database, os.W_OK) and os.access(self.root, os.W_OK)
        connection = _connect(self.database, "rw" if may_write else "ro")
        if not self._version(connection):
            connection.close()
            return _empty()
        if may_write or not _missing(connection):
            _add_missing(connection)
            return connection
        with closing(connection):
            copy = sqlite3.connect(":memory:", isolation_level=None)
            connection.backup(copy)
        _add_missing(copy)
        return copy

    def _open_for_writing(self) -> sqlite3.Connection:
        make_directory(self.root)
        if not self._exists():
            # Create the file with the right permissions, because SQLite creates the journal with
            # the same permissions.
            with suppress(FileExistsError):
                os.close(os.open(self.database, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
        connection = _connect(self.database, "rw")
        if not self._version(connection):
            _create_tables(connection)
        _add_missing(connection)
        return connection

    def _version(self, connection: sqlite3.Connection) -> int:
        try:
            [(version,)] = connection.execute("pragma user_version").fetchall()
        except BaseException:
            connection.close()
            raise
        if version > VERSION:
            connection.close()
            raise NotReconciled(
                f"{self.database} was written by a newer version of nightbook (format "
                f"{version}, but this version reads only formats up to {VERSION}). Nothing was "
                "changed. Use the newer version."
            )
        return int(version)

    def _exists(self) -> bool:
        """Return whether the database exists. Refuse the JSON files of version 0.1.0."""
        if self.database.exists():
            return True
        if any((self.root / name).exists() for name in _FILES_OF_0_1_0):
            raise NotReconciled(
                f"{self.root} was written by nightbook 0.1.0 or older, whose files this version "
                "cannot read, so nothing was reconciled and nothing was changed: read it with that "
                "version, or move it aside to start a new reconciliation."
            )
        return False

    def import_tables(self) -> None:
        """Fill the empty database with the tables and imprints of a pack, unpacked in the folder.

        Raises `ValueError` if the rows do not match the tables.
        """
        with self._reporting(), closing(self._open_for_writing()) as connection:
            # Do not check foreign keys, because runs in a pack refer to the previous month's runs,
            # which are not in the pack.
            connection.execute("pragma foreign_keys = off")
            connection.execute("begin immediate")
            tables.import_rows(connection, lambda name: _lines(self.root / f"{name}.jsonl"))
            for path in sorted((self.root / "written").glob("*.json.gz")):
                imprint = [path.name.removesuffix(".json.gz"), path.read_bytes()]
                connection.execute("insert into imprints values (?, ?)", imprint)
            connection.execute("commit")

    def days(self) -> list[date]:
        """Return the days that have a result, oldest first."""
        days = partial(tables.select, sql="select distinct day from runs order by day")
        return [date.fromisoformat(row["day"]) for row in self.read_once("days", days)]

    def is_newest(self, day: date) -> bool:
        """Return whether no later day has a result."""
        return all(day >= stored for stored in self.days())

    def runs_of(self, day: date) -> list[Run]:
        """Return all results for a day, oldest first."""
        return self._runs("where day = ? order by day_no", day)

    def result(self, day: date) -> Run | None:
        """Return the latest result for a day."""
        return self._first("where day = ? order by day_no desc", day)

    def result_of(self, run_id: str) -> Run | None:
        """Return the latest stored result with this run ID."""
        return self._first("where run_id = ? order by day desc, day_no desc", run_id)

    def result_before(self, day: date) -> Run | None:
        """Return the latest result for the last reconciled day before `day`."""
        return self._first("where day < ? order by day desc, day_no desc", day)

    def _first(self, condition: str, value: object) -> Run | None:
        return next(iter(self._runs(f"{condition} limit 1", value)), None)

    def _runs(self, condition: str, value: object) -> list[Run]:
        rows = self.select(f"select * from runs {condition}", value)  # noqa: S608 - our own conditions
        return [
            self.read_once(("run", row["no"]), partial(tables.read_run, row=row)) for row in rows
        ]

    def latest_occurrences(self, before: date, ids: Collection[str]) -> dict[str, tuple[int, str]]:
        """Map break IDs to their last occurrence before a day, and the day they were first seen."""
        with self.open_for_queries() as connection:
            prior = _prior_run(connection, before)
            return tables.latest_occurrences(connection, prior, ids) if prior else {}

    def add_result(self, result: Run) -> Run:
        """Store a run's result, and return it with its number among the day's results.

        If the day's latest result has the same run ID, the new result replaces it, because it is
        the same result computed a second time.
        """
        newest = "select no, day_no, run_id from runs where day = ? order by day_no desc limit 1"
        with self.transaction() as connection:
            last = next(iter(tables.select(connection, newest, result.day)), None)
            is_same = last is not None and last["run_id"] == result.run_id
            result = replace(result, no=(last["day_no"] if last else 0) + (not is_same))
            tables.insert_run(
                connection,
                result,
                no=last["no"] if last and is_same else None,
                prior=_prior_run(connection, result.day),
            )
            self._cache.clear()
            return result

    def lessons(self) -> dict[str, dict[str, str]]:
        """Return the stored decisions on how to read ledgers, by header fingerprint."""
        lessons: dict[str, dict[str, str]] = {}
        for row in self.select("select * from lessons order by fingerprint, name"):
            lessons.setdefault(row["fingerprint"], {})[row["name"]] = row["value"]
        return lessons

    def store_lessons(self, lessons: Mapping[str, Mapping[str, str]]) -> None:
        """Replace all stored decisions on how to read ledgers."""
        with self.transaction() as connection:
            rows = (
                {"fingerprint": fingerprint, "name": name, "value": value}
                for fingerprint, learned in lessons.items()
                for name, value in learned.items()
            )
            connection.execute("delete from lessons")
            tables.insert(connection, "lessons", rows)

    def ledgers_before(self, day: date) -> frozenset[str]:
        """Return the digests of the ledgers that were used to reconcile an earlier day."""
        before = self.result_before(day)
        rows = self.select("select sha256 from ledgers_read where first_day < ?", day)
        read_earlier = (source.sha256 for source in (before.sources if before else ()))
        return frozenset([*(row["sha256"] for row in rows), *read_earlier])

    def add_ledgers(self, digests: Iterable[str], day: date) -> None:
        """Store the first day on which each ledger was used, unless an earlier day is stored."""
        with self.transaction() as connection:
            connection.executemany(
                "insert into ledgers_read values (?, ?) on conflict (sha256) do update "
                "set first_day = min(first_day, excluded.first_day)",
                [(digest, day.isoformat()) for digest in digests],
            )

    def known_workbooks(self) -> frozenset[str]:
        """Return the digests of workbooks that we wrote or have already read back."""
        rows = self.select("select sha256 from workbooks_seen union select sha256 from revisions")
        return frozenset(row["sha256"] for row in rows)

    def add_workbooks(self, digests: Iterable[str]) -> None:
        """Store the digests of workbooks that must not be read back."""
        with self.transaction() as connection:
            rows = ((digest,) for digest in digests)
            connection.executemany("insert or ignore into workbooks_seen values (?)", rows)

    def imprint(self, identity: str) -> bytes | None:
        """Return a stored imprint (a workbook's compressed cells) by its identity, or None."""
        with self.open_for_queries() as connection:
            sql = "select content from imprints where identity = ?"
            row = connection.execute(sql, [identity]).fetchone()
        return row[0] if row else None

    def add_imprint(self, identity: str, content: bytes) -> None:
        """Store a workbook's imprint (its compressed cells), which can be compared with copies."""
        with self.transaction() as connection:
            connection.execute("insert or replace into imprints values (?, ?)", [identity, content])

    def problem(self) -> str:
        """Describe the damage to the database, or return an empty string if it is intact.

        Raises `NotReconciled` if the database cannot be checked, because it is locked or was
        written by a newer version of nightbook.
        """
        try:
            rows = self.select("pragma integrity_check")
        except NotReconciled as error:
            cause = error.__cause__
            if cause is None or isinstance(cause, sqlite3.OperationalError):
                raise
            return f"{self.database.name} cannot be read ({cause})"
        found = "; ".join(str(row["integrity_check"]) for row in rows[:3])
        return "" if found == "ok" else f"{self.database.name} is damaged: {found}"


def records_of(home: Path) -> list[Record]:
    """Return the records of a home, one for each reconciliation that it has."""
    folders = (home / folder for folder in RECORD_FOLDERS.values())
    return [Record(folder) for folder in folders if folder.is_dir()]


def packs(record: Record) -> Path:
    """Return the folder that contains all packs."""
    return record.root / "packs"


def pack_problem(record: Record, closing: Closing) -> str:
    """Describe the problem with a pack file, or return an empty string if it is intact."""
    path = packs(record) / closing.pack
    if not path.is_file():
        return f"the pack {closing.pack} is missing"
    is_same = path.stat().st_size == closing.size and digest_of(path) == closing.sha256
    return "" if is_same else f"the pack {closing.pack} has changed since it was written"


@dataclass(frozen=True, slots=True)
class RecordDamage:
    """Damage to the record or to a pack: the file or folder, the problem and the remedy."""

    file: Path
    what: str
    remedy: str
    night: None = None

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


def damaged_packs(folder: Path) -> list[RecordDamage]:
    """Return all damage to the packs of closed months."""
    record = Record(folder)
    place = packs(record)
    remedy = f"restore {place} from the backup"
    return [
        RecordDamage(place, f"{item.month}, version {item.version}: {problem}", remedy)
        for item in record.closings
        if (problem := pack_problem(record, item))
    ]


def find_damage(folder: Path) -> list[RecordDamage]:
    """Check the record's integrity and, if it is intact, the digests of all packs."""
    record = Record(folder)
    if problem := record.problem():
        return [RecordDamage(record.database, problem, f"restore {folder} from the backup")]
    return damaged_packs(folder)


def _lines(path: Path) -> list[tables.Row]:
    return list(map(json.loads, path.read_text("ascii").splitlines())) if path.exists() else []


def _prior_run(connection: sqlite3.Connection, day: date) -> int | None:
    """Return the key of the latest run for the last reconciled day before `day`, or None."""
    sql = "select no from runs where day < ? order by day desc, day_no desc limit 1"
    rows = tables.select(connection, sql, day)
    return rows[0]["no"] if rows else None


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?mode={mode}"
    connection = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None)
    connection.execute("pragma foreign_keys = on")
    # With `extra`, SQLite also synchronizes the folder, so that a commit survives a power cut.
    connection.execute("pragma synchronous = extra")
    return connection


def _empty() -> sqlite3.Connection:
    """Create an empty database in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _create_tables(connection)
    return connection


@cache
def _declarations() -> tuple[dict[tuple[str, str], str], dict[str, str]]:
    """Return the columns in `schema.sql` by table and column name, and the views by name."""
    with closing(_empty()) as connection:
        columns = {
            (table, name): f"{name} {kind}{' not null' * required} default {default or 'null'}"
            for table, name, kind, required, default in connection.execute(_DECLARED)
        }
        return columns, dict(connection.execute(_VIEWS).fetchall())


def _missing(connection: sqlite3.Connection) -> list[str]:
    """Return the statements that give an older database the columns and views of `schema.sql`."""
    columns, views = _declarations()
    present = {(table, name) for table, name, *_ in connection.execute(_DECLARED)}
    statements = [
        f"alter table {table} add column {declaration}"
        for (table, name), declaration in columns.items()
        if (table, name) not in present
    ]
    older = dict(connection.execute(_VIEWS).fetchall())
    for name, sql in views.items():
        statements += [f"drop view if exists {name}", sql] if older.get(name) != sql else ()
    return statements


def _add_missing(connection: sqlite3.Connection) -> None:
    """Add the columns that are new in `schema.sql`, with their default values, and its views.

    Any other schema change needs a new `VERSION` and its own migration.
    """
    if not _missing(connection):
        return
    connection.execute("begin immediate")
    # Check a second time, because another command may have added them in the meantime.
    for statement in _missing(connection):
        connection.execute(statement)
    connection.execute("commit")


def _create_tables(connection: sqlite3.Connection) -> None:
    connection.executescript(f"begin immediate; {_SCHEMA.read_text('utf-8')} commit;")
