"""Our own designs, the floor, and the program that runs one design in its own process.

`python -m tests.tools.performance.designs NAME BODY FOLDER` runs one design, and prints its
database and the wall and CPU seconds of its work, without imports and setup. Each design imports
its own modules, because the peers run in an environment without ours, and ours in one without
theirs.
"""

import hashlib
import importlib
import json
import mmap
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from tests.tools.performance import whole_command
from tests.tools.performance.bodies import VENUES
from tests.tools.performance.listings import LISTINGS
from tests.tools.performance.peers import PEERS, Work

STAMP = datetime(2026, 11, 20, 2, 15, tzinfo=UTC)
EMPTY = b'{"data":[],"meta":{}}'


def cpu() -> float:
    """Return the CPU seconds of this process and its children so far."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _venues() -> list[dict[str, Any]]:
    """Return the venues of the bodies, because a night without venues is held and not published."""
    times = dict.fromkeys(("createdAt", "updatedAt"), "2024-01-01T00:00:00Z")
    return [
        {
            "id": f"venue-{number}",
            "resource": "venue",
            "type": ["exchange"],
            "displayName": f"Venue {number}",
            "tradingStatus": "trading",
            "instruments": [],
            **times,
        }
        for number in range(VENUES)
    ]


class Landed:
    """A landed night of ours, with which each of our designs begins."""

    def __init__(self, body: Path, folder: Path) -> None:
        importlib.import_module("warehouse.query.pandas_blocker").leave_pandas_out()
        self.night = importlib.import_module("pipelines.night")
        self.flatten = importlib.import_module("pipelines.flatten.flatten")
        self.publishing = importlib.import_module("assets.publishing.publish")
        self.resources = importlib.import_module("assets.nightbook")
        self.layout = importlib.import_module("warehouse.storage.layout").Layout(folder)
        self._landing = importlib.import_module("pipelines.landing.zone")
        self._pulling = self._landing.PendingSnapshot(self.layout, STAMP, ZoneInfo("UTC"))
        self._answers: list[Any] = []
        listed = sorted(body.iterdir()) if body.is_dir() else []
        if listed:
            self._land("list_portfolios", None, EMPTY)
            self._land("list_venues", None, EMPTY)
            for file in listed:
                venue, kind, _ = file.name.split(".")
                self._land("list_instruments", venue, file.read_bytes(), f"type={kind}")
        else:
            with body.open("rb") as one, mmap.mmap(one.fileno(), 0, prot=mmap.PROT_READ) as view:
                self._land("list_portfolios", None, view)
            self._land("list_venues", None, json.dumps({"data": _venues(), "meta": {}}).encode())
        self.manifest = self._pulling.finish(
            STAMP, tuple(self._answers), origin="", program_version="bench", clock_skew_ms=None
        )
        self.folder = self._pulling.folder

    def _land(self, operation: str, venue: str | None, body: Any, query: str = "") -> None:
        number = len(self._answers) + 1
        file = self._pulling.land(f"{number:04}", body)
        digest = hashlib.sha256(body).hexdigest()
        stamp = STAMP.isoformat()
        self._answers.append(
            self._landing.RequestRecord(
                request_no=number,
                operation=operation,
                venue_id=venue,
                path="",
                query=query,
                status=200,
                attempts=1,
                sent_at=stamp,
                received_at=stamp,
                byte_count=len(body),
                sha256=digest,
                file=file,
                error=None,
            )
        )

    def staged(self) -> dict[str, Path]:
        """Flatten into Parquet, without control totals. Return the files by table."""
        notes = importlib.import_module("pipelines.records.notes").Notes()
        _, written = self.flatten.portfolio_tables(self.layout, self.manifest, notes)
        venues = self.flatten.flatten_venues(self.layout, self.manifest)
        names = [*written, *venues.tables]
        return {name: self.layout.staged_file(name, self.manifest.snapshot_id) for name in names}

    def database(self, files: dict[str, Path]) -> Path:
        """Write a new warehouse file that contains these tables and nothing else."""
        duckdb = importlib.import_module("duckdb")
        load = importlib.import_module("warehouse.database.load")
        schema = importlib.import_module("warehouse.database.ddl")
        path: Path = self.layout.home / "same.duckdb"
        settings = {
            "storage_compatibility_version": importlib.import_module(
                "warehouse.storage.layout"
            ).STORAGE_VERSION,
            "threads": "2",
            "memory_limit": "400MB",
        }
        with duckdb.connect(str(path), config=settings) as connection:
            connection.execute("begin")
            for statement in schema.structure():  # old commits have it, too
                if statement.startswith(("create schema history", "create table history.")):
                    connection.execute(statement)
            book = load.Book(self.manifest.snapshot_date, self.manifest.snapshot_id, files)
            load.add_books(connection, [book])
            connection.execute("commit")
            connection.execute("checkpoint")
        return path


def ours(body: Path, folder: Path) -> Work:
    """Prepare the job of the peers: landed bytes to Parquet and DuckDB, with our own functions."""
    landed = Landed(body, folder)
    return lambda: landed.database(landed.staged())


def whole_night(body: Path, folder: Path) -> Work:
    """Prepare a night after landing: totals (twice), guards, seals, views, checks, publishing."""
    landed = Landed(body, folder)
    variables = {"NIGHTBOOK_HOME": str(folder)}
    nightbook = landed.resources.Nightbook(lambda: variables, lambda: STAMP)

    def work() -> Path:
        manifests = landed.night.LakeManifests(landed.layout)
        landed.night.finish(manifests, landed.folder, STAMP)
        landed.publishing.refresh(nightbook, manifests=manifests)
        database: Path = landed.layout.database
        return database

    return work


def run_command(body: Path, folder: Path) -> Work:
    """Prepare `nightbook run` itself, with the instruments, the report and the workbook."""
    importlib.import_module("warehouse.query.pandas_blocker").leave_pandas_out()
    importlib.import_module("assets.commands.run")
    server = whole_command.serve(body, folder)
    return lambda: whole_command.run(server, folder / "home")


def floor_parse(body: Path, folder: Path) -> Work:
    """Prepare typed parsing alone, with our fastest parser."""
    msgspec = importlib.import_module("msgspec")
    models = importlib.import_module("pipelines.edge.models")
    records: Any = list
    fields = [("data", records[models.Portfolio]), ("meta", dict)]
    envelope = msgspec.defstruct("Envelope", fields)
    decoder = msgspec.json.Decoder(envelope)

    def work() -> Path:
        decoder.decode(body.read_bytes())
        return folder

    return work


def floor_parquet(body: Path, folder: Path) -> Work:
    """Prepare writing our tables, which are already flat, as Parquet."""
    landed = Landed(body, folder)
    parquet = importlib.import_module("pyarrow.parquet")
    writer = importlib.import_module("warehouse.storage.parquet")
    book = importlib.import_module("warehouse.contract.book").BOOK
    files = landed.staged()
    rows = {table: parquet.read_table(files[table.name]).to_batches() for table in book}

    def work() -> Path:
        for table, batches in rows.items():
            path = folder / f"{table.name}.parquet"
            writer.write(table, batches, path, landed.manifest.snapshot_id)
        return folder

    return work


def floor_load(body: Path, folder: Path) -> Work:
    """Prepare loading our Parquet files into a new DuckDB file, and nothing else."""
    landed = Landed(body, folder)
    files = landed.staged()
    return lambda: landed.database(files)


OURS: dict[str, Callable[[Path, Path], Work]] = {
    "nightbook": ours,
    "nightbook, the whole night": whole_night,
    whole_command.NAME: run_command,
}
FLOOR: dict[str, Callable[[Path, Path], Work]] = {
    "floor: parse only": floor_parse,
    "floor: Parquet only": floor_parquet,
    "floor: DuckDB load only": floor_load,
}
DESIGNS = OURS | PEERS | FLOOR
# The designs that need our own environment, and the designs for instruments.
HOME = {*OURS, *FLOOR}
OF_INSTRUMENTS = {"nightbook": ours, **LISTINGS}


def size(database: Path, folder: Path) -> str:
    """Return the megabytes of the database and of the Parquet files that a design leaves."""
    files = ([database] if database.is_file() else [], folder.rglob("*.parquet"))
    return " + ".join(f"{sum(one.stat().st_size for one in some) / 1e6:.0f}" for some in files)


def main(name: str, body: str, folder: str) -> None:
    """Run one design and print its costs."""
    designs = OF_INSTRUMENTS if Path(body).is_dir() else DESIGNS
    work = designs[name](Path(body), Path(folder))
    start, begun = cpu(), time.monotonic()
    database = work()
    print(f"wall {time.monotonic() - begun:.3f}")
    print(f"cpu {cpu() - start:.3f}")
    print(f"database {database}")
    print(f"size {size(database, Path(folder))}")


if __name__ == "__main__":
    main(*sys.argv[1:])
