"""Put a night on the shelf, file by file, manifest last."""

import itertools
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

import msgspec

from pipelines.landing import snapshots
from pipelines.landing.night_folders import Damaged
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
from warehouse.progress import Say, Tally, silent
from warehouse.storage.layout import Layout, digest_of, json_bytes, written_aside

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
        bodies = night_manifest.bodies(self.snapshot)
        entries = [there.get((Role.BODY, body.name, body.sha256)) for body in bodies]
        packed = [file for file in entries if file is not None]
        if len(packed) < len(bodies):
            packed = self._upload_bodies(bodies)
        lake = list(night_manifest.lake_files(self.layout, self.snapshot))
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
        _require_whole(file)
        name_key = object_store.part_key if file.role is Role.PART else object_store.table_key
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


NOTED = 25  # nights after which what is done is noted
TRIES = 20


@dataclass(frozen=True, slots=True)
class ShelvingResult:
    """The nights that waited and are on the shelf now, and the reasons why others are not."""

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

    def shelve(
        self,
        nights: Sequence[Snapshot],
        say: Say = silent,
        on_followed: OnFollowed = lambda _: None,
    ) -> ShelvingResult:
        """Let home and shelf agree on the nights of the home; the caller is its writer.

        Judged nights that are not on the shelf as they are here go up. Decisions that another
        machine shelved come down: they are merged with those made here, and `on_followed` hears of them.
        Raises `StoreFailed` and `UnsafeStoreError`.
        """
        url = self.store.address.url
        record = read_record(self.layout, url)
        newest = newest_manifests(self.store, record.shelved_nights)
        if not record.is_probed:
            probe(self.store, self.token)
            record = ShelfRecord(url, is_probed=True, nights=record.nights)
            write_record(self.layout, record)
        waiting = {night.snapshot_id for night in waiting_nights(self.layout, url, nights)}
        differing = waiting | {night.snapshot_id for night in behind(nights, newest, record)}
        chosen = [snapshot for snapshot in nights if snapshot.snapshot_id in differing]
        progress, problems = Tally(say, len(chosen), "nights shelved"), list[str]()
        done: dict[str, NightRecord] = {}
        shelved: list[NightManifest] = []
        for number, snapshot in enumerate(chosen, 1):
            known = record.nights.get(snapshot.snapshot_id)
            try:
                done[snapshot.snapshot_id], night = self._settle(
                    snapshot, newest.get(snapshot.snapshot_id), known, on_followed
                )
                shelved += [night] if snapshot.snapshot_id in waiting else []
            except UNUSABLE as error:
                problems.append(str(error))
            progress.add(1)
            if number % NOTED == 0 or number == len(chosen):
                for latest in shelved[-1:]:
                    self._point(latest)
                noted = {**record.nights, **done}
                write_record(self.layout, ShelfRecord(url, is_probed=True, nights=noted))
        return ShelvingResult(tuple(night.snapshot_id for night in shelved), tuple(problems))

    def _settle(
        self,
        snapshot: Snapshot,
        key: str | None,
        known: NightRecord | None,
        on_followed: OnFollowed,
    ) -> tuple[NightRecord, NightManifest]:
        """Let home and shelf agree on one night, whose newest manifest has a key."""

        def next_generation(before: NightManifest) -> NightManifest:
            here = follow(snapshots.read(snapshot.folder), before, on_followed)
            return self._next(here, before, known)

        before = read_night(self.store, key) if key else None
        night = next_generation(before) if before else self._first(snapshot)
        night = self.commit(before, night, next_generation)
        return agreement(self.layout, snapshots.read(snapshot.folder), night), night

    def _first(self, here: Snapshot) -> NightManifest:
        documents = night_manifest.documents(self.layout, here)
        files = Uploads(self.layout, self.store, here).upload(())
        return self.generation(here, None, here.decisions, documents, files)

    def _next(
        self, here: Snapshot, before: NightManifest, known: NightRecord | None
    ) -> NightManifest:
        """Return the generation after another, or that one if this home has nothing to add to it.

        `known` is what this home and the shelf had agreed on.
        """
        decisions = merge(without_pruning(here.decisions), before.decisions)
        lake = self._new_lake(here, before, known)
        if lake is not None:
            files = Uploads(self.layout, self.store, here).upload(before.files)
            documents = {**before.documents, Document.LAKE: lake}
            return self.generation(here, before, decisions, documents, files)
        if unknown_decisions(decisions, before.decisions):
            return self.generation(here, before, decisions, before.documents, before.files)
        return before

    def _new_lake(
        self, here: Snapshot, before: NightManifest, known: NightRecord | None
    ) -> str | None:
        """Return the lake's manifest if this home made it again since it agreed with the shelf."""
        # A lake that the shelf got since then from another machine comes here by the next fetch.
        is_ours = known is None or known.generation == before.generation
        path = self.layout.manifest(here.snapshot_id)
        if PRUNED in (here.state, before.state) or not is_ours or not path.is_file():
            return None
        lake = path.read_text(encoding="utf-8")
        return lake if lake != before.documents[Document.LAKE] else None

    def commit(
        self,
        before: NightManifest | None,
        night: NightManifest,
        next_generation: Callable[[NightManifest], NightManifest],
    ) -> NightManifest:
        """Create a generation unless it is the one before, to which then nothing is added.

        The create decides between two writers: the slower one reads the generation of the other,
        and makes the next one after that. Returns the newest generation.
        """
        for _ in range(TRIES):
            # Until this create nobody sees anything of the night, and after it all of it.
            if night is before or self.store.put_new(night.key, night.encode()):
                return night
            before = read_night(self.store, night.key)
            night = next_generation(before)
        doing = f"create {night.key}"
        raise StoreFailed(self.store.address.url, doing, "other machines were always faster")

    def generation(
        self,
        here: Snapshot,
        before: NightManifest | None,
        decisions: tuple[Decision, ...],
        documents: Mapping[Document, str],
        files: tuple[ShelvedFile, ...],
    ) -> NightManifest:
        """Return the generation of a night with these decisions; it names the one before it."""
        decided = night_manifest.decision_text(here, decisions)
        return NightManifest(
            snapshot_id=here.snapshot_id,
            snapshot_date=here.snapshot_date,
            state=decisions[-1].state,
            generation=before.generation + 1 if before else 1,
            previous=before.seal if before else None,
            token=self.token,
            at=self.at.isoformat(),
            program_version=self.program_version,
            documents={**documents, Document.DECIDED: decided},
            files=files,
            format=FORMAT,
        )

    def _point(self, night: NightManifest) -> None:
        """Let `LATEST` name a manifest, unless it names a newer one; it never goes back."""
        latest = LatestPointer(
            snapshot_id=night.snapshot_id,
            generation=night.generation,
            manifest=night.key,
            token=self.token,
        )
        content = json_bytes(msgspec.to_builtins(latest))
        for _ in range(TRIES):
            there = self.store.get(LATEST)
            if there is None:
                if self.store.put_new(LATEST, content):
                    return
                continue
            if parse_latest(there.content).rank >= latest.rank:
                return
            if self.store.swap(LATEST, content, there.tag):
                return
        raise StoreFailed(self.store.address.url, f"swap {LATEST}", "others kept changing it")
