"""The upload of nights to the shelf: first the files, then the manifest."""

import itertools
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import msgspec

from pipelines.lake.night_files import Role, entries, places
from pipelines.lakehouse.decisions import (
    OnFollowed,
    agreement,
    behind,
    follow,
    unknown_decisions,
    without_pruning,
)
from pipelines.lakehouse.errors import StoreFailed
from pipelines.lakehouse.night_manifest import (
    FORMAT,
    Document,
    NightManifest,
    ShelvedFile,
    file_key,
)
from pipelines.lakehouse.object_store import ObjectStore, probe
from pipelines.lakehouse.shelf_list import (
    LATEST,
    LatestPointer,
    NightRecord,
    newest_manifests,
    parse_latest,
    read_night,
    read_record,
    waiting_nights,
    write_record,
)
from pipelines.lakehouse.transfer import PARALLEL_FILES, Transfer, move_each
from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import load_manifest
from pipelines.landing.night_folders import MANIFEST, DamagedFile
from pipelines.landing.snapshots import DECISION, Decision, Snapshot, merge
from warehouse.contract.states import PRUNED
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.storage.layout import Layout, digest_of, json_bytes, written_aside

MAX_ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelver:
    """A run that synchronizes a home with the shelf. `token` is random and identifies the run."""

    layout: Layout
    store: ObjectStore
    token: str
    at: datetime
    program_version: str

    def shelve(
        self,
        nights: Sequence[Snapshot],
        say: ProgressCallback = silent,
        on_followed: OnFollowed = lambda _: None,
    ) -> Transfer:
        """Synchronize this home's nights with the shelf. The caller must be the home's only writer.

        Upload judged nights that have changed since they were last shelved. Merge decisions from
        other machines into this home, and call `on_followed` for each merged night. Raises
        `StoreFailed` and `UnsafeStoreError`.
        """
        url = self.store.address.url
        record = read_record(self.layout, url)
        newest = newest_manifests(self.store, record.shelved_nights)
        if not record.is_probed:
            probe(self.store, self.token)
            record = msgspec.structs.replace(record, is_probed=True)
            write_record(self.layout, record)
        waiting_ids = {night.snapshot_id for night in waiting_nights(self.layout, url, nights)}
        differing = waiting_ids | {night.snapshot_id for night in behind(nights, newest, record)}
        chosen = {night.snapshot_id: night for night in nights if night.snapshot_id in differing}
        shelved: list[NightManifest] = []

        def synchronize(snapshot: Snapshot) -> NightRecord:
            snapshot_id = snapshot.snapshot_id
            known = record.nights.get(snapshot_id)
            night = self._synchronize(snapshot, newest.get(snapshot_id), known, on_followed)
            shelved.extend([night] if snapshot_id in waiting_ids else [])
            return agreement(self.layout, snapshots.read(snapshot.folder), night)

        def update_latest() -> None:
            for night in shelved[-1:]:
                self._update_latest(night)

        progress = Tally(say, len(chosen), "nights shelved")
        _, problems = move_each(
            self.layout,
            record,
            chosen,
            synchronize,
            progress=progress,
            before_saving=update_latest,
        )
        return Transfer(tuple(night.snapshot_id for night in shelved), problems, len(newest))

    def _synchronize(
        self,
        snapshot: Snapshot,
        key: str | None,
        known: NightRecord | None,
        on_followed: OnFollowed,
    ) -> NightManifest:
        """Synchronize a night with the shelf. `key` is its newest manifest's key, if any."""

        def next_generation(previous: NightManifest) -> NightManifest:
            local = follow(snapshots.read(snapshot.folder), previous, on_followed)
            return self._next(local, previous, known)

        previous = read_night(self.store, key) if key else None
        night = next_generation(previous) if previous else self._first(snapshot)
        return self.commit(previous, night, next_generation)

    def _first(self, local: Snapshot) -> NightManifest:
        """Upload a night and return its first generation."""
        paths = {
            Document.LANDED: local.folder / MANIFEST,
            Document.LAKE: self.layout.manifest(local.snapshot_id),
        }
        documents = {name: path.read_text(encoding="utf-8") for name, path in paths.items()}
        return self.generation(local, None, local.decisions, documents, self._upload(local, ()))

    def _next(
        self, local: Snapshot, previous: NightManifest, known: NightRecord | None
    ) -> NightManifest:
        """Build the next generation of a night. Return `previous` if this home has nothing to add.

        `known` is the night's record from the last synchronization with the shelf.
        """
        decisions = merge(without_pruning(local.decisions), previous.decisions)
        lake = self._new_lake(local, previous, known)
        if lake is not None:
            files = self._upload(local, previous.files)
            documents = {**previous.documents, Document.LAKE: lake}
            return self.generation(local, previous, decisions, documents, files)
        if unknown_decisions(decisions, previous.decisions):
            return self.generation(local, previous, decisions, previous.documents, previous.files)
        return previous

    def _new_lake(
        self, local: Snapshot, previous: NightManifest, known: NightRecord | None
    ) -> str | None:
        """Return the lake manifest if this home has rebuilt it, but no other machine has."""
        # If another machine has shelved a rebuilt lake manifest in the meantime, use that manifest.
        # The next fetch loads it.
        is_ours = known is None or known.generation == previous.generation
        path = self.layout.manifest(local.snapshot_id)
        if PRUNED in (local.state, previous.state) or not is_ours or not path.is_file():
            return None
        lake = path.read_text(encoding="utf-8")
        return lake if lake != previous.documents[Document.LAKE] else None

    def commit(
        self,
        previous: NightManifest | None,
        night: NightManifest,
        next_generation: Callable[[NightManifest], NightManifest],
    ) -> NightManifest:
        """Write a manifest to the shelf, unless it is `previous`. Return the newest generation.

        If two writers try to create the same generation, the store accepts only one manifest. The
        other writer reads that generation and creates the next.
        """
        for _ in range(MAX_ATTEMPTS):
            # When the manifest is created, the complete night becomes visible to readers.
            if night is previous or self.store.put_new(night.key, night.encode()):
                return night
            previous = read_night(self.store, night.key)
            night = next_generation(previous)
        reason = "another machine wrote first on every attempt"
        raise StoreFailed(self.store.address.url, f"create {night.key}", reason)

    def generation(
        self,
        local: Snapshot,
        previous: NightManifest | None,
        decisions: tuple[Decision, ...],
        documents: Mapping[Document, str],
        files: tuple[ShelvedFile, ...],
    ) -> NightManifest:
        """Build the manifest for the next generation of a night, with the given decisions."""
        if decisions == local.decisions:
            decided = (local.folder / DECISION).read_text(encoding="utf-8")
        else:
            content = {"decisions": msgspec.to_builtins(decisions)}
            decided = json_bytes(night_folders.with_seal(content)).decode()
        return NightManifest(
            snapshot_id=local.snapshot_id,
            snapshot_date=local.snapshot_date,
            state=decisions[-1].state,
            generation=previous.generation + 1 if previous else 1,
            previous=previous.seal if previous else None,
            token=self.token,
            at=self.at.isoformat(),
            program_version=self.program_version,
            documents={**documents, Document.DECIDED: decided},
            files=files,
            format=FORMAT,
        )

    def _upload(
        self, snapshot: Snapshot, previous: Iterable[ShelvedFile]
    ) -> tuple[ShelvedFile, ...]:
        """Upload the files that are not in the night's previous generation on the shelf.

        Return the location in the store of every file.
        """
        existing = {(file.role, file.name, file.sha256): file for file in previous}
        bodies = sorted(load_manifest(snapshot.folder).stored.items())
        packed = [existing.get((Role.BODY, name, digest)) for name, digest in bodies]
        if None in packed:
            packed = [*self._upload_bodies(snapshot, bodies)]
        sealed = night_folders.read(self.layout.manifest(snapshot.snapshot_id))
        with ThreadPoolExecutor(PARALLEL_FILES, "shelve") as pool:
            uploads = pool.map(
                lambda entry: existing.get(entry) or self._upload_file(snapshot, *entry),
                entries(sealed),
            )
            return (*filter(None, packed), *uploads)

    def _upload_bodies(
        self, snapshot: Snapshot, bodies: Sequence[tuple[str, str]]
    ) -> list[ShelvedFile]:
        """Upload all of the night's bodies as one object. Return the location of each body."""
        pack, sizes = self.layout.work / f"{snapshot.snapshot_id}.bodies", list[int]()
        with written_aside(pack) as out:
            for name, digest in bodies:
                path = _require_intact(snapshot.folder / name, digest)
                with path.open("rb") as source:
                    shutil.copyfileobj(source, out)
                sizes.append(path.stat().st_size)
        key = file_key(Role.BODY, "", snapshot.snapshot_date, snapshot.snapshot_id, digest_of(pack))
        self.store.put_file(key, pack)
        pack.unlink()
        offsets = itertools.accumulate(sizes, initial=0)
        return [
            ShelvedFile(role=Role.BODY, name=name, key=key, offset=offset, size=size, sha256=digest)
            for (name, digest), offset, size in zip(bodies, offsets, sizes, strict=False)
        ]

    def _upload_file(self, snapshot: Snapshot, role: Role, name: str, digest: str) -> ShelvedFile:
        """Upload one lake file (a table or a part's metadata) to the shelf."""
        day, snapshot_id = snapshot.snapshot_date, snapshot.snapshot_id
        paths = places(self.layout, role, name, day, snapshot_id)
        path = next((path for path in paths if path.is_file()), paths[0])
        key = file_key(role, name, day, snapshot_id, digest)
        self.store.put_file(key, _require_intact(path, digest))
        return ShelvedFile(role=role, name=name, key=key, size=path.stat().st_size, sha256=digest)

    def _update_latest(self, night: NightManifest) -> None:
        """Update `LATEST` to name a night's manifest, unless it already names a newer manifest."""
        latest = LatestPointer(
            snapshot_id=night.snapshot_id,
            generation=night.generation,
            manifest=night.key,
            token=self.token,
        )
        content = json_bytes(msgspec.to_builtins(latest))
        for _ in range(MAX_ATTEMPTS):
            existing = self.store.get(LATEST)
            if existing is None:
                if self.store.put_new(LATEST, content):
                    return
                continue
            if parse_latest(existing.content).rank >= latest.rank:
                return
            if self.store.swap(LATEST, content, existing.tag):
                return
        reason = "other machines keep changing it"
        raise StoreFailed(self.store.address.url, f"swap {LATEST}", reason)


def _require_intact(path: Path, digest: str) -> Path:
    """Return a local file. Raises `DamagedFile` if it is missing or was changed."""
    if not path.is_file() or digest_of(path) != digest:
        raise DamagedFile(path, "different content or no content", f"SHA-256 {digest}")
    return path
