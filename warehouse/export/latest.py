"""`exports/latest/`: the newest book in files whose names never change, for linked workbooks.

`latest` is a link to a folder that is complete before the link is swapped. So a reader sees the old
files or the new ones. `night.json` has their night, version, fingerprint, row counts and digests.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.export import staged_tables, workbook
from warehouse.query.book import OpenBook, book
from warehouse.query.connect import connect, records
from warehouse.storage.layout import (
    DIRECTORY_MODE,
    change_mode,
    digest_of,
    make_directory,
    read_json,
    sync_directory,
    write_json,
)

LATEST, NIGHT, WORKBOOK = "latest", "night.json", "positions.xlsx"
TABLES = ("Holdings", "Accounts", "Assets")
NO_BOOK: dict[str, Any] = {
    "snapshot_id": None,
    "snapshot_date": None,
    "files": {},
    "notices": [
        "The home does not have a book, so this is the only file. See nightbook snapshots."
    ],
}
# If nothing in these tables changes, the files do not change: notices come from the nights, and
# values from the prices.
_SOURCES = (
    "select snapshot_id, state, is_book, reason, reject_count from ops.snapshots order by all",
    "select table_name, sha256 from ops.reference_files order by all",
    "select * from internal.price_settings order by all",
)


def renew(
    exports: Path, database: Path, *, program_version: str, workbook_rows: int | None
) -> None:
    """Make the files from the published version.

    If the new version has the same book and prices, only `night.json` changes. Raises
    `NotExported` or `OSError`. Then the old files are unchanged.
    """
    with connect(database) as connection:
        facts = _version_facts(connection, program_version, workbook_rows)
        has_book = bool(records(connection, "select 1 from ops.snapshots where is_book limit 1"))
    night = _read_night(exports)
    if not has_book:
        with _new_folder(exports) as folder:
            _swap(folder, NO_BOOK | facts)
    elif night.get("sources") == facts["sources"] and _is_unchanged(exports, night):
        with _new_folder(exports) as folder:
            for name in night["files"]:
                os.link(exports / LATEST / name, folder / name)
            _swap(folder, night | facts)
    else:
        with book(database, None, max_rows=workbook_rows, texts_only=True) as source:
            write(source, exports, program_version=program_version, workbook_rows=workbook_rows)


def write(
    source: OpenBook,
    exports: Path,
    *,
    program_version: str,
    workbook_rows: int | None,
    written: tuple[Path, tuple[str, ...]] | None = None,
) -> None:
    """Write all files from the newest book, then swap them in.

    `written` is the workbook of this book and its notices, if it has already been written.
    """
    facts = _version_facts(source.connection, program_version, workbook_rows)
    with _new_folder(exports) as folder:
        if written:
            shutil.copyfile(written[0], folder / WORKBOOK)
            notices = written[1]
        else:
            notices = workbook.write(source, folder / WORKBOOK, program_version=program_version)
        rows: dict[str, int | None] = {WORKBOOK: None}
        for exhibit in source.exhibits:
            if exhibit.title in TABLES:
                name = f"{exhibit.title.lower()}.csv"
                rows[name] = staged_tables.for_people(source, exhibit, folder / name)
        night = {
            "snapshot_id": source.snapshot_id,
            "snapshot_date": source.day.isoformat(),
            "read_at": source.snapshot["finished_at"].isoformat(),
            "currency": source.currency,
            "left_out": dict(source.left_out),
            "notices": list(notices),
            "files": {name: _file_facts(folder / name, count) for name, count in rows.items()},
        }
        _swap(folder, night | facts)


def _file_facts(file: Path, rows: int | None) -> dict[str, Any]:
    return {"rows": rows, "bytes": file.stat().st_size, "sha256": digest_of(file)}


def _is_unchanged(exports: Path, night: Mapping[str, Any]) -> bool:
    """Return whether nobody has saved another content under the name of a file."""
    files = {exports / LATEST / name: facts for name, facts in night["files"].items()}
    return all(
        file.is_file() and digest_of(file) == facts["sha256"] for file, facts in files.items()
    )


def _read_night(exports: Path) -> dict[str, Any]:
    """Return the content of `night.json`, or an empty dictionary if it cannot be read."""
    try:
        return dict(read_json(exports / LATEST / NIGHT))
    except (OSError, ValueError, TypeError):
        return {}


def _version_facts(
    connection: DuckDBPyConnection, program_version: str, workbook_rows: int | None
) -> dict[str, Any]:
    """Return the version, its fingerprint, and a digest of everything that the files show."""
    build = records(connection, "select version, fingerprint from ops.build")[0]
    rows = [connection.execute(query).fetchall() for query in _SOURCES]
    sources = hashlib.sha256(repr((program_version, workbook_rows, rows)).encode()).hexdigest()
    return {**build, "program_version": program_version, "sources": sources}


@contextlib.contextmanager
def _new_folder(exports: Path) -> Iterator[Path]:
    """Yield a new folder for the files. If writing them fails, for a full disk, it is removed."""
    make_directory(exports)
    folder = Path(tempfile.mkdtemp(prefix=f".{LATEST}-", dir=exports))
    change_mode(folder, DIRECTORY_MODE)
    try:
        yield folder
    except BaseException:
        if (exports / LATEST).resolve() != folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _swap(folder: Path, night: Mapping[str, Any]) -> None:
    """Write `night.json`, swap the link to the finished folder, and remove all other folders."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    write_json(folder / NIGHT, night)
    sync_directory(folder)
    exports = folder.parent
    link = exports / f".{LATEST}.aside"
    link.unlink(missing_ok=True)
    link.symlink_to(folder.name)
    link.replace(exports / LATEST)
    sync_directory(exports)
    for other in exports.glob(f".{LATEST}-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
