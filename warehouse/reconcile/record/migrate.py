"""Import of state from an older nightbook's JSON files, or from the tables in a pack.

Homes older than record.db, and packs in formats 1 and 2, have the folders `results`,
`annotations`, `signoffs`, `restatements`, `closings` and `written`, and the files `mappings.json`,
`read.json` and `seen.json`. Packs in format 3 have one `<table>.jsonl` for each table.
"""

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from warehouse.reconcile.model import Annotation, Closing, Restatement, Run, Signature
from warehouse.reconcile.record import tables
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import make_directory, read_json

MOVED = ".before-record"
_NUMBERED_FOLDERS: dict[str, type[tables.NumberedRecord]] = {
    "annotations": Annotation,
    "signoffs": Signature,
    "restatements": Restatement,
    "closings": Closing,
}
_FOLDERS = ("results", *_NUMBERED_FOLDERS, "written")
_FILES = ("mappings.json", "read.json", "seen.json")
_OLD_CACHES = (".facts", ".published")
_Content = TypeVar("_Content")


def has_folders(root: Path) -> bool:
    """Return whether a folder contains an older nightbook's state, or a pack's tables."""
    names = (*_FOLDERS, *_FILES, "runs.jsonl")
    return any((root / name).exists() for name in names)


def move_folders(root: Path) -> None:
    """Move the imported files to `.before-record`. They can be deleted after the next backup."""
    for name in (*_FOLDERS, *_FILES, *_OLD_CACHES):
        source, target = root / name, root / MOVED / name
        if source.exists() and not target.exists():
            make_directory(target.parent)
            source.rename(target)


def import_folder(root: Path, connection: sqlite3.Connection) -> None:
    """Import a folder's state into empty tables.

    Raises `NotReconciled` if a file is damaged.
    """
    if (root / "runs.jsonl").exists():
        tables.import_rows(connection, lambda name: _exported_rows(root / f"{name}.jsonl"))
    else:
        _import_records(root, connection)
    for path in sorted((root / "written").glob("*.json.gz")):
        identity = path.name.removesuffix(".json.gz")
        connection.execute("insert into imprints values (?, ?)", [identity, path.read_bytes()])


def _exported_rows(path: Path) -> Iterator[tables.Row]:
    if path.exists():
        with path.open(encoding="ascii") as lines:
            yield from map(json.loads, lines)


def _import_records(root: Path, connection: sqlite3.Connection) -> None:
    _import_runs(root / "results", connection)
    for folder, kind in _NUMBERED_FOLDERS.items():
        for path in _numbered_files(root / folder):
            tables.insert_record(connection, _read(path, kind))
    lessons = _optional(root / "mappings.json", dict[str, dict[str, str]], {})
    tables.insert(connection, "lessons", tables.lesson_rows(lessons))
    days = _optional(root / "read.json", dict[str, str], {})
    rows = ({"sha256": sha256, "first_day": day} for sha256, day in days.items())
    tables.insert(connection, "ledgers_read", rows)
    # Skip empty digests, which belong to nightbook's own entries and not to workbooks.
    seen = dict.fromkeys(_optional(root / "seen.json", list[str], []))
    tables.insert(connection, "workbooks_seen", ({"sha256": item} for item in seen if item))


def _import_runs(folder: Path, connection: sqlite3.Connection) -> None:
    days = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    prior: int | None = None
    for day in days:
        newest: int | None = None
        for day_no, path in enumerate(_numbered_files(day), 1):
            result = structs.replace(with_present_ages(_read(path, Run)), no=day_no)
            newest = tables.insert_run(connection, result, no=None, prior=prior)
            _carry(connection, newest, _read(path, _Occurrences).episodes)
        prior = newest or prior


class _Occurrences(msgspec.Struct):
    """The occurrences of all breaks, as listed in an old result.

    Some of them cannot be derived from the breaks in earlier results.
    """

    episodes: dict[str, tuple[int, str]] = {}


def _carry(connection: sqlite3.Connection, no: int, episodes: dict[str, tuple[int, str]]) -> None:
    """Store the occurrences that cannot be derived from this run's and earlier runs' breaks."""
    known = tables.latest_occurrences(connection, no, episodes.keys())
    rows = (
        {"run_no": no, "break_id": id_, "episode": episode, "ever_seen": ever_seen}
        for id_, (episode, ever_seen) in episodes.items()
        if known.get(id_) != (episode, ever_seen)
    )
    tables.insert(connection, "carried", rows)


def with_present_ages(result: Run) -> Run:
    """Recalculate ages, so that they count from the first day of the current occurrence.

    In older results, ages count from the first day of the first occurrence.
    """
    breaks = tuple(
        structs.replace(break_, age_days=(result.day - break_.first_seen).days)
        for break_ in result.breaks
    )
    return structs.replace(result, breaks=breaks)


def _numbered_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.json"))


def _optional(path: Path, kind: type[_Content], default: _Content) -> _Content:
    return _read(path, kind) if path.exists() else default


def _read(path: Path, kind: type[_Content]) -> _Content:
    try:
        content: Any = msgspec.convert(read_json(path), kind)
    except (OSError, ValueError) as error:
        raise NotReconciled(
            f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]}), because it was "
            "changed or damaged. Nothing was reconciled and nothing was changed. Restore its "
            "folder from the backup."
        ) from error
    return content  # type: ignore[no-any-return]  # convert returns an instance of `kind`
