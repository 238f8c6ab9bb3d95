"""Functions that fetch nights from the shelf and merge their decisions into this home."""

import contextlib
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pipelines.landing import night_folders, snapshots
from pipelines.landing.manifest import convert_manifest
from pipelines.landing.night_folders import MANIFEST, DamagedFile
from pipelines.landing.snapshots import DECISION, Decision, Snapshot
from pipelines.shelf import night_manifest, object_store, shelf_list
from pipelines.shelf.night_manifest import (
    ADVICE,
    UNUSABLE,
    Document,
    DuplicateNight,
    NightManifest,
    Role,
    ShelvedFile,
    by_object,
)
from pipelines.shelf.object_store import ObjectStore, generation_of
from pipelines.shelf.shelf_list import (
    NightRecord,
    ShelfRecord,
    newest_manifests,
    read_night,
    read_record,
    stamp,
    write_record,
)
from warehouse.contract.lake import lake_contract
from warehouse.contract.states import PRUNED
from warehouse.progress import ProgressCallback, Tally, silent
from warehouse.storage.layout import (
    Layout,
    digest_of,
    make_directory,
    sync_directory,
    written_aside,
)

MAX_REASON_LENGTH = 300
PARALLEL_TRANSFERS = 8
CHUNK = 1024 * 1024
SAVE_INTERVAL = 25  # number of nights after which progress is saved


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedNight:
    """A night whose decisions in this home were updated from the shelf.

    `before` and `after` are the night's states in this home. `is_conflict` is True if this home and
    the shelf each had decisions that the other lacked.
    """

    before: Snapshot
    after: Snapshot
    is_conflict: bool
    message: str


OnFollowed = Callable[[FollowedNight], object]


def follow(snapshot: Snapshot, night: NightManifest, on_followed: OnFollowed) -> Snapshot:
    """Merge the shelf's decisions on a night into this home. Report changes to `on_followed`.

    Raises `DuplicateNight` if the night on the shelf was built from different API responses.
    """
    require_same_answers(snapshot, night)
    theirs = without_pruning(night.decisions)
    merged = snapshots.merge(snapshot.decisions, theirs)
    if merged == snapshot.decisions:
        return snapshot
    if merged == night.decisions:
        with written_aside(snapshot.folder / DECISION) as file:
            file.write(night.documents[Document.DECIDED].encode())
        after = snapshots.read(snapshot.folder)
    else:
        after = snapshots.write_decisions(snapshot, merged)
    new = unknown_decisions(theirs, snapshot.decisions)
    unshelved = unknown_decisions(without_pruning(snapshot.decisions), theirs)
    on_followed(
        FollowedNight(
            before=snapshot,
            after=after,
            is_conflict=bool(new and unshelved),
            message=_message(after, new, unshelved),
        )
    )
    return after


def require_same_answers(snapshot: Snapshot, night: NightManifest) -> None:
    """Raise `DuplicateNight` if the home's night and the shelf's night have different manifests."""
    if (snapshot.folder / MANIFEST).read_bytes() != night.documents[Document.LANDED].encode():
        raise DuplicateNight(night)


def follow_shelf(
    layout: Layout, store: ObjectStore, nights: Iterable[Snapshot], on_followed: OnFollowed
) -> None:
    """Merge the shelf's decisions into the nights of a home, without changing the shelf.

    Unreadable nights are skipped here, and `nightbook shelve` reports them. Raises `StoreFailed`,
    and `DamagedFile` if the shelf's list of nights is incomplete.
    """
    record = read_record(layout, store.address.url)
    newest = newest_manifests(store, record.shelved_nights)
    for snapshot in behind(nights, newest, record):
        with contextlib.suppress(*UNUSABLE):
            follow(snapshot, read_night(store, newest[snapshot.snapshot_id]), on_followed)


