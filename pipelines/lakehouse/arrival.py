"""The arrival of nights from the shelf in this home."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipelines.lake.night_files import Role, entries, places
from pipelines.lake.origins import ORIGIN, server_of
from pipelines.lakehouse.decisions import OnFollowed, agreement, follow, has_bodies
from pipelines.lakehouse.night_manifest import (
    ADVICE,
    Document,
    NightManifest,
    NightOfOtherServer,
    ShelvedFile,
    by_object,
    generation_of,
)
from pipelines.lakehouse.object_store import ObjectStore
from pipelines.lakehouse.shelf_list import (
    NightRecord,
    ShelfRecord,
    newest_manifests,
    read_night,
    read_record,
)
from pipelines.lakehouse.transfer import PARALLEL_FILES, Transfer, move_each
from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import convert_manifest, load_manifest
from pipelines.landing.night_folders import MANIFEST, DamagedFile
from pipelines.landing.snapshots import DECISION
from warehouse.contract.lake import lake_contract
from warehouse.contract.states import ACCEPTED, PRUNED
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.storage.layout import (
    Layout,
    digest_of,
    make_directory,
    sync_directory,
    write_bytes,
    written_aside,
)

CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A shelved night that is being loaded into a home. Its manifest has been verified."""

    layout: Layout
    store: ObjectStore
    night: NightManifest
    are_bodies_wanted: bool

    @classmethod
    def of(
        cls, layout: Layout, store: ObjectStore, night: NightManifest, *, with_landing: bool
    ) -> "Arrival":
        """Verify a shelved night's manifest. Raises `DamagedFile` if it contradicts itself."""
        landed, _, sealed = (night.parse(document) for document in Document)
        folder = layout.snapshot(night.snapshot_date, night.snapshot_id)
        expected = {(role, name): digest for role, name, digest in entries(sealed)}
        for name, digest in convert_manifest(landed, folder).stored.items():
            expected[Role.BODY, name] = digest
        shelved = {(file.role, file.name): file.sha256 for file in night.files}
        if shelved != ({} if night.state == PRUNED else expected):
            raise DamagedFile(
                Path(night.key),
                "a list of files that differs from the night's manifests",
                "the same list",
            )
        is_behind = sealed.get("contract") != lake_contract()
        return cls(
            layout=layout,
            store=store,
            night=night,
            are_bodies_wanted=with_landing or is_behind,
        )

    def load(self, on_followed: OnFollowed) -> NightRecord:
        """Load the night from the shelf. Preserve decisions that only this home has."""
        is_landed = (self._folder / MANIFEST).is_file()
        local = follow(snapshots.read(self._folder), self.night, on_followed) if is_landed else None
        # A pruned night has no files on the shelf, so keep this home's files.
        if self.night.state == PRUNED:
            if local is None:
                self._land()
        elif local is None:
            self._fetch_lake()
            self._land()
            self._write(Document.LAKE, self.layout.manifest(self.night.snapshot_id))
        elif local.state != PRUNED:
            self._replace_files()
        return agreement(self.layout, snapshots.read(self._folder), self.night)

    @property
    def _folder(self) -> Path:
        """The night's landing folder in this home."""
        return self.layout.snapshot(self.night.snapshot_date, self.night.snapshot_id)

    def _replace_files(self) -> None:
        """Fetch missing bodies if wanted, and the lake files if those on the shelf differ."""
        if self.are_bodies_wanted:
            self._fetch_bodies(self._folder)
        lake = self.layout.manifest(self.night.snapshot_id)
        if not _has_content(lake, self.night.documents[Document.LAKE]):
            # Delete the manifest before the files change. If the run is then interrupted, the next
            # run rebuilds the night. With the old manifest, the night would look damaged.
            lake.unlink(missing_ok=True)
            self._fetch_lake()
            self._write(Document.LAKE, lake)

    def _land(self) -> None:
        """Write the landing folder under a temporary name, then make it visible by renaming it."""
        temp_dir = self._folder.with_name(f".{self.night.snapshot_id}.pulling")
        shutil.rmtree(temp_dir, ignore_errors=True)
        make_directory(temp_dir)
        if self.are_bodies_wanted:  # for a pruned night, this fetches nothing
            self._fetch_bodies(temp_dir)
        self._write(Document.LANDED, temp_dir / MANIFEST)
        self._write(Document.DECIDED, temp_dir / DECISION)
        temp_dir.rename(self._folder)
        sync_directory(self._folder.parent)

    def _write(self, document: Document, path: Path) -> None:
        """Write one of the night's documents to a file, unless it already has the same content."""
        text = self.night.documents[document]
        if not _has_content(path, text):
            write_bytes(path, text.encode())

    def _fetch_lake(self) -> None:
        """Fetch all missing lake files. Once all have arrived, move them to their final paths."""
        temp_dir = self.layout.work / f"fetch-{self.night.snapshot_id}"
        files = [file for file in self.night.files if file.role is not Role.BODY]
        with ThreadPoolExecutor(PARALLEL_FILES, "fetch") as pool:
            arrived = list(pool.map(lambda file: self._fetch_file(file, temp_dir), files))
        for source, target in filter(None, arrived):
            make_directory(target.parent)
            source.replace(target)
            sync_directory(target.parent)
        shutil.rmtree(temp_dir, ignore_errors=True)

    def _fetch_file(self, file: ShelvedFile, temp_dir: Path) -> tuple[Path, Path] | None:
        """Fetch a lake file into a temporary folder.

        Return its temporary path and its final path, or None if this home has an intact copy.
        """
        day, snapshot_id = self.night.snapshot_date, self.night.snapshot_id
        paths = places(self.layout, file.role, file.name, day, snapshot_id)
        if any(_is_intact(path, file) for path in paths):
            return None
        source = temp_dir / f"{file.role}-{file.name}"
        _verify_and_write(source, file, self.store.get_blocks(file.key, file.offset, file.size))
        return source, paths[-1]

    def _fetch_bodies(self, folder: Path) -> None:
        """Fetch and verify the missing bodies. Read each object that contains bodies only once."""
        missing = [
            file
            for file in self.night.files
            if file.role is Role.BODY and not _is_intact(folder / file.name, file)
        ]
        for key, packed in by_object(missing):
            make_directory(self.layout.work)
            with tempfile.TemporaryFile(dir=self.layout.work) as scratch:
                scratch.writelines(self.store.get_blocks(key, 0, self._size_of(key)))
                for body in packed:
                    scratch.seek(body.offset)
                    _verify_and_write(folder / body.name, body, blocks_of(scratch, body.size))

    def _size_of(self, key: str) -> int:
        """Compute an object's size in bytes from the files that it contains."""
        return max(file.offset + file.size for file in self.night.files if file.key == key)


