"""The firm's book: built aside from what its sources published, and swapped in as a home's is.

A source that cannot be read costs the others nothing: the book says so, and holds of it what it
held before.
"""

import contextlib
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
from warehouse.database.new_version import build_upon_last, new_version
from warehouse.database.versions import VERSIONS_GB, seal
from warehouse.progress import Say, Tally, silent
from warehouse.storage.firm import Firm, Source
from warehouse.storage.layout import STORAGE_VERSION, Layout

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
    layout: Layout,
    build: FirmBuild,
    *,
    fresh: bool = False,
    say: Say = silent,
    versions_gb: int = VERSIONS_GB,
) -> FirmBook:
    """Make the firm's book of what its sources have published, seen at once and whole.

    One writer at a time: the caller holds `layout.lock`. Nights that are as they were are kept,
    unless `fresh` or the schema has changed. Older versions are kept within `versions_gb`.
    """
    with new_version(layout, build.version, versions_gb) as file:
        made, digests = build_upon_last(
            layout,
            file,
            fresh=fresh,
            last=lambda memory: work_copy.last(layout, file, memory, ddl.schema_version()),
            empty=lambda memory: _empty(layout, file, memory),
            build=lambda connection: _build(connection, layout, build, say),
        )
        seal(file, digests, {}, {})
    return made


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
