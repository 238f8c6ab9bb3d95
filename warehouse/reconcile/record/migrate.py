"""Import of the state that older nightbooks kept as JSON files, and of the tables in a pack.

Homes of before record.db, and packs of formats 1 and 2, have the folders `results`, `annotations`,
`signoffs`, `restatements`, `closings` and `written`, and the files `mappings.json`, `read.json` and
`seen.json`. Packs of format 3 have one `<table>.jsonl` for each table.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from warehouse.reconcile.model import Annotation, Closing, Restatement, Run, Signature
from warehouse.reconcile.record import tables
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import make_directory, read_json

MOVED = ".before-record"
_FOLDERS = ("results", "annotations", "signoffs", "restatements", "closings", "written")
_FILES = ("mappings.json", "read.json", "seen.json")
_OLD_CACHES = (".facts", ".published")
_Content = TypeVar("_Content")


def has_folders(root: Path) -> bool:
    """Return whether a folder has the state of an older nightbook, or of a pack."""
    names = (*_FOLDERS, *_FILES, "runs.jsonl")
    return any((root / name).exists() for name in names)


def move_folders(root: Path) -> None:
    """Move what was imported out of the way. It can be deleted when the new state was backed up."""
    for name in (*_FOLDERS, *_FILES, *_OLD_CACHES):
        source, target = root / name, root / MOVED / name
        if source.exists() and not target.exists():
            make_directory(target.parent)
            source.rename(target)


def import_folder(root: Path, connection: sqlite3.Connection) -> None:
    """Import the state of a folder into empty tables.

    Raises `NotReconciled` if a file of it is damaged.
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
    _import_runs(root, connection)
    for note in _numbered_records(root / "annotations", Annotation):
        tables.insert_annotation(connection, note)
    for signature in _numbered_records(root / "signoffs", Signature):
        tables.insert_signature(connection, signature)
    for restatement in _numbered_records(root / "restatements", Restatement):
        tables.insert_restatement(connection, restatement)
    for closing in _numbered_records(root / "closings", Closing):
        tables.insert_closing(connection, closing)
    lessons = _optional(root / "mappings.json", dict[str, dict[str, str]], {})
    _insert_all(
        connection,
        "lessons",
        ((of, name, value) for of, named in lessons.items() for name, value in named.items()),
    )
    first_days = _optional(root / "read.json", dict[str, str], {})
    _insert_all(connection, "ledgers_read", first_days.items())
    # The empty digest is that of what the engine itself said.
    seen = dict.fromkeys(_optional(root / "seen.json", list[str], []))
    _insert_all(connection, "workbooks_seen", ((sha256,) for sha256 in seen if sha256))


def _insert_all(
    connection: sqlite3.Connection, table: str, rows: Iterable[tuple[str, ...]]
) -> None:
    for row in rows:
        values = ", ".join("?" * len(row))
        connection.execute(f"insert into {table} values ({values})", row)  # noqa: S608 - our own names


def _import_runs(root: Path, connection: sqlite3.Connection) -> None:
    folder = root / "results"
    days = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    prior: int | None = None
    for day in days:
        newest: int | None = None
        for day_no, path in enumerate(_numbered_files(day), 1):
            result = with_present_ages(_read(path, Run))
            newest = tables.insert_run(connection, result, no=None, day_no=day_no, prior=prior)
            _carry(connection, newest, _read(path, _Occurrences).episodes)
        prior = newest or prior


class _Occurrences(msgspec.Struct):
    """The part of an old result that no other part implies: the occurrences of all breaks ever."""

    episodes: dict[str, tuple[int, str]] = {}


def _carry(connection: sqlite3.Connection, no: int, episodes: dict[str, tuple[int, str]]) -> None:
    """Store the occurrences that do not follow from the breaks of this run and those before it."""
    known = tables.latest_occurrences(connection, no, episodes.keys())
    rows = (
        {"run_no": no, "break_id": id_, "episode": episode, "ever_seen": ever_seen}
        for id_, (episode, ever_seen) in episodes.items()
        if known.get(id_) != (episode, ever_seen)
    )
    tables.insert(connection, "carried", rows)


def with_present_ages(result: Run) -> Run:
    """Return a result whose ages count from the first day of the present occurrence.

    Older results counted them from the first day of the first occurrence.
    """
    breaks = tuple(
        structs.replace(break_, age_days=(result.day - break_.first_seen).days)
        for break_ in result.breaks
    )
    return structs.replace(result, breaks=breaks)


def _numbered_records(folder: Path, kind: type[_Content]) -> Iterator[_Content]:
    for path in _numbered_files(folder):
        yield _read(path, kind)


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
            "changed or damaged. Nothing was reconciled and nothing was changed. Restore that "
            "folder from the backup."
        ) from error
    return content  # type: ignore[no-any-return]  # convert returns an instance of `kind`
