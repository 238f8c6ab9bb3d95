"""What a judged night consists of on this machine, as its own manifests list it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import msgspec

from pipelines.landing import sealed_json
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.night_folders import MANIFEST
from pipelines.landing.snapshots import DECISION, Decision, Snapshot
from pipelines.shelf.night_manifest import Document, Role
from warehouse.storage.layout import Layout, json_bytes


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A large file of a night: where it lies, and the SHA-256 that a manifest promises."""

    role: Role
    name: str
    path: Path
    sha256: str


def documents(layout: Layout, snapshot: Snapshot) -> dict[Document, str]:
    """Return the small files of a night that is judged and in the lake, whole."""
    places = {
        Document.LANDED: snapshot.folder / MANIFEST,
        Document.DECIDED: snapshot.folder / DECISION,
        Document.LAKE: layout.manifest(snapshot.snapshot_id),
    }
    return {document: path.read_text(encoding="utf-8") for document, path in places.items()}


def decision_text(snapshot: Snapshot, decisions: tuple[Decision, ...]) -> str:
    """Return the file of these decisions: that of the home, byte for byte, if it has the same."""
    if decisions == snapshot.decisions:
        return (snapshot.folder / DECISION).read_text(encoding="utf-8")
    content = {"decisions": msgspec.to_builtins(decisions)}
    return json_bytes(sealed_json.with_seal(content)).decode()


def bodies(snapshot: Snapshot) -> list[LocalFile]:
    """Return the bodies of a night, in the order in which they are packed."""
    stored = load_manifest(snapshot.folder).stored
    return [
        LocalFile(Role.BODY, name, snapshot.folder / name, digest)
        for name, digest in sorted(stored.items())
    ]


def has_bodies(snapshot: Snapshot) -> bool:
    """Whether the bodies of a night lie in this home."""
    return all(body.path.is_file() for body in bodies(snapshot))


def lake_files(layout: Layout, snapshot: Snapshot) -> Iterator[LocalFile]:
    """Yield the files of the lake that a night's manifest lists, wherever they lie now."""
    snapshot_id = snapshot.snapshot_id
    sealed = sealed_json.read(layout.manifest(snapshot_id))
    for role, name, digest in entries(sealed):
        paths = places(layout, role, name, snapshot.snapshot_date, snapshot_id)
        path = next((path for path in paths if path.is_file()), paths[0])
        yield LocalFile(role, name, path, digest)


def digests(landed: Manifest, sealed: Mapping[str, Any]) -> dict[tuple[Role, str], str]:
    """Return the SHA-256 of each large file that a night's manifests promise."""
    promised = {(role, name): digest for role, name, digest in entries(sealed)}
    return promised | {(Role.BODY, name): digest for name, digest in landed.stored.items()}


def entries(sealed: Mapping[str, Any]) -> Iterator[tuple[Role, str, str]]:
    """Yield role, name and SHA-256 of what a manifest of the lake lists, by whatever contract."""
    for name, written in sealed["tables"].items():
        yield Role.TABLE, name, written["sha256"]
    for name, written in sealed["nightly"].items():
        yield Role.NIGHTLY, name, written["sha256"]
    for name, digest in sealed["parts"].items():
        yield Role.PART, name, digest


def places(layout: Layout, role: Role, name: str, day: date, snapshot_id: str) -> tuple[Path, ...]:
    """Return where a file may lie in a home; the last is where a night that came is put first."""
    if role is Role.BODY:
        return (layout.snapshot(day, snapshot_id) / name,)
    if role is Role.PART:
        return (layout.part(name, snapshot_id),)
    if role is Role.NIGHTLY:
        return (layout.parquet(name, day, snapshot_id),)
    return (layout.parquet(name, day, snapshot_id), layout.staged_file(name, snapshot_id))
