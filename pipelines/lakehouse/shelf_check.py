"""A check of all objects on the shelf against the digests in the manifests."""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pipelines.lakehouse.arrival import blocks_of
from pipelines.lakehouse.night_manifest import (
    NewerManifest,
    NightManifest,
    ShelvedFile,
    by_object,
    manifest_key,
)
from pipelines.lakehouse.object_store import ObjectStore
from pipelines.lakehouse.shelf_list import newest_manifests, read_night
from pipelines.landing.damage import CHANGED, MISSING, Damage
from pipelines.landing.night_folders import DamagedFile

# The label and the advice for objects that a newer version wrote.
NEWER = "written by a newer version of nightbook"
UPDATE = "not verified; install the same nightbook version on every machine that uses the shelf"
REMEDY = "restore this object under the same key, from an older version in the store or a backup"


def verify_shelf(store: ObjectStore) -> Iterator[Damage]:
    """Check all objects on the shelf. Yield damage for each missing or changed object.

    Raises `StoreFailed`, and `DamagedFile` if the shelf's list of nights is incomplete.
    """
    for snapshot_id, key in newest_manifests(store).items():
        try:
            night = read_night(store, key)
        except DamagedFile:
            yield Damage(Path(key), CHANGED, snapshot_id, REMEDY)
            continue
        except NewerManifest:
            yield Damage(Path(key), NEWER, snapshot_id, UPDATE)
            continue
        for problem_key, problem in (*_broken_chain(store, night), *_broken_objects(store, night)):
            yield Damage(Path(problem_key), problem, snapshot_id, REMEDY)


def _broken_chain(store: ObjectStore, night: NightManifest) -> Iterator[tuple[str, str]]:
    """Check a night's earlier manifests, latest first. Yield the first broken one's problem."""
    while night.previous is not None:
        key = manifest_key(night.snapshot_id, night.generation - 1)
        if store.size_of(key) is None:
            yield key, MISSING
            return
        try:
            previous = read_night(store, key)
        except DamagedFile:
            previous = None
        if previous is None or previous.seal != night.previous:
            yield key, CHANGED
            return
        night = previous


def _broken_objects(store: ObjectStore, night: NightManifest) -> Iterator[tuple[str, str]]:
    """Yield the key and the problem of each object that is missing or contains a changed file."""
    for key, files in by_object(night.files):
        size = max(file.offset + file.size for file in files)
        stored = store.size_of(key)
        if stored is None:
            yield key, MISSING
        elif stored != size or not _are_intact(store, key, size, files):
            yield key, CHANGED


def _are_intact(store: ObjectStore, key: str, size: int, files: list[ShelvedFile]) -> bool:
    """Download an object, and return whether all of its files have the recorded SHA-256."""
    with tempfile.TemporaryFile() as scratch:
        scratch.writelines(store.get_blocks(key, 0, size))
        return all(_digest(scratch, file) == file.sha256 for file in files)


def _digest(source: IO[bytes], file: ShelvedFile) -> str:
    """Compute the SHA-256 of one of the files in an object."""
    digest = hashlib.sha256()
    source.seek(file.offset)
    for block in blocks_of(source, file.size):
        digest.update(block)
    return digest.hexdigest()
