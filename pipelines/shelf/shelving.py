"""The upload of nights to the shelf: first the files, then the manifest."""

import itertools
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

import msgspec

from pipelines.landing import snapshots
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import Decision, Snapshot, merge
from pipelines.shelf import night_manifest, object_store
from pipelines.shelf.arrival import (
    OnFollowed,
    agreement,
    behind,
    follow,
    unknown_decisions,
    without_pruning,
)
from pipelines.shelf.night_manifest import (
    FORMAT,
    UNUSABLE,
    Document,
    LocalFile,
    NightManifest,
    Role,
    ShelvedFile,
)
from pipelines.shelf.object_store import LATEST, ObjectStore, StoreFailed, probe
from pipelines.shelf.shelf_list import (
    LatestPointer,
    NightRecord,
    ShelfRecord,
    newest_manifests,
    parse_latest,
    read_night,
    read_record,
    waiting_nights,
    write_record,
)
from warehouse.contract.states import PRUNED
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.storage.layout import Layout, digest_of, json_bytes, written_aside

PARALLEL_UPLOADS = 8
SAVE_INTERVAL = 25  # number of nights after which progress is saved
MAX_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Uploads:
    """An upload of one night's files from a home to the shelf."""

    layout: Layout
    store: ObjectStore
    snapshot: Snapshot

    def upload(self, previous: Iterable[ShelvedFile]) -> tuple[ShelvedFile, ...]:
        """Upload the files that are not in the night's previous generation on the shelf.

        Return the location in the store of every file.
        """
        existing = {(file.role, file.name, file.sha256): file for file in previous}
        bodies = night_manifest.bodies(self.snapshot)
        entries = [existing.get((Role.BODY, body.name, body.sha256)) for body in bodies]
        packed = [file for file in entries if file is not None]
        if len(packed) < len(bodies):
            packed = self._upload_bodies(bodies)
        lake = list(night_manifest.lake_files(self.layout, self.snapshot))
        with ThreadPoolExecutor(PARALLEL_UPLOADS, "shelve") as pool:
            uploads = pool.map(
                lambda file: (
                    existing.get((file.role, file.name, file.sha256)) or self._upload_file(file)
                ),
                lake,
            )
            return (*packed, *uploads)

    def _upload_bodies(self, bodies: list[LocalFile]) -> list[ShelvedFile]:
        """Upload all of the night's bodies as one object. Return the location of each body."""
        pack = self.layout.work / f"{self.snapshot.snapshot_id}.bodies"
        sizes = []
        with written_aside(pack) as out:
            for body in bodies:
                _require_intact(body)
                with body.path.open("rb") as source:
                    shutil.copyfileobj(source, out)
                sizes.append(body.path.stat().st_size)
        key = object_store.bodies_key(
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
        """Upload one lake file (a table or a part's metadata) to the shelf."""
        _require_intact(file)
        name_key = object_store.part_key if file.role is Role.PART else object_store.table_key
        key = name_key(
            file.name, self.snapshot.snapshot_date, self.snapshot.snapshot_id, file.sha256
        )
        self.store.put_file(key, file.path)
        size = file.path.stat().st_size
        return ShelvedFile(role=file.role, name=file.name, key=key, size=size, sha256=file.sha256)


def _require_intact(file: LocalFile) -> None:
    """Raise `DamagedFile` if a local file is missing or was changed."""
    if not file.path.is_file() or digest_of(file.path) != file.sha256:
        raise DamagedFile(file.path, "different content or no content", f"SHA-256 {file.sha256}")


@dataclass(frozen=True, slots=True)
class ShelvingResult:
    """The IDs of the nights that were shelved, and the reasons why other nights were not."""

    shelved: tuple[str, ...]
    problems: tuple[str, ...]


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
    ) -> ShelvingResult:
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
            record = ShelfRecord(url, is_probed=True, nights=record.nights)
            write_record(self.layout, record)
        waiting_ids = {night.snapshot_id for night in waiting_nights(self.layout, url, nights)}
        differing = waiting_ids | {night.snapshot_id for night in behind(nights, newest, record)}
        chosen = [snapshot for snapshot in nights if snapshot.snapshot_id in differing]
        progress, problems = Tally(say, len(chosen), "nights shelved"), list[str]()
        done: dict[str, NightRecord] = {}
        shelved: list[NightManifest] = []
        for number, snapshot in enumerate(chosen, 1):
            known = record.nights.get(snapshot.snapshot_id)
            try:
                done[snapshot.snapshot_id], night = self._synchronize(
                    snapshot, newest.get(snapshot.snapshot_id), known, on_followed
                )
                shelved += [night] if snapshot.snapshot_id in waiting_ids else []
            except UNUSABLE as error:
                problems.append(str(error))
            progress.add(1)
            if number % SAVE_INTERVAL == 0 or number == len(chosen):
                for latest in shelved[-1:]:
                    self._update_latest(latest)
                noted = {**record.nights, **done}
                write_record(self.layout, ShelfRecord(url, is_probed=True, nights=noted))
        return ShelvingResult(tuple(night.snapshot_id for night in shelved), tuple(problems))

    def _synchronize(
        self,
        snapshot: Snapshot,
        key: str | None,
        known: NightRecord | None,
        on_followed: OnFollowed,
    ) -> tuple[NightRecord, NightManifest]:
        """Synchronize a night with the shelf. `key` is its newest manifest's key, if any."""

        def next_generation(previous: NightManifest) -> NightManifest:
            local = follow(snapshots.read(snapshot.folder), previous, on_followed)
            return self._next(local, previous, known)

        previous = read_night(self.store, key) if key else None
        night = next_generation(previous) if previous else self._first(snapshot)
        night = self.commit(previous, night, next_generation)
        return agreement(self.layout, snapshots.read(snapshot.folder), night), night

    def _first(self, local: Snapshot) -> NightManifest:
        """Upload a night and return its first generation."""
        documents = night_manifest.documents(self.layout, local)
        files = Uploads(self.layout, self.store, local).upload(())
        return self.generation(local, None, local.decisions, documents, files)

    def _next(
        self, local: Snapshot, previous: NightManifest, known: NightRecord | None
    ) -> NightManifest:
        """Build the next generation of a night. Return `previous` if this home has nothing to add.

        `known` is the night's record from the last synchronization with the shelf.
        """
        decisions = merge(without_pruning(local.decisions), previous.decisions)
        lake = self._new_lake(local, previous, known)
        if lake is not None:
            files = Uploads(self.layout, self.store, local).upload(previous.files)
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
        doing = f"create {night.key}"
        raise StoreFailed(
            self.store.address.url, doing, "another machine wrote first on every attempt"
        )

    def generation(
        self,
        local: Snapshot,
        previous: NightManifest | None,
        decisions: tuple[Decision, ...],
        documents: Mapping[Document, str],
        files: tuple[ShelvedFile, ...],
    ) -> NightManifest:
        """Build the manifest for the next generation of a night, with the given decisions."""
        decided = night_manifest.decision_text(local, decisions)
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
        raise StoreFailed(
            self.store.address.url, f"swap {LATEST}", "other machines keep changing it"
        )