def fetch(
    layout: Layout,
    store: ObjectStore,
    say: ProgressCallback = silent,
    on_followed: OnFollowed = lambda _: None,
    *,
    with_landing: bool = False,
) -> Transfer:
    """Load all new nights and decisions from the shelf into a home.

    The caller must be the home's only writer, and must judge and publish the nights afterwards.
    Decisions that only this home has are merged with the shelf's decisions, and must still be
    shelved. `on_followed` is called for each merged night. The shelf is not changed.

    Raises `StoreFailed`, and `DamagedFile` if the shelf's list of nights is incomplete.
    """
    record = read_record(layout, store.address.url)
    newest = newest_manifests(store, record.shelved_nights)

    servers = _servers(layout)

    def load(key: str) -> NightRecord:
        night = read_night(store, key)
        _require_known_server(night, servers)
        return Arrival.of(layout, store, night, with_landing=with_landing).load(on_followed)

    wanted = {
        snapshot_id: key
        for snapshot_id, key in newest.items()
        if not _is_up_to_date(layout, record, key, with_landing=with_landing)
    }
    progress = Tally(say, len(wanted), "nights fetched")
    done, problems = move_each(layout, record, wanted, load, progress=progress)
    return Transfer(done, problems, on_shelf=len(newest))


def _servers(layout: Layout) -> set[str]:
    """Return the server of the newest accepted night here, or an empty set without a night."""
    newest = next(reversed(snapshots.books(snapshots.landed_snapshots(layout)).values()), None)
    return {server_of(load_manifest(newest.folder).origin)} if newest else set()


def _require_known_server(night: NightManifest, servers: set[str]) -> None:
    """Raise `NightOfOtherServer`, unless the server is known or somebody accepted the change.

    Add the server of the night to the known ones.
    """
    server = server_of(str(night.parse(Document.LANDED)["origin"]))
    causes = (cause for decision in night.decisions for cause in decision.causes)
    is_accepted = night.state == ACCEPTED and any(c.key.startswith(ORIGIN) for c in causes)
    if servers and server not in servers and not is_accepted:
        raise NightOfOtherServer(night.snapshot_id, server, min(servers))
    servers.add(server)


def blocks_of(source: IO[bytes], size: int) -> Iterator[bytes]:
    """Read the next `size` bytes of a file, and yield them in blocks."""
    while size and (block := source.read(min(CHUNK, size))):
        size -= len(block)
        yield block


def _is_up_to_date(layout: Layout, record: ShelfRecord, key: str, *, with_landing: bool) -> bool:
    """Return whether this home has a night's newest generation and, if wanted, its bodies."""
    snapshot_id, generation = generation_of(key)
    night = record.nights.get(snapshot_id)
    if night is None or night.generation != generation:
        return False
    if night.is_pruned:
        return True
    # The bodies may have been deleted since they were fetched.
    folder = night_folders.folder_of(layout, snapshot_id) if with_landing else None
    has_landing = not with_landing or (folder is not None and has_bodies(snapshots.read(folder)))
    return layout.manifest(snapshot_id).is_file() and has_landing


def _has_content(path: Path, text: str) -> bool:
    """Return whether a file exists and has the given content."""
    return path.is_file() and path.read_bytes() == text.encode()


def _is_intact(path: Path, file: ShelvedFile) -> bool:
    """Return whether a file exists and its SHA-256 equals the one in the shelf's manifest."""
    return path.is_file() and digest_of(path) == file.sha256


def _verify_and_write(path: Path, file: ShelvedFile, blocks: Iterable[bytes]) -> None:
    """Write blocks to a file. If the SHA-256 is wrong, raise `DamagedFile` and discard the file."""
    digest = hashlib.sha256()
    with written_aside(path) as out:
        for block in blocks:
            digest.update(block)
            out.write(block)
        if digest.hexdigest() != file.sha256:
            found = f"SHA-256 {digest.hexdigest()}"
            raise DamagedFile(Path(file.key), found, f"SHA-256 {file.sha256}", ADVICE)
