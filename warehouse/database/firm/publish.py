"""The firm's book: built aside from what its sources published, and swapped in as a home's is.

A source that cannot be read costs the others nothing: the book says so, and holds of it what it
held before, also if the file is built anew.
"""

# ruff: noqa: S608 - names are ours

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.contract.ops import BUILD
from warehouse.contract.reconciliation import RECONCILED
from warehouse.database import ddl as ddl_of_source
from warehouse.database import load
from warehouse.database.firm import ddl, gate
from warehouse.database.firm.load import (
    SourceUnreadable,
    carry_source,
    load_source,
    remove_source,
)
from warehouse.database.load import fill
from warehouse.database.new_version import build_upon_last, new_version
from warehouse.database.versions import VERSIONS_GB, newest_whole, seal
from warehouse.progress import Say, Tally, silent
from warehouse.query.firm_state import FirmNight, FirmState, known_sources, state_of
from warehouse.storage.firm import FIRM, Firm, Source
from warehouse.storage.layout import STORAGE_VERSION, Layout

_PATTERN = "pattern"
_KEPT = "kept"


class HistoryAtRisk(Exception):
    """The firm's file must be built anew, and would lose the nights of a source that is away."""

    def __init__(self, source: str, reason: str, problem: str) -> None:
        super().__init__(
            "The firm's book was not published, and what people see did not change. Its file must "
            f"be built anew, but {source} cannot be read, and the nights that the file has of it "
            f"cannot be copied, because {problem}. Make it readable, or take it out of {FIRM}, and "
            f"rebuild the firm's book. It cannot be read because {reason}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmBook:
    """What a publish of a firm did: its file, the date of its book, its sources, and what is new.

    `state` is what the book says about its sources, `changes` say which came and went.
    """

    database: Path
    newest: date | None
    state: FirmState
    changes: tuple[str, ...]

    @property
    def nights(self) -> tuple[FirmNight, ...]:
        """The newest night that was to be taken, source by source."""
        return self.state.nights


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
            last=lambda memory: load.last(layout, file, memory, ddl.schema_version()),
            empty=lambda memory: _empty(layout, file, memory),
            build=lambda connection: _build(connection, layout, build, say),
        )
        seal(file, digests, {}, {})
    return made


def _empty(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection:
    load.remove_copy(file)
    connection = load.connect(layout, file, memory)
    load.run_all(connection, ddl.structure())
    connection.execute("commit")
    # The columns of views are those that an empty warehouse of one source has.
    connection.execute(f"attach ':memory:' as {_PATTERN}")
    connection.execute(f"use {_PATTERN}")
    pattern = (*ddl_of_source.structure(), *ddl_of_source.newest_book(None, None))
    load.run_all(connection, (*pattern, *ddl_of_source.surface()))
    connection.execute("use draft")
    connection.execute("begin")
    load.run_all(connection, ddl.tables_of_views(_PATTERN))
    load.run_all(connection, ddl.surface(None))
    connection.execute("commit")
    connection.execute(f"detach {_PATTERN}")
    connection.execute("begin")
    return connection


def _build(connection: DuckDBPyConnection, layout: Layout, build: FirmBuild, say: Say) -> FirmBook:
    """Bring an open file up to what the sources have published, and close it."""
    with contextlib.closing(connection):
        is_new = not known_sources(connection)
        connection.execute("commit")
        kept = _attach_last(connection, layout) if is_new else None
        known = known_sources(connection, f"{_KEPT}." if kept else "")
        connection.execute("begin")
        for name in known.keys() - {source.name for source in build.firm.sources}:
            remove_source(connection, name)
        connection.execute("commit")
        readings = _read(connection, layout, build, known, say, kept=kept)
        if kept:
            connection.execute(f"detach {_KEPT}")
        connection.execute("begin")
        changes = gate.note_sources(connection, known, readings, build.built_at)
        newest = gate.note_nights(connection, build.day, build.notes)
        gate.note_shared_portfolios(connection, build.firm.owners)
        shared = gate.set_aside(connection)
        shared_lately = gate.set_aside_lately(connection, newest)
        load.run_all(connection, ddl.surface(newest, shared, shared_lately))
        for table in RECONCILED if build.reconciled is not None else ():
            fill(connection, table, (build.reconciled or {}).get(table.name, ()))
        _note_build(connection, newest, build)
        state = state_of(connection)
        load.complete(connection)
    if kept and kept != layout.database.resolve():
        changes += (f"the last version of this file is damaged: {kept.parent.name} was used",)
    return FirmBook(database=layout.database, newest=newest, state=state, changes=changes)


def _attach_last(connection: DuckDBPyConnection, layout: Layout) -> Path | None:
    """Attach the newest whole version of the file, and take over its nights; None if none is."""
    if (file := newest_whole(layout)) is not None:
        connection.execute(f"attach {literal(str(file))} as {_KEPT} (read_only)")
        connection.execute(f"insert into ops.nights by name select * from {_KEPT}.ops.nights")
    return file


def _read(
    connection: DuckDBPyConnection,
    layout: Layout,
    build: FirmBuild,
    known: Mapping[str, Mapping[str, Any]],
    say: Say,
    *,
    kept: Path | None,
) -> dict[str, gate.Reading]:
    """Load every source. Of one that cannot be read, the rows of `kept` are copied."""
    read = Tally(say, len(build.firm.sources), "sources read")
    readings: dict[str, gate.Reading] = {}
    for source in build.firm.sources:
        readings[source.name] = reading = _reading(connection, source, known, kept)
        if isinstance(reading, str) and (kept or not known):
            _keep(connection, layout, source.name, reading, kept)
        read.add(1)
    return readings


def _keep(
    connection: DuckDBPyConnection, layout: Layout, name: str, reason: str, kept: Path | None
) -> None:
    """Copy the rows that the last version has of a source; raises `HistoryAtRisk`."""
    problem = "the last version of its file was made by another nightbook, with other columns"
    if kept is None:
        if layout.database.parent.exists():
            problem = "every version of its file is damaged"
            raise HistoryAtRisk(name, reason, problem)
        return
    connection.execute("begin")
    if not carry_source(connection, name, _KEPT):
        raise HistoryAtRisk(name, reason, problem)
    connection.execute("commit")


def _reading(
    connection: DuckDBPyConnection,
    source: Source,
    known: Mapping[str, Mapping[str, Any]],
    kept: Path | None,
) -> gate.Reading:
    if source.problem:
        return source.problem
    row = known.get(source.name)
    schema = row["schema_version"] if row and not kept else None
    snapshots = f"{_KEPT}.ops.snapshots" if kept else "ops.snapshots"
    try:
        loaded = load_source(connection, source.name, source.layout, schema, snapshots)
    except SourceUnreadable as error:
        return str(error)
    return loaded


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
