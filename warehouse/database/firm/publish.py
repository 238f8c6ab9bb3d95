"""The firm's book: built aside from what its sources published, and swapped in as a home's is.

A source that cannot be read costs the others nothing: the book says so, and holds of it what it
held before.
"""

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.ops import BUILD
from warehouse.contract.reconciliation import RECONCILED
from warehouse.database import ddl as ddl_of_source
from warehouse.database import work_copy
from warehouse.database.firm import ddl, gate
from warehouse.database.firm.load import SourceUnreadable, load_source, remove_source
from warehouse.database.load import fill
from warehouse.database.versions import (
    clear,
    copy_current,
    is_base_intact,
    prune,
    seal,
    swap,
)
from warehouse.progress import Say, Tally, silent
from warehouse.storage.firm import Firm, Source
from warehouse.storage.layout import (
    DATABASE,
    STORAGE_VERSION,
    Layout,
    block_digests,
    make_directory,
    sync_directory,
)

_PATTERN = "pattern"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmBook:
    """What a publish of a firm did: its file, the date of its book, its sources, and what is new.

    `nights` are the rows of the gate for the newest night that was to be taken, whether or not any
    source has it; `changes` are sources that came and went.
    """

    database: Path
    newest: date | None
    nights: tuple[gate.FirmNight, ...]
    changes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmBuild:
    """What a firm's book is built of: its sources, tonight's date, and who builds it when.

    `notes` say of a source why it has no night of that date; `reconciled` are the rows of the
    firm's own reconciliation.
    """

    firm: Firm
    version: str
    built_at: datetime
    program_version: str
    day: date | None = None
    notes: Mapping[str, str] = field(default_factory=dict)
    reconciled: Mapping[str, Sequence[Mapping[str, Any]]] | None = None


def publish_firm(
    layout: Layout, build: FirmBuild, *, fresh: bool = False, say: Say = silent
) -> FirmBook:
    """Make the firm's book of what its sources have published, seen at once and whole.

    One writer at a time: the caller holds `layout.lock`. Nights that are as they were are kept,
    unless `fresh` or the schema has changed.
    """
    versions = layout.warehouse / "versions"
    clear(layout, versions, build.version)
    aside = versions / f".tmp-{build.version}"
    make_directory(aside)
    try:
        file = aside / DATABASE
        made = _in_memory(layout, build, file, fresh=fresh, say=say)
        seal(aside, file, block_digests(file), {})
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    aside.rename(versions / build.version)
    sync_directory(versions)
    swap(layout, build.version)
    prune(versions, build.version)
    return made


def _in_memory(layout: Layout, build: FirmBuild, file: Path, *, fresh: bool, say: Say) -> FirmBook:
    for memory in work_copy.MEMORY[:-1]:
        with contextlib.suppress(duckdb.OutOfMemoryException):
            return _build_file(layout, build, file, memory, fresh=fresh, say=say)
        work_copy.remove(file)
    return _build_file(layout, build, file, work_copy.MEMORY[-1], fresh=fresh, say=say)


def _build_file(
    layout: Layout, build: FirmBuild, file: Path, memory: str, *, fresh: bool, say: Say
) -> FirmBook:
    """Build upon the last version where that is what was published, else anew."""
    expected = () if fresh else copy_current(layout, file)
    upon = _last(layout, file, memory) if expected else None
    if upon is not None:
        made = _build(upon, layout, build, say)
        if is_base_intact(layout, expected, block_digests(file)):
            return made
    return _build(_empty(layout, file, memory), layout, build, say)


def _last(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection | None:
    with contextlib.suppress(duckdb.Error):
        connection = work_copy.connect(layout, file, memory)
        rows = connection.execute("select schema_version from ops.build").fetchall()
        if rows == [(ddl.schema_version(),)]:
            return connection
        connection.close()
    return None


def _empty(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection:
    work_copy.remove(file)
    connection = work_copy.connect(layout, file, memory)
    work_copy.run_all(connection, ddl.structure())
    connection.execute("commit")
    # The columns of views are those that an empty warehouse of one source has.
    connection.execute(f"attach ':memory:' as {_PATTERN}")
    connection.execute(f"use {_PATTERN}")
    pattern = (*ddl_of_source.structure(), *ddl_of_source.newest_book(None, None))
    work_copy.run_all(connection, (*pattern, *ddl_of_source.surface()))
    connection.execute("use draft")
    connection.execute("begin")
    work_copy.run_all(connection, ddl.tables_of_views(_PATTERN))
    work_copy.run_all(connection, ddl.surface(None))
    connection.execute("commit")
    connection.execute(f"detach {_PATTERN}")
    connection.execute("begin")
    return connection


def _build(connection: DuckDBPyConnection, layout: Layout, build: FirmBuild, say: Say) -> FirmBook:
    """Bring an open file up to what the sources have published, and close it."""
    with contextlib.closing(connection):
        known = gate.known_sources(connection)
        for name in known.keys() - {source.name for source in build.firm.sources}:
            remove_source(connection, name)
        connection.execute("commit")
        read = Tally(say, len(build.firm.sources), "sources read")
        readings: dict[str, gate.Reading] = {}
        for source in build.firm.sources:
            row = known.get(source.name)
            readings[source.name] = _reading(
                connection, source, row["schema_version"] if row else None
            )
            read.add(1)
        connection.execute("begin")
        changes = gate.note_sources(connection, known, readings, build.built_at)
        newest = gate.note_nights(connection, build.day, build.notes)
        work_copy.run_all(connection, ddl.surface(newest))
        for table in RECONCILED if build.reconciled is not None else ():
            fill(connection, table, (build.reconciled or {}).get(table.name, ()))
        _note_build(connection, newest, build)
        nights = gate.last_nights(connection)
        work_copy.complete(connection)
    return FirmBook(database=layout.database, newest=newest, nights=nights, changes=changes)


def _reading(
    connection: DuckDBPyConnection, source: Source, known_schema: str | None
) -> gate.Reading:
    try:
        return load_source(connection, source.name, source.layout, known_schema)
    except SourceUnreadable as error:
        return str(error)


def _note_build(connection: DuckDBPyConnection, newest: date | None, build: FirmBuild) -> None:
    row = {
        "version": build.version,
        "built_at": build.built_at,
        "newest_date": newest,
        "program_version": build.program_version,
        "schema_version": ddl.schema_version(),
        "upgraded_from": None,
        "duckdb_version": duckdb.__version__,
        "storage_version": STORAGE_VERSION,
    }
    fill(connection, BUILD, [row])
