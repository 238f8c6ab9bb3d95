"""Key, secret and signatures after every fault there is: in no file of a home, in no word said.

Every file is looked into as whoever finds it would: unpacked, decompressed, as tables.
"""

import sqlite3
import traceback
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from starlette.types import Receive, Scope, Send

from pipelines.sandbox.faults.catalog import DESCRIPTIONS, parse
from pipelines.sandbox.server import serve
from tests.support.operator_home import FIRST, KEY, SECRET, WORLD, Clock, Keeper, Sandbox

# What would otherwise take its time; the rest is over at once, or at the deadline.
SHORT = {
    "slow": "seconds=0.01",
    "hang": "seconds=0.3",
    "hang-mid-body": "seconds=0.3",
    "drip": "seconds=0.001",
    "refused": "seconds=0.3",
    "gzip-bomb": "mib=8",
    "large": "mib=8",
}
SHARDS = 8
AFTER = [
    ("doctor",),
    ("snapshots",),
    ("tables",),
    ("verify",),
    ("--debug", "api", "/venues"),
    ("query", "from ops.requests"),
    ("export", "--format", "xlsx", "--format", "csv", "--format", "parquet"),
    ("report",),
    ("reconcile", "init"),
]
Record = Callable[[str, object], None]


@dataclass(slots=True)
class Watched:
    """The sandbox, and every signature that came to it."""

    shown: Sandbox
    signatures: set[bytes] = field(default_factory=set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            self.signatures.add(dict(scope["headers"])[b"svc-api-signature"])
        await self.shown(scope, receive, send)


def contents(path: Path) -> Iterator[bytes]:
    """All that can be read in a file."""
    yield path.read_bytes()
    if path.suffix == ".zst":
        with path.open("rb") as file, pa.CompressedInputStream(file, "zstd") as source:
            yield source.read()
    elif path.suffix == ".parquet":
        yield repr(duckdb.execute("from read_parquet(?)", [str(path)]).fetchall()).encode()
    elif path.suffix == ".duckdb":
        with duckdb.connect(str(path), read_only=True) as connection:
            names = connection.execute("select schema_name, table_name from duckdb_tables()")
            for schema, table in names.fetchall():
                rows = connection.execute(f'from "{schema}"."{table}"').fetchall()
                yield repr(rows).encode()
    elif path.suffix == ".xlsx":
        with zipfile.ZipFile(path) as packed:
            yield from (packed.read(name) for name in packed.namelist())
    elif path.read_bytes().startswith(b"SQLite format 3"):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            yield "\n".join(database.iterdump()).encode()


def holding(home: Path, needles: set[bytes]) -> list[str]:
    """The files in which one of these is found."""
    files = [path for path in sorted(home.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [
        str(path.relative_to(home))
        for path in files
        if any(needle in text for text in contents(path) for needle in needles)
    ]


def shard(number: int) -> list[str]:
    """Some of the faults, as one asks for them."""
    return [
        ",".join([name, *([SHORT[name]] if name in SHORT else [])])
        for name in sorted(DESCRIPTIONS)[number::SHARDS]
    ]


def told(keeper: Keeper, *words: str) -> str:
    """All that one command says, a traceback with every variable of every frame included."""
    try:
        return f"{keeper(*words)}"
    except Exception as error:  # noqa: BLE001 - with --debug they come out as they are
        raised = traceback.TracebackException.from_exception(error, capture_locals=True)
        return "".join(line for line in raised.format() if "/tests/" not in line)


@pytest.mark.torture
@pytest.mark.parametrize("number", range(SHARDS))
def test_no_canary_is_found_after_any_fault(
    number: int, tmp_path: Path, record_property: Record
) -> None:
    """Nights with faults, then every command: logs, errors, events, books, exports, reports."""
    faults = shard(number)
    shown = Sandbox(Clock())
    watched, home, said = Watched(shown), tmp_path / "home", list[str]()
    for night, fault in enumerate(["", *faults]):
        chosen = [fault] if fault else []
        shown.show(*chosen)
        with serve(watched, faults=[parse(one) for one in chosen]) as served:
            more = {"NIGHTBOOK_API_URL": served.origin, "NIGHTBOOK_DEADLINE": "8"}
            keeper = Keeper(home, shown, more)
            shown.clock.night(FIRST + timedelta(days=night))
            said.append(told(keeper, "--debug", "run"))
            if night == len(faults):
                said += [told(keeper, *words) for words in AFTER]
    needles = {KEY.encode(), SECRET.encode(), *watched.signatures}
    assert len(watched.signatures) > len(faults)
    assert holding(home, needles) == []
    assert not [one for one in said for needle in needles if needle in one.encode()]
    name = str(WORLD.at(FIRST).portfolios[0]["name"])
    kinds = {Path(path).suffix for path in holding(home, {name.encode()})}
    assert kinds >= {".zst", ".parquet", ".duckdb", ".xlsx", ".csv", ".html"}  # it does look
    counts = {"faults": len(faults), "signatures": len(watched.signatures), "found": 0}
    counts["files"] = sum(path.is_file() for path in home.rglob("*"))
    record_property("torture", ["canaries", counts])
