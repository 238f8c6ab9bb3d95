"""Breaches of the write discipline that the harness must catch, which proves that it works."""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from io import BufferedRandom
from pathlib import Path
from typing import Any

import duckdb

from pipelines.lake import lake_manifest, placement
from pipelines.landing import zone
from tests.crash.power import Call
from warehouse.database import new_version, publication, versions
from warehouse.storage import layout, parquet
from warehouse.storage.layout import Layout

_fsync = os.fsync


def _only(kind: Callable[[int], bool]) -> Callable[[int], None]:
    def sync(descriptor: int) -> None:
        if kind(os.fstat(descriptor).st_mode):
            _fsync(descriptor)

    return sync


def _no_file_fsync() -> None:
    _set(os, "fsync", _only(stat.S_ISDIR))


def _no_folder_fsync() -> None:
    _set(os, "fsync", _only(stat.S_ISREG))


@contextlib.contextmanager
def _in_place(path: Path, mode: int = layout.FILE_MODE) -> Iterator[BufferedRandom]:
    layout.make_directory(path.parent)
    path.unlink(missing_ok=True)
    with path.open("x+b") as file:
        yield file
        os.fchmod(file.fileno(), mode)
        file.flush()
        os.fsync(file.fileno())
    layout.sync_directory(path.parent)


def _no_rename() -> None:
    for module in (layout, zone, parquet):
        _set(module, "written_aside", _in_place)


def _set(module: Any, name: str, value: object) -> None:
    setattr(module, name, value)


def _manifest_first() -> None:
    """Write the lake's manifest before the night's own tables."""
    seal = lake_manifest.seal

    def early(known: Any, manifest: Any, parts: Any) -> None:
        seal(known, manifest, parts)
        for name in ("requests", "control_totals"):
            path = known.layout.parquet(name, manifest.snapshot_date, manifest.snapshot_id)
            content = path.read_bytes()
            path.unlink()
            with layout.written_aside(path) as file:
                file.write(content)

    for module in (lake_manifest, placement):
        _set(module, "seal", early)


def _link_first() -> None:
    """Point the link to the new version before the version has its final name."""
    seal = versions.seal

    def early(file: Path, *about: Any) -> None:
        seal(file, *about)
        aside = file.parent
        home = Layout(aside.parent.parent.parent)
        versions.swap(home, aside.name.removeprefix(".tmp-"))

    _set(publication, "seal", early)


def _link_removed() -> None:
    """Delete the link and create a new one, instead of replacing it."""

    def swap(home: Layout, version: str) -> None:
        link = home.warehouse / "current"
        link.unlink(missing_ok=True)
        link.symlink_to(Path("versions") / version)
        layout.sync_directory(home.warehouse)

    _set(new_version, "swap", swap)


def _written_in_place() -> None:
    """Copy the new database over the one that people see."""

    def swap(home: Layout, version: str) -> None:
        if not home.database.exists():
            versions.swap(home, version)
            return
        new = home.warehouse / "versions" / version
        for name in (layout.DATABASE, layout.DIGESTS):
            (home.database.parent / name).chmod(0o640)
            shutil.copyfile(new / name, home.database.parent / name)

    _set(new_version, "swap", swap)


def _wal_left() -> None:
    """Leave the last changes in a `.wal` file next to the database."""
    seal = versions.seal

    def careless(file: Path, *about: Any) -> None:
        with duckdb.connect(str(file)) as connection:
            connection.execute("pragma disable_checkpoint_on_shutdown")
            connection.execute("create table main.late as select 1 as x")
        wal = file.with_name(f"{file.name}.wal")
        hidden = file.parent.parent / wal.name
        wal.rename(hidden)
        seal(file, *about)
        hidden.rename(wal)

    _set(publication, "seal", careless)


BREACHES: dict[str, Callable[[], None]] = {
    "no file fsync": _no_file_fsync,
    "no folder fsync": _no_folder_fsync,
    "no rename": _no_rename,
    "manifest first": _manifest_first,
    "link first": _link_first,
    "link removed": _link_removed,
    "written in place": _written_in_place,
    "a .wal left": _wal_left,
}


def _is(kind: str, part: str) -> Callable[[Call], bool]:
    return lambda call: call.kind == kind and part in call.path


# The interruption that reveals each breach: the mode, a call, and the number of calls from that one
# to the call that is interrupted or after which the power is cut.
STRIKES: dict[str, tuple[str, Callable[[Call], bool], int]] = {
    "no file fsync": ("lost", _is("rename", "decision.json"), 1),
    "no folder fsync": ("first entry lost", _is("rename", ".current"), 1),
    "no rename": ("torn", _is("write", "decision.json"), 0),
    "manifest first": ("before", _is("unlink", "lake/requests"), 1),
    "link first": ("before", _is("rename", ".current"), 1),
    "link removed": ("before", _is("unlink", "warehouse/current"), 1),
    "written in place": ("before", _is("write", "versions/20261118"), 1),
    "a .wal left": ("before", _is("rename", ".current"), 1),
}


def commit(name: str | None) -> None:
    """Commit the breach with this name in this process, or do nothing if there is no name."""
    if name is not None:
        BREACHES[name]()
