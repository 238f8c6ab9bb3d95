"""One night comes from the shelf into a home: as it was shelved, or not at all.

It appears when its landed folder does, and its lake manifest comes last, as where it was taken.
Bodies come only where they are asked for, or where this nightbook's contract is another and the
lake has to be made again of them.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipelines.landing import sealed_json, snapshots
from pipelines.landing.manifest import convert_manifest
from pipelines.landing.night_folders import MANIFEST
from pipelines.landing.sealed_json import Damaged
from pipelines.landing.snapshots import DECISION
from pipelines.shelf import night_files
from pipelines.shelf.local_record import NightRecord
from pipelines.shelf.merging import Tell, agreement, follow
from pipelines.shelf.night_manifest import (
    ADVICE,
    Document,
    NightManifest,
    Role,
    ShelvedFile,
    by_object,
)
from pipelines.shelf.object_store import ObjectStore
from warehouse.contract.lake_contract import lake_contract
from warehouse.contract.states import PRUNED
from warehouse.storage.layout import (
    Layout,
    digest_of,
    make_directory,
    sync_directory,
    written_aside,
)

AT_ONCE = 8
CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One night on its way into a home; what the shelf says of it is proved."""

    layout: Layout
    store: ObjectStore
    night: NightManifest
    are_bodies_wanted: bool

    @classmethod
    def of(
        cls, layout: Layout, store: ObjectStore, night: NightManifest, *, with_landing: bool
    ) -> "Arrival":
        """Prove what a manifest says; raises `Damaged` where its parts do not fit one another."""
        texts = {
            document: sealed_json.parse(night.documents[document].encode(), Path(night.key), ADVICE)
            for document in Document
        }
        folder = layout.snapshot(night.snapshot_date, night.snapshot_id)
        landed = convert_manifest(texts[Document.LANDED], folder)
        sealed = texts[Document.LAKE]
        promised = night_files.digests(landed, sealed)
        there = {(file.role, file.name): file.sha256 for file in night.files}
        if there != ({} if night.state == PRUNED else promised):
            raise Damaged(Path(night.key), "other files than the night's own manifests", "those")
        is_behind = sealed.get("contract") != lake_contract()
        return cls(
            layout=layout,
            store=store,
            night=night,
            are_bodies_wanted=with_landing or is_behind,
        )

    def take(self, tell: Tell) -> NightRecord:
        """Bring the night up to the shelf; what this home knows more of it stays, and waits."""
        is_landed = (self._folder / MANIFEST).is_file()
        here = follow(snapshots.read(self._folder), self.night, tell) if is_landed else None
        if self.night.state == PRUNED:  # the files that this home has of it stay
            if here is None:
                self._land()
        elif here is None:
            self._bring_lake()
            self._land()
            self._write(Document.LAKE, self.layout.manifest(self.night.snapshot_id))
        elif here.state != PRUNED:
            self._replace_files()
        return agreement(self.layout, snapshots.read(self._folder), self.night)

    @property
    def _folder(self) -> Path:
        return self.layout.snapshot(self.night.snapshot_date, self.night.snapshot_id)

    def _replace_files(self) -> None:
        """Bring the bodies that are wanted, and the lake if the shelf has another one."""
        if self.are_bodies_wanted:
            self._bring_bodies(self._folder)
        lake = self.layout.manifest(self.night.snapshot_id)
        if not _says(lake, self.night.documents[Document.LAKE]):
            # A night without its lake manifest is to be made again; with the one of other files it
            # would look damaged.
            lake.unlink(missing_ok=True)
            self._bring_lake()
            self._write(Document.LAKE, lake)

    def _land(self) -> None:
        """Let the landed folder appear, whole."""
        aside = self._folder.with_name(f".{self.night.snapshot_id}.pulling")
        shutil.rmtree(aside, ignore_errors=True)
        make_directory(aside)
        if self.are_bodies_wanted:  # of a pruned night there are none
            self._bring_bodies(aside)
        self._write(Document.LANDED, aside / MANIFEST)
        self._write(Document.DECIDED, aside / DECISION)
        aside.rename(self._folder)
        sync_directory(self._folder.parent)

    def _write(self, document: Document, path: Path) -> None:
        text = self.night.documents[document]
        if not _says(path, text):
            with written_aside(path) as file:
                file.write(text.encode())

    def _bring_lake(self) -> None:
        """Put the tables where those of a night lie that is not placed yet: all, or none."""
        aside = self.layout.work / f"fetch-{self.night.snapshot_id}"
        files = [file for file in self.night.files if file.role is not Role.BODY]
        with ThreadPoolExecutor(AT_ONCE, "fetch") as pool:
            arrived = list(pool.map(lambda file: self._bring(file, aside), files))
        for source, target in filter(None, arrived):
            make_directory(target.parent)
            source.replace(target)
            sync_directory(target.parent)
        shutil.rmtree(aside, ignore_errors=True)

    def _bring(self, file: ShelvedFile, aside: Path) -> tuple[Path, Path] | None:
        """Write a file aside, unless it is here; returns it and its place."""
        day, snapshot_id = self.night.snapshot_date, self.night.snapshot_id
        places = night_files.places(self.layout, file.role, file.name, day, snapshot_id)
        if any(_is_whole(place, file) for place in places):
            return None
        blocks = self.store.get_blocks(file.key, file.offset, file.size)
        _write_whole(aside / f"{file.role}-{file.name}", file, blocks)
        return aside / f"{file.role}-{file.name}", places[-1]

    def _bring_bodies(self, folder: Path) -> None:
        """Unpack the bodies that are not there, each proved; an object is read once, in order."""
        bodies = [file for file in self.night.files if file.role is Role.BODY]
        missing = [body for body in bodies if not _is_whole(folder / body.name, body)]
        for key, packed in by_object(missing):
            make_directory(self.layout.work)
            with tempfile.TemporaryFile(dir=self.layout.work) as scratch:
                for block in self.store.get_blocks(key, 0, self._size_of(key)):
                    scratch.write(block)
                for body in packed:
                    scratch.seek(body.offset)
                    _write_whole(folder / body.name, body, blocks_of(scratch, body.size))

    def _size_of(self, key: str) -> int:
        return max(file.offset + file.size for file in self.night.files if file.key == key)


def _says(path: Path, text: str) -> bool:
    return path.is_file() and path.read_bytes() == text.encode()


def _is_whole(path: Path, file: ShelvedFile) -> bool:
    return path.is_file() and digest_of(path) == file.sha256


def blocks_of(source: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield the next bytes of a file."""
    while size and (block := source.read(min(CHUNK, size))):
        size -= len(block)
        yield block


def _write_whole(path: Path, file: ShelvedFile, blocks: Iterable[bytes]) -> None:
    """Write what came to its place, if that is what was promised; raises `Damaged`."""
    digest = hashlib.sha256()
    with written_aside(path) as out:
        for block in blocks:
            digest.update(block)
            out.write(block)
        if digest.hexdigest() != file.sha256:
            digest_words = f"SHA-256 {digest.hexdigest()}"
            raise Damaged(Path(file.key), digest_words, f"SHA-256 {file.sha256}", ADVICE)