def behind(
    nights: Iterable[Snapshot], newest: Mapping[str, str], record: ShelfRecord
) -> Iterator[Snapshot]:
    """Yield the nights that have changed on the shelf since this home last read it."""
    for snapshot in nights:
        if (key := newest.get(snapshot.snapshot_id)) is not None:
            known = record.nights.get(snapshot.snapshot_id)
            if known is None or known.generation != generation_of(key)[1]:
                yield snapshot


def agreement(layout: Layout, local: Snapshot, night: NightManifest) -> NightRecord:
    """Compare a night here with its newest generation on the shelf. Return the night's record.

    If some decisions must still be shelved, the record's `stamp` is empty. If the night's lake
    files are missing in this home or differ, they must still be fetched, and the generation is 0.
    """
    is_pruned = PRUNED in (local.state, night.state)
    lake = layout.manifest(local.snapshot_id)
    has_lake = is_pruned or (
        lake.is_file() and lake.read_text(encoding="utf-8") == night.documents[Document.LAKE]
    )
    is_waiting = unknown_decisions(without_pruning(local.decisions), night.decisions)
    return NightRecord(
        generation=night.generation if has_lake else 0,
        seal=night.seal,
        stamp=() if is_waiting else stamp(layout, local),
        has_bodies=is_pruned or night_manifest.has_bodies(local),
        is_pruned=is_pruned,
    )


