"""Verifying the shelf: each byte on the object store against the manifests that are believed."""

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pipelines.landing.sealed_json import Damaged
from pipelines.maintenance.verify import CHANGED, MISSING, Damage
from pipelines.shelf.arrival import blocks_of
from pipelines.shelf.night_manifest import NewerManifest, NightManifest, ShelvedFile, by_object
from pipelines.shelf.object_keys import manifest_key
from pipelines.shelf.object_store import ObjectStore
from pipelines.shelf.shelf_list import newest_manifests, read_night

NEWER = "of a newer nightbook"
UPDATE = "it was not verified: install the same version on every machine of the shelf"
REMEDY = "restore that object under its key from the store's own versions or its backup"


def verify_shelf(store: ObjectStore) -> Iterator[Damage]:
    """Yield every object that a night's manifest names and that is not as it was shelved.

    Raises `StoreFailed`, and `Damaged` where the list of the shelf is not whole.
    """
    for snapshot_id, key in newest_manifests(store).items():
        try:
            night = read_night(store, key)
        except Damaged:
            yield Damage(Path(key), CHANGED, snapshot_id, REMEDY)
            continue
        except NewerManifest:
            yield Damage(Path(key), NEWER, snapshot_id, UPDATE)
            continue
        yield from _broken_chain(store, night)
        for object_key, files in by_object(night.files):
            yield from _damage(store, night, object_key, files)


def _broken_chain(store: ObjectStore, night: NightManifest) -> Iterator[Damage]:
    """Yield an earlier generation that is not the one that the next was made after."""
    while night.previous is not None:
        key = manifest_key(night.snapshot_id, night.generation - 1)
        if store.head(key) is None:
            yield Damage(Path(key), MISSING, night.snapshot_id, REMEDY)
            return
        try:
            before = read_night(store, key)
        except Damaged:
            before = None
        if before is None or before.seal != night.previous:
            yield Damage(Path(key), CHANGED, night.snapshot_id, REMEDY)
            return
        night = before


def _damage(
    store: ObjectStore, night: NightManifest, key: str, files: list[ShelvedFile]
) -> Iterator[Damage]:
    """Yield an object that is missing, or of which a file has changed."""
    size = max(file.offset + file.size for file in files)
    there = store.head(key)
    if there is None:
        yield Damage(Path(key), MISSING, night.snapshot_id, REMEDY)
    elif there.size != size:
        yield Damage(Path(key), CHANGED, night.snapshot_id, REMEDY)
    else:
        with tempfile.TemporaryFile() as scratch:
            for block in store.get_blocks(key, 0, size):
                scratch.write(block)
            if any(_digest(scratch, file) != file.sha256 for file in files):
                yield Damage(Path(key), CHANGED, night.snapshot_id, REMEDY)


def _digest(source: IO[bytes], file: ShelvedFile) -> str:
    digest = hashlib.sha256()
    source.seek(file.offset)
    for block in blocks_of(source, file.size):
        digest.update(block)
    return digest.hexdigest()
