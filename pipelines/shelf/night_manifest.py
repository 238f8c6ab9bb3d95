"""The manifest of a shelved night: all that other machines believe of it.

`manifests/<snapshot_id>-<generation>.json` is created once and never changed. A later decision, or
a lake that was made again, is the next generation; the newest counts. It holds the night's own
small files whole, and names each large one by key, place, size and SHA-256.

The first format had decisions that did not name their machine. A nightbook of that time refuses the
second, because it has a field more, so that it never rewrites decisions that it knows only in part.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from enum import StrEnum
from operator import attrgetter
from pathlib import Path

import msgspec

from pipelines.landing import sealed_json
from pipelines.landing.night_folders import ID
from pipelines.landing.sealed_json import Damaged
from pipelines.landing.snapshots import Decision
from pipelines.shelf.object_keys import manifest_key
from warehouse.storage.layout import json_bytes

FORMAT = 2
ADVICE = "It is not believed. Let nightbook verify --shelf say what else is wrong there."
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class Role(StrEnum):
    """What a large file is of a night."""

    BODY = "body"
    TABLE = "table"
    NIGHTLY = "nightly"
    PART = "part"


class Document(StrEnum):
    """What a small file is of a night; its text stands in the shelf's manifest."""

    LANDED = "landed"
    DECIDED = "decided"
    LAKE = "lake"


class ShelvedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A large file of a night: `size` bytes from `offset` of the object under `key`."""

    role: Role
    name: str
    key: str
    offset: int = 0
    size: int
    sha256: str


class NightManifest(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One generation of a night; `token` is of the run that wrote it.

    `previous` is the SHA-256 of the generation before, and None in the first.
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
        """The key of its manifest."""
        return manifest_key(self.snapshot_id, self.generation)

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What was decided about it by then, oldest first."""
        content = sealed_json.parse(
            self.documents[Document.DECIDED].encode(), Path(self.key), ADVICE
        )
        return msgspec.convert(content["decisions"], tuple[Decision, ...])

    def encode(self) -> bytes:
        """Return it as it is kept, with its own SHA-256."""
        return json_bytes(sealed_json.with_seal(msgspec.to_builtins(self)))

    @property
    def seal(self) -> str:
        """Its SHA-256, by which the next generation names it."""
        return sealed_json.digest(msgspec.to_builtins(self))


def decode(content: bytes, key: str) -> NightManifest:
    """Read the manifest under a key.

    Raises `NewerManifest`, and `Damaged` if it is not a manifest or belongs to another key.
    """
    parsed = sealed_json.parse(content, Path(key), ADVICE)
    if parsed.get("format", 1) not in range(1, FORMAT + 1):
        raise NewerManifest(key, str(parsed.get("program_version")))
    try:
        night = msgspec.convert(parsed, NightManifest)
    except msgspec.ValidationError as error:
        problem = f"other fields than this version of nightbook writes ({error})"
        raise Damaged(Path(key), problem, "a manifest of this version", ADVICE) from None
    names = [night.snapshot_id, *(file.name for file in night.files)]
    is_ours = all(_NAME.fullmatch(name) for name in names) and ID.fullmatch(night.snapshot_id)
    if night.key != key or not is_ours or set(night.documents) != set(Document):
        raise Damaged(Path(key), f"the manifest of {night.key[:99]!r}", f"that of {key}", ADVICE)
    return night


def by_object(files: Iterable[ShelvedFile]) -> Iterator[tuple[str, list[ShelvedFile]]]:
    """Yield the key of each object, and the files that lie in it, in their order."""
    placed = sorted(files, key=attrgetter("key", "offset"))
    for key, packed in itertools.groupby(placed, attrgetter("key")):
        yield key, list(packed)


class NewerManifest(Exception):
    """A manifest in a format that this version of nightbook does not know."""

    def __init__(self, key: str, version: str) -> None:
        super().__init__(
            f"{key} was written by nightbook {version[:40]}, which is newer than this one, so this "
            "machine can neither read that night nor decide on it. Nothing of it was changed, here "
            "or on the shelf. Install the same version on every machine of a shelf"
        )


class AnotherWriter(Exception):
    """Two machines read the API in the same second, so two nights have one name."""

    def __init__(self, night: NightManifest) -> None:
        folder = f"landing/{night.snapshot_date}/{night.snapshot_id}"
        super().__init__(
            f"night {night.snapshot_id} is on the shelf already with other answers of the API "
            f"(generation {night.generation}, {night.state}, shelved at {night.at}): another "
            "machine read it in the same second. That one stands, and this machine's was not "
            "shelved. Let one machine take the nights of a shelf. To have the shelf's night here "
            f"too, move the folder {folder} out of this home, then: nightbook publish"
        )


UNUSABLE = (AnotherWriter, Damaged, NewerManifest)
"""The reasons for which one night is left out, while the others are shelved or fetched."""