def without_pruning(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Return all decisions except those to prune, because pruning applies to only one machine."""
    return tuple(decision for decision in decisions if decision.state != PRUNED)


def unknown_decisions(decisions: Iterable[Decision], known: Iterable[Decision]) -> list[Decision]:
    """Return the decisions that are not among the known decisions."""
    tokens = {decision.token for decision in known}
    return [decision for decision in decisions if decision.token not in tokens]


def _message(night: Snapshot, new: Sequence[Decision], unshelved: Sequence[Decision]) -> str:
    """Describe the decisions that came from the shelf, and the night's resulting state."""
    if not unshelved:
        return (
            f"Night {night.snapshot_id} was decided on another machine: {_sentence(new)}. It is "
            f"now {night.state} in this home too."
        )
    both = snapshots.merge(unshelved, new)
    return (
        f"Two machines decided on night {night.snapshot_id}: {_sentence(both)}. The latest "
        f"decision applies, so the night is {night.state}. All decisions are in ops.decisions. "
        "To change the result, accept or reject the night again."
    )


def _sentence(decisions: Iterable[Decision]) -> str:
    """Describe decisions with their author, machine, time and reasons."""
    return "; ".join(
        f"{decision.state} by {decision.by}"
        + (f" on {decision.machine}" if decision.machine else "")
        + f" at {decision.at}"
        + (f" ({'; '.join(decision.reasons)[:MAX_REASON_LENGTH]})" if decision.reasons else "")
        for decision in decisions
    )


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
        texts = {
            document: night_folders.parse(
                night.documents[document].encode(), Path(night.key), ADVICE
            )
            for document in Document
        }
        folder = layout.snapshot(night.snapshot_date, night.snapshot_id)
        landed = convert_manifest(texts[Document.LANDED], folder)
        sealed = texts[Document.LAKE]
        expected = night_manifest.digests(landed, sealed)
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
            with written_aside(path) as file:
                file.write(text.encode())

    def _fetch_lake(self) -> None:
        """Fetch all missing lake files. Once all have arrived, move them to their final paths."""
        temp_dir = self.layout.work / f"fetch-{self.night.snapshot_id}"
        files = [file for file in self.night.files if file.role is not Role.BODY]
        with ThreadPoolExecutor(PARALLEL_TRANSFERS, "fetch") as pool:
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
        places = night_manifest.places(self.layout, file.role, file.name, day, snapshot_id)
        if any(_is_intact(place, file) for place in places):
            return None
        blocks = self.store.get_blocks(file.key, file.offset, file.size)
        _verify_and_write(temp_dir / f"{file.role}-{file.name}", file, blocks)
        return temp_dir / f"{file.role}-{file.name}", places[-1]

    def _fetch_bodies(self, folder: Path) -> None:
        """Fetch and verify the missing bodies. Read each object that contains bodies only once."""
        bodies = [file for file in self.night.files if file.role is Role.BODY]
        missing = [body for body in bodies if not _is_intact(folder / body.name, body)]
        for key, packed in by_object(missing):
            make_directory(self.layout.work)
            with tempfile.TemporaryFile(dir=self.layout.work) as scratch:
                for block in self.store.get_blocks(key, 0, self._size_of(key)):
                    scratch.write(block)
                for body in packed:
                    scratch.seek(body.offset)
                    _verify_and_write(folder / body.name, body, blocks_of(scratch, body.size))

    def _size_of(self, key: str) -> int:
        """Compute an object's size in bytes from the files that it contains."""
        return max(file.offset + file.size for file in self.night.files if file.key == key)


def _has_content(path: Path, text: str) -> bool:
    """Return whether a file exists and has the given content."""
    return path.is_file() and path.read_bytes() == text.encode()


def _is_intact(path: Path, file: ShelvedFile) -> bool:
    """Return whether a file exists and its SHA-256 equals the one in the shelf's manifest."""
    return path.is_file() and digest_of(path) == file.sha256


def blocks_of(source: IO[bytes], size: int) -> Iterator[bytes]:
    """Read the next `size` bytes of a file, and yield them in blocks."""
    while size and (block := source.read(min(CHUNK, size))):
        size -= len(block)
        yield block


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


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """The nights loaded, the number of nights on the shelf, and problems with other nights."""

    fetched: tuple[str, ...]
    on_shelf: int
    problems: tuple[str, ...]


def fetch(
    layout: Layout,
    store: ObjectStore,
    say: ProgressCallback = silent,
    on_followed: OnFollowed = lambda _: None,
    *,
    with_landing: bool = False,
) -> FetchResult:
    """Load all new nights and decisions from the shelf into a home.

    The caller must be the home's only writer, and must judge and publish the nights afterwards.
    Decisions that only this home has are merged with the shelf's decisions, and must still be
    shelved. `on_followed` is called for each merged night. The shelf is not changed.

    Raises `StoreFailed`, and `DamagedFile` if the shelf's list of nights is incomplete.
    """
    url = store.address.url
    record = read_record(layout, url)
    newest = shelf_list.newest_manifests(store, record.shelved_nights)
    wanted = [
        key
        for key in newest.values()
        if not _is_up_to_date(layout, record, key, with_landing=with_landing)
    ]
    progress, problems = Tally(say, len(wanted), "nights fetched"), list[str]()
    done: dict[str, NightRecord] = {}
    for number, key in enumerate(wanted, 1):
        try:
            night = shelf_list.read_night(store, key)
            arrival = Arrival.of(layout, store, night, with_landing=with_landing)
            done[night.snapshot_id] = arrival.load(on_followed)
        except UNUSABLE as error:
            problems.append(str(error))
        progress.add(1)
        if number % SAVE_INTERVAL == 0 or number == len(wanted):
            nights = {**record.nights, **done}
            write_record(layout, ShelfRecord(url, is_probed=record.is_probed, nights=nights))
    return FetchResult(fetched=tuple(done), on_shelf=len(newest), problems=tuple(problems))


def _is_up_to_date(layout: Layout, record: ShelfRecord, key: str, *, with_landing: bool) -> bool:
    """Return whether this home has a night's newest generation and, if wanted, its bodies."""
    snapshot_id, generation = object_store.generation_of(key)
    night = record.nights.get(snapshot_id)
    return (
        night is not None
        and night.generation == generation
        and (night.is_pruned or layout.manifest(snapshot_id).is_file())
        and (night.is_pruned or not with_landing or _has_bodies(layout, snapshot_id))
    )


def _has_bodies(layout: Layout, snapshot_id: str) -> bool:
    """Return whether a night's bodies are in this home.

    They may have been deleted since they were fetched.
    """
    folder = night_folders.folder_of(layout, snapshot_id)
    return folder is not None and night_manifest.has_bodies(snapshots.read(folder))
