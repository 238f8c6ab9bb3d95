"""A judged night goes on the shelf: its files first, then the manifest that makes them a night.

Killed at any instant, what is on the store is whole nights and objects that nobody names yet; the
next time goes on from there. Of two writers of one night, the create of its manifest decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from pipelines.landing.sealed_json import Damaged
from pipelines.landing.snapshots import Snapshot
from pipelines.shelf import night_files
from pipelines.shelf.local_record import (
    NightRecord,
    ShelfRecord,
    read_record,
    stamp,
    waiting_nights,
    write_record,
)
from pipelines.shelf.night_manifest import (
    AnotherWriter,
    Document,
    NightManifest,
    ShelvedFile,
    require_ours,
)
from pipelines.shelf.object_keys import LATEST
from pipelines.shelf.object_store import ObjectStore, StoreFailed
from pipelines.shelf.probe import probe
from pipelines.shelf.shelf_list import Head, newest_manifests, read_head, read_night
from pipelines.shelf.uploads import Uploads
from warehouse.progress import Say, Tally, silent
from warehouse.storage.layout import Layout, json_bytes

NOTED = 25  # nights after which what is done is noted
TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ShelvingResult:
    """Nights that are on the shelf since, and why others are not."""

    shelved: tuple[str, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelver:
    """One run that shelves: `token` is random and its alone."""

    layout: Layout
    store: ObjectStore
    token: str
    at: datetime
    program_version: str

    def shelve(self, nights: list[Snapshot], say: Say = silent) -> ShelvingResult:
        """Shelve the judged ones of a home's nights that are not on the shelf as they are.

        The caller is the writer of the home. Raises `StoreFailed` and `BreaksItsWord`.
        """
        url = self.store.address.url
        record = read_record(self.layout, url)
        if not record.is_probed:
            probe(self.store, self.token)
            record = ShelfRecord(url, is_probed=True, nights=record.nights)
            write_record(self.layout, record)
        waiting = waiting_nights(self.layout, url, nights)
        if not waiting:
            return ShelvingResult(shelved=(), problems=())
        newest = newest_manifests(self.store)
        progress, problems = Tally(say, len(waiting), "nights shelved"), list[str]()
        done: dict[str, NightRecord] = {}
        latest: NightManifest | None = None
        for number, snapshot in enumerate(waiting, 1):
            try:
                stamp_before = stamp(self.layout, snapshot)
                night = latest = self._shelve_night(snapshot, newest.get(snapshot.snapshot_id))
                done[night.snapshot_id] = NightRecord(
                    night.generation, night.seal, stamp_before, night_files.has_bodies(snapshot)
                )
            except (AnotherWriter, Damaged) as error:
                problems.append(str(error))
            progress.add(1)
            if latest is not None and (number % NOTED == 0 or number == len(waiting)):
                self._point(latest)
                noted = {**record.nights, **done}
                write_record(self.layout, ShelfRecord(url, is_probed=True, nights=noted))
        return ShelvingResult(shelved=tuple(done), problems=tuple(problems))

    def _shelve_night(self, snapshot: Snapshot, newest: str | None) -> NightManifest:
        """Put a night on the shelf as it is here, unless it is there so."""
        documents = night_files.documents(self.layout, snapshot)
        before = read_night(self.store, newest) if newest else None
        if before is not None:
            if before.is_same(documents):
                return before
            require_ours(before, documents, snapshot)
        files = Uploads(self.layout, self.store, snapshot).upload(before.files if before else ())
        return self.put_generation(before, snapshot, documents, files)

    def put_generation(
        self,
        before: NightManifest | None,
        snapshot: Snapshot,
        documents: Mapping[Document, str],
        files: tuple[ShelvedFile, ...],
    ) -> NightManifest:
        """Create the manifest that makes files a night; raises `AnotherWriter` who was quicker."""
        night = NightManifest(
            snapshot_id=snapshot.snapshot_id,
            snapshot_date=snapshot.snapshot_date,
            state=snapshot.state,
            generation=before.generation + 1 if before else 1,
            previous=before.seal if before else None,
            token=self.token,
            at=self.at.isoformat(),
            program_version=self.program_version,
            documents=documents,
            files=files,
        )
        # Until this create nobody sees anything of the night, and after it all of it.
        if self.store.put_new(night.key, night.encode()):
            return night
        other = read_night(self.store, night.key)
        if not other.is_same(documents):
            require_ours(other, documents, snapshot)
            raise AnotherWriter(other, "tables")
        return other

    def _point(self, night: NightManifest) -> None:
        """Let `LATEST` name a manifest, unless it names a newer one; it never goes back."""
        head = Head(
            snapshot_id=night.snapshot_id,
            generation=night.generation,
            manifest=night.key,
            token=self.token,
        )
        content = json_bytes(msgspec.to_builtins(head))
        for _ in range(TRIES):
            there = self.store.get(LATEST)
            if there is None:
                if self.store.put_new(LATEST, content):
                    return
                continue
            if read_head(there.content).rank >= head.rank:
                return
            if self.store.swap(LATEST, content, there.tag):
                return
        raise StoreFailed(self.store.address.url, f"swap {LATEST}", "others kept changing it")
