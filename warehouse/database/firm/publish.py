"""Building the firm's book from its sources' warehouses, and publishing it.

If a source cannot be read, the others are not affected. The book reports the problem and keeps its
existing rows from that source, even if the file is rebuilt.
"""

# ruff: noqa: S608 - names are ours

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal
from warehouse.database import ddl as ddl_of_source
from warehouse.database import load
from warehouse.database.firm import ddl, gate
from warehouse.database.firm.load import (
    SourceUnreadable,
    carry_source,
    load_source,
    remove_source,
)
from warehouse.database.new_version import build_database, new_version, record_build
from warehouse.database.versions import VERSIONS_GB, newest_whole, seal
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.query.firm_state import FirmNight, FirmState, known_sources, state_of
from warehouse.storage.firm import FIRM, Firm, Source
from warehouse.storage.layout import Layout

# Names for two databases that a build attaches: an empty warehouse that provides the columns of all
# views, and the last undamaged version of the firm's file.
_PATTERN = "pattern"
_KEPT = "kept"


class HistoryAtRisk(Exception):
    """The firm's file must be rebuilt, which would lose the nights of an unreadable source."""

    def __init__(self, source: str, reason: str, problem: str) -> None:
        super().__init__(
            "The firm's book was not published, and readers still see the last version. Its file "
            f"must be rebuilt, but {source} cannot be read, and the nights of {source} in the file "
            f"cannot be copied, because {problem}. Make {source} readable, or remove it from "
            f"{FIRM}, then rebuild the firm's book. The source cannot be read because {reason}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmBook:
    """The result of publishing a firm's book: the file and the book's date.

    `state` contains the state of each source, and `changes` the messages about new and removed
    sources.
    """

    database: Path
    newest: date | None
    state: FirmState
    changes: tuple[str, ...]

    @property
    def nights(self) -> tuple[FirmNight, ...]:
        """The rows of the newest requested night, one for each source."""
        return self.state.nights


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmBuild:
    """Inputs for building a firm's book: its sources, the night's date, and the build's version.

    `notes` maps each source without a night on that date to the reason. `reconciled` maps the
    reconciliation tables to the rows of the firm's own reconciliation. If it is None, these tables
    are not changed.
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
    say: ProgressCallback = silent,
    versions_gb: int = VERSIONS_GB,
) -> FirmBook:
    """Publish the firm's book, with its sources' published nights, in one atomic step.

    The caller holds `layout.lock`, so there is only one writer. Unchanged nights are kept, unless
    `fresh` is set or the schema changed. Old versions are deleted if all versions together exceed
    `versions_gb` gigabytes. Raises `HistoryAtRisk` if a rebuild would lose the nights of a source.
    """
    with new_version(layout, build.version, versions_gb) as file:
        steps = _FirmBookBuild(layout, build, say)
        book, digests = build_database(layout, file, steps, fresh=fresh)
        seal(file, digests, {}, {})
    return book


@dataclass(frozen=True, slots=True)
class _FirmBookBuild:
    layout: Layout
    build: FirmBuild
    say: ProgressCallback

    def open_copy(self, file: Path, memory: str) -> DuckDBPyConnection | None:
        return load.open_copy(self.layout, file, memory, ddl.schema_version())

    def create_empty(self, file: Path, memory: str) -> DuckDBPyConnection:
        return _create_empty(self.layout, file, memory)

    def run(self, connection: DuckDBPyConnection) -> FirmBook:
        """Load the sources' published nights into an open database, and close it."""
        layout, build = self.layout, self.build
        with contextlib.closing(connection):
            is_new = not known_sources(connection)
            connection.execute("commit")
            kept = _attach_last(connection, layout) if is_new else None
            known = known_sources(connection, f"{_KEPT}." if kept else "")
            connection.execute("begin")
            for name in known.keys() - {source.name for source in build.firm.sources}:
                remove_source(connection, name)
            connection.execute("commit")
            results = _load_sources(connection, layout, build, known, self.say, kept=kept)
            if kept:
                connection.execute(f"detach {_KEPT}")
            connection.execute("begin")
            changes = gate.record_sources(connection, known, results, build.built_at)
            newest = gate.record_nights(connection, build.day, build.notes)
            gate.record_shared_portfolios(connection, build.firm.owners)
            shared = gate.sources_set_aside(connection)
            shared_lately = gate.sources_set_aside_lately(connection, newest)
            load.run_all(connection, ddl.surface(newest, shared, shared_lately))
            load.fill_reconciliation(connection, build.reconciled)
            record_build(
                connection,
                version=build.version,
                built_at=build.built_at,
                newest=newest,
                program_version=build.program_version,
                schema=ddl.schema_version(),
            )
            state = state_of(connection)
            load.complete(connection)
        if kept and kept != layout.database.resolve():
            changes += (
                f"the last version of this file is damaged, so version {kept.parent.name} was used",
            )
        return FirmBook(database=layout.database, newest=newest, state=state, changes=changes)


def _create_empty(layout: Layout, file: Path, memory: str) -> DuckDBPyConnection:
    load.remove_copy(file)
    connection = load.connect(layout, file, memory)
    load.run_all(connection, ddl.structure())
    connection.execute("commit")
    # Create an empty warehouse for one organisation, and copy the columns of all views from it.
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


def _attach_last(connection: DuckDBPyConnection, layout: Layout) -> Path | None:
    """Attach the newest undamaged version of the file, if any, and copy its `ops.nights`."""
    if (file := newest_whole(layout)) is not None:
        connection.execute(f"attach {literal(str(file))} as {_KEPT} (read_only)")
        connection.execute(f"insert into ops.nights by name select * from {_KEPT}.ops.nights")
    return file


def _load_sources(
    connection: DuckDBPyConnection,
    layout: Layout,
    build: FirmBuild,
    known: Mapping[str, Mapping[str, Any]],
    say: ProgressCallback,
    *,
    kept: Path | None,
) -> dict[str, gate.LoadResult]:
    """Load each source. If a source cannot be read, copy its rows from `kept`."""
    tally = Tally(say, len(build.firm.sources), "sources read")
    results: dict[str, gate.LoadResult] = {}
    for source in build.firm.sources:
        results[source.name] = result = _load_source(connection, source, known, kept)
        if isinstance(result, str) and (kept or not known):
            _carry_source(connection, layout, source.name, result, kept)
        tally.add(1)
    return results


def _carry_source(
    connection: DuckDBPyConnection, layout: Layout, name: str, reason: str, kept: Path | None
) -> None:
    """Copy a source's rows from the last version. Raises `HistoryAtRisk` if this is impossible."""
    problem = "a different nightbook version built the last file, which has different columns"
    if kept is None:
        if layout.database.parent.exists():
            problem = "every version of the file is damaged"
            raise HistoryAtRisk(name, reason, problem)
        return
    connection.execute("begin")
    if not carry_source(connection, name, _KEPT):
        raise HistoryAtRisk(name, reason, problem)
    connection.execute("commit")


def _load_source(
    connection: DuckDBPyConnection,
    source: Source,
    known: Mapping[str, Mapping[str, Any]],
    kept: Path | None,
) -> gate.LoadResult:
    if source.problem:
        return source.problem
    row = known.get(source.name)
    schema = row["schema_version"] if row and not kept else None
    snapshots = f"{_KEPT}.ops.snapshots" if kept else "ops.snapshots"
    try:
        return load_source(connection, source.name, source.layout, schema, snapshots)
    except SourceUnreadable as error:
        return str(error)
