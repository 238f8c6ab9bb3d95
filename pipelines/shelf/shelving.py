"""A judged night goes on the shelf: its files first, then the manifest that makes them a night.

Killed at any instant, what is on the store is whole nights and objects that nobody names yet; the
next time goes on from there. If two machines write the manifest of one night, its create decides
which generation is first, and the other machine's decisions are in the next one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from pipelines.landing import snapshots
from pipelines.landing.snapshots import Decision, Snapshot, merge
from pipelines.shelf import night_files
from pipelines.shelf.local_record import (
    NightRecord,
    ShelfRecord,
    read_record,
    waiting_nights,
    write_record,
)
from pipelines.shelf.merging import (
    Tell,
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
    NightManifest,
    ShelvedFile,
)
from pipelines.shelf.object_keys import LATEST
from pipelines.shelf.object_store import ObjectStore, StoreFailed
from pipelines.shelf.probe import probe
from pipelines.shelf.shelf_list import Head, newest_manifests, read_head, read_night
from pipelines.shelf.uploads import Uploads
from warehouse.contract.states import PRUNED
from warehouse.progress import Say, Tally, silent
from warehouse.storage.layout import Layout, json_bytes

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
        self, nights: Sequence[Snapshot], say: Say = silent, tell: Tell = lambda _: None
    ) -> ShelvingResult:
        """Let home and shelf agree on the nights of the home; the caller is its writer.

        Judged nights that are not on the shelf as they are here go up. Decisions that another
        machine shelved come down: they are merged with those made here, and `tell` hears of them.
        Raises `StoreFailed` and `BreaksItsWord`.
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
                    snapshot, newest.get(snapshot.snapshot_id), known, tell
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
        self, snapshot: Snapshot, key: str | None, known: NightRecord | None, tell: Tell
    ) -> tuple[NightRecord, NightManifest]:
        """Let home and shelf agree on one night, whose newest manifest has a key."""

        def next_generation(before: NightManifest) -> NightManifest:
            here = follow(snapshots.read(snapshot.folder), before, tell)
            return self._next(here, before, known)

        before = read_night(self.store, key) if key else None
        night = next_generation(before) if before else self._first(snapshot)
        night = self.commit(before, night, next_generation)
        return agreement(self.layout, snapshots.read(snapshot.folder), night), night

    def _first(self, here: Snapshot) -> NightManifest:
        documents = night_files.documents(self.layout, here)
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
        decided = night_files.decision_text(here, decisions)
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
