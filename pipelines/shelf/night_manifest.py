"""The manifest of a shelved night, and the night's files in a home and on the shelf."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from pipelines.landing import night_folders
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.night_folders import ID, MANIFEST, DamagedFile
from pipelines.landing.snapshots import DECISION, Decision, Snapshot
from pipelines.shelf.object_store import manifest_key
from warehouse.storage.layout import Layout, json_bytes

FORMAT = 2
ADVICE = "It was not used. To check the whole shelf, type: nightbook verify --shelf"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Role(StrEnum):
    """The kinds of large files that belong to a night."""

    BODY = "body"
    TABLE = "table"
    NIGHTLY = "nightly"
    PART = "part"


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
        content = night_folders.parse(
            self.documents[Document.DECIDED].encode(), Path(self.key), ADVICE
        )
        return msgspec.convert(content["decisions"], tuple[Decision, ...])

    def encode(self) -> bytes:
        """Encode the manifest as it is stored, including its own SHA-256."""
        return json_bytes(night_folders.with_seal(msgspec.to_builtins(self)))

    @property
    def seal(self) -> str:
        """The manifest's SHA-256, which the next generation stores as `previous`."""
        return night_folders.digest(msgspec.to_builtins(self))


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


def by_object(files: Iterable[ShelvedFile]) -> Iterator[tuple[str, list[ShelvedFile]]]:
    """Group files by the object that contains them. Yield each object's key and files, sorted."""
    placed = sorted(files, key=attrgetter("key", "offset"))
    for key, packed in itertools.groupby(placed, attrgetter("key")):
        yield key, list(packed)


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


UNUSABLE = (DuplicateNight, DamagedFile, NewerManifest)
"""The errors that affect only one night. All other nights are still shelved or fetched."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A large file of a night in this home, with its path and its SHA-256 from a manifest."""

    role: Role
    name: str
    path: Path
    sha256: str


def documents(layout: Layout, snapshot: Snapshot) -> dict[Document, str]:
    """Read the small files of a night. The night must be judged and in the lake."""
    places = {
        Document.LANDED: snapshot.folder / MANIFEST,
        Document.DECIDED: snapshot.folder / DECISION,
        Document.LAKE: layout.manifest(snapshot.snapshot_id),
    }
    return {document: path.read_text(encoding="utf-8") for document, path in places.items()}


def decision_text(snapshot: Snapshot, decisions: tuple[Decision, ...]) -> str:
    """Return a decision file's new text, or its current text if no decision has changed."""
    if decisions == snapshot.decisions:
        return (snapshot.folder / DECISION).read_text(encoding="utf-8")
    content = {"decisions": msgspec.to_builtins(decisions)}
    return json_bytes(night_folders.with_seal(content)).decode()


def bodies(snapshot: Snapshot) -> list[LocalFile]:
    """Return a night's response bodies, in the order in which the shelf's object stores them."""
    stored = load_manifest(snapshot.folder).stored
    return [
        LocalFile(Role.BODY, name, snapshot.folder / name, digest)
        for name, digest in sorted(stored.items())
    ]


def has_bodies(snapshot: Snapshot) -> bool:
    """Return whether all of a night's bodies are in this home."""
    return all(body.path.is_file() for body in bodies(snapshot))


def lake_files(layout: Layout, snapshot: Snapshot) -> Iterator[LocalFile]:
    """Yield the lake files of a night in this home, with their current paths."""
    snapshot_id = snapshot.snapshot_id
    sealed = night_folders.read(layout.manifest(snapshot_id))
    for role, name, digest in entries(sealed):
        paths = places(layout, role, name, snapshot.snapshot_date, snapshot_id)
        path = next((path for path in paths if path.is_file()), paths[0])
        yield LocalFile(role, name, path, digest)


def digests(landed: Manifest, sealed: Mapping[str, Any]) -> dict[tuple[Role, str], str]:
    """Return the SHA-256 of each large file, as recorded in the night's manifests."""
    expected = {(role, name): digest for role, name, digest in entries(sealed)}
    return expected | {(Role.BODY, name): digest for name, digest in landed.stored.items()}


def entries(sealed: Mapping[str, Any]) -> Iterator[tuple[Role, str, str]]:
    """Yield each file's role, name and SHA-256 from a lake manifest of any contract version."""
    for name, written in sealed["tables"].items():
        yield Role.TABLE, name, written["sha256"]
    for name, written in sealed["nightly"].items():
        yield Role.NIGHTLY, name, written["sha256"]
    for name, digest in sealed["parts"].items():
        yield Role.PART, name, digest


def places(layout: Layout, role: Role, name: str, day: date, snapshot_id: str) -> tuple[Path, ...]:
    """Return the possible paths of a file in a home. Fetched files are written to the last path."""
    if role is Role.BODY:
        return (layout.snapshot(day, snapshot_id) / name,)
    if role is Role.PART:
        return (layout.part(name, snapshot_id),)
    if role is Role.NIGHTLY:
        return (layout.parquet(name, day, snapshot_id),)
    return (layout.parquet(name, day, snapshot_id), layout.staged_file(name, snapshot_id))
