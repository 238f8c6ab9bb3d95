"""The landing folders of nights, and the JSON files with checksums in these folders."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from warehouse.storage.layout import Layout, write_json

ID = re.compile(r"[0-9]{8}T[0-9]{6}Z")
ID_FORM = "%Y%m%dT%H%M%SZ"  # IDs contain the start time in UTC, so they sort by time
MANIFEST = "manifest.json"
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
SEAL = "sha256"
LANDED = (
    "The file was not used. Restore it from a backup. The API keeps no history, so nightbook "
    "cannot fetch it again."
)


class DamagedFile(Exception):
    """A file that nightbook wrote has been changed or damaged."""

    def __init__(self, file: Path, found: str, expected: str, advice: str = LANDED) -> None:
        self.file = file
        super().__init__(
            f"{file} contains {found}, but {expected} was expected. The file was changed or "
            f"damaged after it was written. {advice}"
        )


def dates(layout: Layout) -> list[date]:
    """Return the dates that have a landing folder, oldest first."""
    times = (_time_of(name, _DATE) for name in _names(layout.landing))
    return sorted(time.date() for time in times if time)


def nights(layout: Layout) -> Iterator[Path]:
    """Yield the folders of all snapshots, even if a snapshot's manifest is missing."""
    for name, day in _ids(layout):
        yield layout.landing / day / name


def free_id(layout: Layout, started_at: datetime, day: date) -> str:
    """Return an unused ID for a snapshot of `day` that starts at `started_at`.

    The ID is the time `started_at` in UTC, or a later time if the date already has newer IDs.
    """
    # The newest accepted snapshot of a date is its book, so a new ID must sort after all other IDs
    # of the date, even if the clock was set back between two runs. A later time in the ID does not
    # change the business date.
    times = (_time_of(name, ID) for name in _names(layout.landing / day.isoformat()))
    time = max([started_at, *(other + timedelta(seconds=1) for other in times if other)])
    # IDs are unique across the home, because they also name files in the lake.
    while any(layout.landing.glob(f"*/{time.strftime(ID_FORM)}")):
        time += timedelta(seconds=1)
    return time.strftime(ID_FORM)


def folder_of(layout: Layout, snapshot_id: str) -> Path | None:
    """Find a landed snapshot's folder near the date in its ID. Return None if it is not there."""
    # The business date is the start date in some time zone, so it is at most one day away from the
    # date in the ID. This avoids listing years of folders.
    if (started := _time_of(snapshot_id, ID)) is not None:
        for days in (0, -1, 1):
            folder = layout.snapshot((started + timedelta(days=days)).date(), snapshot_id)
            if (folder / MANIFEST).is_file():
                return folder
    return None


def snapshot_time(snapshot_id: str) -> datetime:
    """Parse the time (UTC) in a snapshot ID, which is normally the start time of the pull."""
    return datetime.fromisoformat(snapshot_id)


def folders(layout: Layout) -> Iterator[Path]:
    """Yield all landed snapshots' folders, oldest first."""
    landing = layout.landing
    for name, day in sorted(_ids(layout)):
        if os.path.isfile(f"{landing}/{day}/{name}/{MANIFEST}"):  # noqa: PTH113 - a path is slow
            yield landing / day / name


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object and its SHA-256 atomically.

    Raises `ValueError` for numbers that JSON cannot represent.
    """
    write_json(path, with_seal(content))


def with_seal(content: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a JSON object with its SHA-256 added."""
    return content | {SEAL: digest(content)}


def read(path: Path, advice: str = LANDED) -> dict[str, Any]:
    """Read a file written by `write`. Raises `DamagedFile` if the file is missing or changed."""
    try:
        text = path.read_bytes()
    except PermissionError:  # a file without read permission is not necessarily damaged
        raise
    except OSError as error:
        problem = f"nothing readable ({type(error).__name__})"
        raise DamagedFile(path, problem, "a JSON object with its SHA-256", advice) from None
    return parse(text, path, advice)


def parse(text: bytes, path: Path, advice: str = LANDED) -> dict[str, Any]:
    """Parse the content of the file at `path`. Raises `DamagedFile` if its SHA-256 is wrong."""
    try:
        if (verified := _fast_read(text)) is not None:
            return verified
        content: dict[str, Any] = json.loads(text)
        expected = content.pop(SEAL)
        proof = digest(content)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        problem = f"nothing readable ({type(error).__name__})"
        raise DamagedFile(path, problem, "a JSON object with its SHA-256", advice) from None
    if proof != expected:
        raise DamagedFile(path, f"content with SHA-256 {proof}", f"{str(expected)[:64]}", advice)
    return content


def digest(content: Any) -> str:
    """Compute a JSON value's SHA-256, independent of its file's formatting."""
    # Reject NaN and infinity, because `json.dumps` would write them as invalid JSON.
    text = json.dumps(
        content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _ids(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield each snapshot ID and the name of its date folder. Strings are faster than paths."""
    landing = layout.landing
    for day in map(date.isoformat, dates(layout)):
        for name in _names(f"{landing}/{day}"):
            if _time_of(name, ID):
                yield name, day


def _names(folder: Path | str) -> list[str]:
    """Return the names of the entries in a folder.

    To stay fast with years of nights, it does not call stat for each name.
    """
    try:
        return os.listdir(folder)  # noqa: PTH208 - names only, because a path for each name is slow
    except (FileNotFoundError, NotADirectoryError):
        return []


def _time_of(name: str, form: re.Pattern[str]) -> datetime | None:
    """Parse the time in a folder's name. Return None if the name is not a valid time."""
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(name) if form.fullmatch(name) else None
    return None


def _fast_read(text: bytes) -> dict[str, Any] | None:
    """Parse a sealed JSON object with msgspec. Return None if its SHA-256 cannot be verified."""
    # Use a fast parser, because commands that read many manifests spend most of their time parsing
    # JSON.
    try:
        content = msgspec.json.decode(text, type=dict[str, Any])
        expected = content.pop(SEAL)
        # The digest covers JSON with sorted keys and no spaces. For typical manifests, msgspec
        # writes the same bytes as `json.dumps`. If the bytes differ, the slow parser decides.
        canonical = msgspec.json.encode(content, order="sorted")
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return content if hashlib.sha256(canonical).hexdigest() == expected else None
