"""The large files of a night go up: whole, from disk, each under a key that says what it holds.

Nobody sees them until a manifest names them, so what a dead run uploaded is uploaded again under
the same key, or stays there unnamed.
"""

import itertools
import shutil
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pipelines.landing.sealed_json import Damaged
from pipelines.landing.snapshots import Snapshot
from pipelines.shelf import night_files, object_keys
from pipelines.shelf.night_files import LocalFile
from pipelines.shelf.night_manifest import Role, ShelvedFile
from pipelines.shelf.object_store import ObjectStore
from warehouse.storage.layout import Layout, digest_of, written_aside

AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Uploads:
    """The uploads of one night of a home."""

    layout: Layout
    store: ObjectStore
    snapshot: Snapshot

    def upload(self, before: Iterable[ShelvedFile]) -> tuple[ShelvedFile, ...]:
        """Upload what the generation before does not have; returns where every file is."""
        there = {(file.role, file.name, file.sha256): file for file in before}
        bodies = night_files.bodies(self.snapshot)
        entries = [there.get((Role.BODY, body.name, body.sha256)) for body in bodies]
        packed = [file for file in entries if file is not None]
        if len(packed) < len(bodies):
            packed = self._upload_bodies(bodies)
        lake = list(night_files.lake_files(self.layout, self.snapshot))
        with ThreadPoolExecutor(AT_ONCE, "shelve") as pool:
            uploads = pool.map(
                lambda file: (
                    there.get((file.role, file.name, file.sha256)) or self._upload_file(file)
                ),
                lake,
            )
            return (*packed, *uploads)

    def _upload_bodies(self, bodies: list[LocalFile]) -> list[ShelvedFile]:
        """Upload the bodies of a night one after the other in one object; returns each place."""
        pack = self.layout.work / f"{self.snapshot.snapshot_id}.bodies"
        sizes = []
        with written_aside(pack) as out:
            for body in bodies:
                _require_whole(body)
                with body.path.open("rb") as source:
                    shutil.copyfileobj(source, out)
                sizes.append(body.path.stat().st_size)
        key = object_keys.bodies_key(
            self.snapshot.snapshot_date, self.snapshot.snapshot_id, digest_of(pack)
        )
        self.store.put_file(key, pack)
        pack.unlink()
        offsets = itertools.accumulate(sizes, initial=0)
        return [
            ShelvedFile(
                role=Role.BODY,
                name=body.name,
                key=key,
                offset=offset,
                size=size,
                sha256=body.sha256,
            )
            for body, offset, size in zip(bodies, offsets, sizes, strict=False)
        ]

    def _upload_file(self, file: LocalFile) -> ShelvedFile:
        _require_whole(file)
        name_key = object_keys.part_key if file.role is Role.PART else object_keys.table_key
        key = name_key(
            file.name, self.snapshot.snapshot_date, self.snapshot.snapshot_id, file.sha256
        )
        self.store.put_file(key, file.path)
        size = file.path.stat().st_size
        return ShelvedFile(role=file.role, name=file.name, key=key, size=size, sha256=file.sha256)


def _require_whole(file: LocalFile) -> None:
    """Raise `Damaged` where a file is not what a manifest promises."""
    if not file.path.is_file() or digest_of(file.path) != file.sha256:
        raise Damaged(file.path, "other bytes, or nothing", f"SHA-256 {file.sha256}")
