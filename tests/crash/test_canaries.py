"""Tests that key, secret and signatures are in no file and no output, after every fault.

The tests read each file as a person who finds it could: unpacked, decompressed and as tables.
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

from tests.support.faults.catalog import DESCRIPTIONS, parse
from tests.support.faults.wire import serve
from tests.support.operator_home import FIRST, KEY, SECRET, WORLD, Clock, Keeper, Sandbox

# Options that shorten the slow faults. The others end at once, or at the deadline.
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
    """A sandbox, and all signatures that it received."""

    shown: Sandbox
    signatures: set[bytes] = field(default_factory=set)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Store the signature of one request, and handle the request."""
        if scope["type"] == "http":
            self.signatures.add(dict(scope["headers"])[b"svc-api-signature"])
        await self.shown(scope, receive, send)


def contents(path: Path) -> Iterator[bytes]:
    """Yield everything that can be read in a file."""
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
    """Return the files that contain one of the needles."""
    files = [path for path in sorted(home.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [
        str(path.relative_to(home))
        for path in files
        if any(needle in text for text in contents(path) for needle in needles)
    ]


def shard(number: int) -> list[str]:
    """Return a share of the faults, with their options."""
    return [
        ",".join([name, *([SHORT[name]] if name in SHORT else [])])
        for name in sorted(DESCRIPTIONS)[number::SHARDS]
    ]


def told(keeper: Keeper, *words: str) -> str:
    """Return the result of a command, or its traceback with the variables of every frame."""
    try:
        return f"{keeper(*words)}"
    except Exception as error:  # noqa: BLE001 - with --debug, errors are not caught
        raised = traceback.TracebackException.from_exception(error, capture_locals=True)
        return "".join(line for line in raised.format() if "/tests/" not in line)


@pytest.mark.torture
@pytest.mark.parametrize("number", range(SHARDS))
def test_no_fault_leaks_a_key_secret_or_signature(
    number: int, tmp_path: Path, record_property: Record
) -> None:
    """After faulty nights and many commands, no key, secret or signature is in a file or output."""
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
    assert kinds >= {".zst", ".parquet", ".duckdb", ".xlsx", ".csv", ".html"}  # search works
    counts = {"faults": len(faults), "signatures": len(watched.signatures), "found": 0}
    counts["files"] = sum(path.is_file() for path in home.rglob("*"))
    record_property("torture", ["canaries", counts])
