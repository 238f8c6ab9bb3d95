"""Nights that arrive from the shelf: fetch them, and merge them into this home."""

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
from pipelines.landing.night_folders import MANIFEST, Damaged
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
from warehouse.progress import Say, Tally, silent
from warehouse.storage.layout import (
    Layout,
    digest_of,
    make_directory,
    sync_directory,
    written_aside,
)

LONGEST = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedNight:
    """A night whose decisions in this home were completed from the shelf: before and after.

    `is_conflict` says whether both had decisions that the other did not have.
    """

    before: Snapshot
    after: Snapshot
    is_conflict: bool
    message: str


OnFollowed = Callable[[FollowedNight], object]


def follow(snapshot: Snapshot, night: NightManifest, on_followed: OnFollowed) -> Snapshot:
    """Complete the decisions of a night in this home by those of the shelf; tells what came.

    Raises `DuplicateNight` if the shelf's night is of other answers.
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
    own = unknown_decisions(without_pruning(snapshot.decisions), theirs)
    on_followed(
        FollowedNight(
            before=snapshot,
            after=after,
            is_conflict=bool(new and own),
            message=_message(after, new, own),
        )
    )
    return after


def require_same_answers(snapshot: Snapshot, night: NightManifest) -> None:
    """Raise `DuplicateNight` if a home and the shelf have two nights of one name."""
    if (snapshot.folder / MANIFEST).read_bytes() != night.documents[Document.LANDED].encode():
        raise DuplicateNight(night)


def follow_shelf(
    layout: Layout, store: ObjectStore, nights: Iterable[Snapshot], on_followed: OnFollowed
) -> None:
    """Complete the decisions of a home from the shelf, which is only read.

    A night that cannot be read is left to `nightbook shelve`, which names it. Raises `StoreFailed`,
    and `Damaged` if the list of the shelf is not whole.
    """
    record = read_record(layout, store.address.url)
    newest = newest_manifests(store, record.shelved_nights)
    for snapshot in behind(nights, newest, record):
        with contextlib.suppress(*UNUSABLE):
            follow(snapshot, read_night(store, newest[snapshot.snapshot_id]), on_followed)


def behind(
    nights: Iterable[Snapshot], newest: Mapping[str, str], record: ShelfRecord
) -> Iterator[Snapshot]:
    """Yield the nights of a home of which the shelf has another generation than the home knows."""
    for snapshot in nights:
        if (key := newest.get(snapshot.snapshot_id)) is not None:
            known = record.nights.get(snapshot.snapshot_id)
            if known is None or known.generation != generation_of(key)[1]:
                yield snapshot


def agreement(layout: Layout, here: Snapshot, night: NightManifest) -> NightRecord:
    """Return what is noted of a night whose home and newest generation were compared.

    Decisions that the shelf does not have wait to be shelved. A lake of another generation waits to
    be fetched.
    """
    is_pruned = PRUNED in (here.state, night.state)
    lake = layout.manifest(here.snapshot_id)
    has_lake = is_pruned or (
        lake.is_file() and lake.read_text(encoding="utf-8") == night.documents[Document.LAKE]
    )
    is_waiting = unknown_decisions(without_pruning(here.decisions), night.decisions)
    return NightRecord(
        generation=night.generation if has_lake else 0,
        seal=night.seal,
        stamp=() if is_waiting else stamp(layout, here),
        has_bodies=is_pruned or night_manifest.has_bodies(here),
        is_pruned=is_pruned,
    )


def without_pruning(decisions: Iterable[Decision]) -> tuple[Decision, ...]:
    """Return the decisions that concern every machine."""
    return tuple(decision for decision in decisions if decision.state != PRUNED)


def unknown_decisions(decisions: Iterable[Decision], known: Iterable[Decision]) -> list[Decision]:
    """Return the decisions that are not among those that are known."""
    tokens = {decision.token for decision in known}
    return [decision for decision in decisions if decision.token not in tokens]


def _message(night: Snapshot, new: Sequence[Decision], own: Sequence[Decision]) -> str:
    """Say what came from the shelf, and what applies if this machine had decided as well."""
    if not own:
        return (
            f"Night {night.snapshot_id} was decided on another machine: {_sentence(new)}. It is "
            f"{night.state} here, too."
        )
    both = snapshots.merge(own, new)
    return (
        f"Two machines decided on night {night.snapshot_id}: {_sentence(both)}. The newest "
        f"decision applies: the night is {night.state}. All of them are in ops.decisions; to "
        "change the result, accept or reject the night again."
    )


def _sentence(decisions: Iterable[Decision]) -> str:
    return "; ".join(
        f"{decision.state} by {decision.by}"
        + (f" on {decision.machine}" if decision.machine else "")
        + f" at {decision.at}"
        + (f" ({'; '.join(decision.reasons)[:LONGEST]})" if decision.reasons else "")
        for decision in decisions
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
            document: night_folders.parse(
                night.documents[document].encode(), Path(night.key), ADVICE
            )
            for document in Document
        }
        folder = layout.snapshot(night.snapshot_date, night.snapshot_id)
        landed = convert_manifest(texts[Document.LANDED], folder)
        sealed = texts[Document.LAKE]
        promised = night_manifest.digests(landed, sealed)
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

    def load(self, on_followed: OnFollowed) -> NightRecord:
        """Bring the night up to the shelf; what this home knows more of it stays, and waits."""
        is_landed = (self._folder / MANIFEST).is_file()
        here = follow(snapshots.read(self._folder), self.night, on_followed) if is_landed else None
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
        places = night_manifest.places(self.layout, file.role, file.name, day, snapshot_id)
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


NOTED = 25  # nights after which what is done is noted


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResult:
    """Nights that came or changed, how many the shelf holds, and why others did not come."""

    fetched: tuple[str, ...]
    on_shelf: int
    problems: tuple[str, ...]


def fetch(
    layout: Layout,
    store: ObjectStore,
    say: Say = silent,
    on_followed: OnFollowed = lambda _: None,
    *,
    with_landing: bool = False,
) -> FetchResult:
    """Bring a home up to the shelf; the caller is its writer, and settles and publishes then.

    Decisions made here that the shelf does not have are merged with those of the shelf, and wait to
    be shelved; `on_followed` hears of them. The shelf is only read.
    Raises `StoreFailed`, and `Damaged` where the list of the shelf is not whole.
    """
    url = store.address.url
    record = read_record(layout, url)
    newest = shelf_list.newest_manifests(store, record.shelved_nights)
    wanted = [
        key
        for key in newest.values()
        if not _is_here(layout, record, key, with_landing=with_landing)
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
        if number % NOTED == 0 or number == len(wanted):
            nights = {**record.nights, **done}
            write_record(layout, ShelfRecord(url, is_probed=record.is_probed, nights=nights))
    return FetchResult(fetched=tuple(done), on_shelf=len(newest), problems=tuple(problems))


def _is_here(layout: Layout, record: ShelfRecord, key: str, *, with_landing: bool) -> bool:
    """Return whether a night is here as its newest manifest says, without reading that."""
    snapshot_id, generation = object_store.generation_of(key)
    night = record.nights.get(snapshot_id)
    return (
        night is not None
        and night.generation == generation
        and (night.is_pruned or layout.manifest(snapshot_id).is_file())
        and (night.is_pruned or not with_landing or _has_bodies(layout, snapshot_id))
    )


def _has_bodies(layout: Layout, snapshot_id: str) -> bool:
    """Return whether the bodies of a night are here; they may have been lost since it came."""
    folder = night_folders.folder_of(layout, snapshot_id)
    return folder is not None and night_manifest.has_bodies(snapshots.read(folder))
