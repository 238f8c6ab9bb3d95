"""The folders of nights, and the sealed JSON files in them."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from warehouse.storage.layout import Layout, write_json

ID = re.compile(r"[0-9]{8}T[0-9]{6}Z")
ID_FORM = "%Y%m%dT%H%M%SZ"  # of its start in UTC; later ids sort after earlier ones
MANIFEST = "manifest.json"
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def dates(layout: Layout) -> list[date]:
    """Return the dates that have a folder, oldest first."""
    times = (_time_of(name, _DATE) for name in _names(layout.landing))
    return sorted(time.date() for time in times if time)


def nights(layout: Layout) -> Iterator[Path]:
    """Yield the folders of snapshots, whatever is in them."""
    landing = layout.landing
    for name, day in _ids(layout):
        yield file_in(file_in(landing, day), name)


def _ids(layout: Layout) -> Iterator[tuple[str, str]]:
    """Yield each snapshot's id and the name of its date's folder, as texts: years of them."""
    landing = layout.landing
    for name in map(date.isoformat, dates(layout)):
        for snapshot_id in ids_in(f"{landing}/{name}"):
            yield snapshot_id, name


def ids_in(folder: str) -> list[str]:
    """Return the ids of the snapshots in the folder of a date, whatever is in them."""
    return [name for name in _names(folder) if _time_of(name, ID)]


def free_id(layout: Layout, started_at: datetime, day: date) -> str:
    """Return an id for a snapshot of a date that starts now, in UTC; a later one if need be."""
    # The newest id of a date is its book, so it comes after those of that date, also where the
    # clock was set back between two runs. The date stays that of the start, whatever day the id
    # then shows.
    times = (_time_of(name, ID) for name in _names(layout.landing / day.isoformat()))
    time = max([started_at, *(other + timedelta(seconds=1) for other in times if other)])
    # An id is unique in the home, not only in its date: it names files of the lake too.
    while any(layout.landing.glob(f"*/{time.strftime(ID_FORM)}")):
        time += timedelta(seconds=1)
    return time.strftime(ID_FORM)


def folder_of(layout: Layout, snapshot_id: str) -> Path | None:
    """Return the folder of a landed snapshot by its id; None where it is not found so quickly."""
    # A business date is the date of its start in some time zone: the day of the id, or one beside
    # it. All other folders need not be listed, and years of them are many.
    if (started := _time_of(snapshot_id, ID)) is not None:
        for days in (0, -1, 1):
            folder = layout.snapshot((started + timedelta(days=days)).date(), snapshot_id)
            if (folder / MANIFEST).is_file():
                return folder
    return None


def snapshot_time(snapshot_id: str) -> datetime:
    """Return when the pull of a snapshot began, as its id says."""
    return datetime.fromisoformat(snapshot_id)


@lru_cache(maxsize=1 << 18)
def file_in(folder: Path, name: str) -> Path:
    """Return a path, made once: with years of nights most of the time went into making them."""
    return folder / name


def _names(folder: Path | str) -> list[str]:
    """Return what lies in a folder, without looking at it: years of nights are listed."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone: a path for each costs more
    except (FileNotFoundError, NotADirectoryError):
        return []


@lru_cache(maxsize=1 << 16)
def _time_of(name: str, form: re.Pattern[str]) -> datetime | None:
    """Return the time that a folder is named for; None where its name is no such time."""
    with contextlib.suppress(ValueError):
        return datetime.fromisoformat(name) if form.fullmatch(name) else None
    return None


def folders(layout: Layout) -> Iterator[Path]:
    """Yield the folders of all landed snapshots, oldest first."""
    landing = layout.landing
    for name, day in sorted(_ids(layout)):
        if os.path.isfile(f"{landing}/{day}/{name}/{MANIFEST}"):  # noqa: PTH113 - a path costs more
            yield file_in(file_in(landing, day), name)


SEAL = "sha256"
LANDED = (
    "Nothing was made from it. Restore the file from a backup; the API keeps no history, so it "
    "cannot be read again."
)


class Damaged(Exception):
    """A file of ours is not what was written."""

    def __init__(self, file: Path, found: str, expected: str, advice: str = LANDED) -> None:
        self.file = file
        super().__init__(
            f"{file} holds {found}, but {expected} was expected: the file was changed or damaged "
            f"after it was written. {advice}"
        )


def write(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON object with its own SHA-256, whole or not at all.

    Raises `ValueError` for a number that is none in JSON.
    """
    write_json(path, with_seal(content))


def with_seal(content: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its own SHA-256 in it."""
    return content | {SEAL: digest(content)}


def read(path: Path, advice: str = LANDED) -> dict[str, Any]:
    """Read what `write` wrote; raises `Damaged` where it is anything else."""
    try:
        text = path.read_bytes()
    except PermissionError:  # nothing is known of it then, least of all that it is damaged
        raise
    except OSError as error:
        problem = f"nothing readable ({type(error).__name__})"
        raise Damaged(path, problem, "a JSON object with its SHA-256", advice) from None
    return parse(text, path, advice)


def parse(text: bytes, path: Path, advice: str = LANDED) -> dict[str, Any]:
    """Return what a text says that `path` holds; raises `Damaged` where it proves nothing."""
    try:
        if (proved := _fast_read(text)) is not None:
            return proved
        content: dict[str, Any] = json.loads(text)
        expected = content.pop(SEAL)
        proof = digest(content)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        problem = f"nothing readable ({type(error).__name__})"
        raise Damaged(path, problem, "a JSON object with its SHA-256", advice) from None
    if proof != expected:
        raise Damaged(path, f"content of SHA-256 {proof}", f"{str(expected)[:64]}", advice)
    return content


def _fast_read(text: bytes) -> dict[str, Any] | None:
    """Return the content where a fast reader proves it; None proves nothing."""
    # Every publish reads the manifests of all nights, so this is what a long history costs.
    try:
        content = msgspec.json.decode(text, type=dict[str, Any])
        expected = content.pop(SEAL)
        # The digest is over JSON with sorted keys and no spaces; msgspec writes the same bytes as
        # `json.dumps` for all that manifests usually hold, and where it does not, the slow way
        # decides.
        canonical = msgspec.json.encode(content, order="sorted")
    except (msgspec.MsgspecError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return content if hashlib.sha256(canonical).hexdigest() == expected else None


def digest(content: Any) -> str:
    """Return the SHA-256 of a JSON value, however it is laid out."""
    # What JSON has no form for would be written as null, and the file be read as damaged.
    text = json.dumps(
        content, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
