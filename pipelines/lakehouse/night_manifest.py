"""The manifest of a shelved night, and the keys of its objects on the shelf."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from pipelines.lake.night_files import Role
from pipelines.landing import night_folders
from pipelines.landing.night_folders import ID, DamagedFile
from pipelines.landing.snapshots import Decision
from warehouse.storage.layout import json_bytes

FORMAT = 2
ADVICE = "It was not used. To check the whole shelf, type: nightbook verify --shelf"
FOLDER = "manifests"
# The number of SHA-256 digits in a key, enough to distinguish all versions of a night's table.
DIGEST_DIGITS = 16
_MANIFEST = re.compile(rf"{FOLDER}/([0-9]{{8}}T[0-9]{{6}}Z)-([0-9]{{4,9}})\.json")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Document(StrEnum):
    """The kinds of small files that belong to a night. The shelf's manifest contains their text."""

    LANDED = "landed"
    DECIDED = "decided"
    LAKE = "lake"


class ShelvedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A large file of a night on the shelf: `size` bytes at `offset` in the object `key`."""

    role: Role
    name: str
    key: str
    offset: int = 0
    size: int
    sha256: str


class NightManifest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The shelf's manifest of one generation of a night. `token` identifies the run that wrote it.

    `previous` is the SHA-256 of the previous generation, or None in the first generation.
    """

    snapshot_id: str
    snapshot_date: date
    state: str
    generation: int
    previous: str | None
    token: str
    at: str
    program_version: str
    documents: Mapping[Document, str]
    files: tuple[ShelvedFile, ...]
    format: int = 1

    @property
    def key(self) -> str:
        """The manifest's key in the object store."""
        return manifest_key(self.snapshot_id, self.generation)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decisions on the night in this generation, oldest first."""
        return msgspec.convert(self.parse(Document.DECIDED)["decisions"], tuple[Decision, ...])

    def parse(self, document: Document) -> dict[str, Any]:
        """Parse one of the night's documents. Raises `DamagedFile` if it was changed."""
        return night_folders.parse(self.documents[document].encode(), Path(self.key), ADVICE)

    def encode(self) -> bytes:
        """Encode the manifest as it is stored, including its own SHA-256."""
        return json_bytes(night_folders.with_seal(msgspec.to_builtins(self)))

    @property
    def seal(self) -> str:
        """The manifest's SHA-256, which the next generation stores as `previous`."""
        return night_folders.digest(msgspec.to_builtins(self))


class NewerManifest(Exception):
    """The shelf has a manifest in a newer format that this version of nightbook cannot read."""

    def __init__(self, key: str, version: str) -> None:
        super().__init__(
            f"{key} was written by nightbook {version[:40]}, which is newer than the version here. "
            "So this machine can neither read the night nor decide on it. The night was not "
            "changed, either here or on the shelf. Install the same version on every machine "
            "that uses the shelf"
        )


class DuplicateNight(Exception):
    """Two machines pulled a night in the same second, so their nights have the same ID."""

    def __init__(self, night: NightManifest) -> None:
        folder = f"landing/{night.snapshot_date}/{night.snapshot_id}"
        super().__init__(
            f"night {night.snapshot_id} is already on the shelf with different API responses "
            f"(generation {night.generation}, {night.state}, shelved at {night.at}). Another "
            "machine read the API in the same second. That machine's night stays on the shelf, "
            "and this machine's night was not shelved. Let only one machine pull nights for a "
            "shelf. To load the shelf's night into this home too, move the folder "
            f"{folder} out of this home, then type: nightbook publish"
        )


class NightOfOtherServer(Exception):
    """A night on the shelf was read from another server than this home's nights."""

    def __init__(self, snapshot_id: str, server: str, here: str) -> None:
        super().__init__(
            f"night {snapshot_id} on the shelf was read from {server}, but this home's nights from "
            f"{here}, and nobody accepted the change. It was not fetched. Two environments must "
            "not share a shelf: set NIGHTBOOK_SHELF of one of them to another folder. If the "
            "server changed, decide on the night on the machine that read it"
        )


UNUSABLE = (DuplicateNight, NightOfOtherServer, DamagedFile, NewerManifest)
"""The errors that affect only one night. All other nights are still shelved or fetched."""


def decode(content: bytes, key: str) -> NightManifest:
    """Parse a night's manifest that was stored under a key of the shelf.

    Raises `NewerManifest`, or `DamagedFile` if the manifest is invalid or belongs to a different
    key.
    """
    parsed = night_folders.parse(content, Path(key), ADVICE)
    if parsed.get("format", 1) not in range(1, FORMAT + 1):
        raise NewerManifest(key, str(parsed.get("program_version")))
    try:
        night = msgspec.convert(parsed, NightManifest)
    except msgspec.ValidationError as error:
        problem = f"different fields than this version of nightbook writes ({error})"
        raise DamagedFile(Path(key), problem, "a manifest from this version", ADVICE) from None
    names = [night.snapshot_id, *(file.name for file in night.files)]
    is_valid = all(_NAME.fullmatch(name) for name in names) and ID.fullmatch(night.snapshot_id)
    if night.key != key or not is_valid or set(night.documents) != set(Document):
        found, expected = f"the manifest for {night.key[:99]!r}", f"the manifest for {key}"
        raise DamagedFile(Path(key), found, expected, ADVICE)
    return night


def manifest_key(snapshot_id: str, generation: int) -> str:
    """Return the key of the object that contains one generation of a night's manifest."""
    return f"{FOLDER}/{snapshot_id}-{generation:04}.json"


def generation_of(key: str) -> tuple[str, int]:
    """Parse the snapshot ID and generation in a manifest's key. For other keys, return "" and 0."""
    match = _MANIFEST.fullmatch(key)
    return (match[1], int(match[2])) if match else ("", 0)


def file_key(role: Role, name: str, day: date, snapshot_id: str, sha256: str) -> str:
    """Return the key of the object with a night's table, part or bodies (all in one object)."""
    digits = sha256[:DIGEST_DIGITS]
    if role is Role.BODY:
        return f"landing/{day}/{snapshot_id}-{digits}.bodies"
    if role is Role.PART:
        return f"lake/parts/snapshot_date={day}/{snapshot_id}-{name}-{digits}.json"
    return f"lake/{name}/snapshot_date={day}/{snapshot_id}-{digits}.parquet"


def by_object(files: Iterable[ShelvedFile]) -> Iterator[tuple[str, list[ShelvedFile]]]:
    """Group files by the object that contains them. Yield each object's key and files, sorted."""
    placed = sorted(files, key=attrgetter("key", "offset"))
    for key, packed in itertools.groupby(placed, attrgetter("key")):
        yield key, list(packed)
