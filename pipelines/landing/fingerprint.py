"""The fingerprint: one SHA-256 chain over the manifests and decisions of all nights.

Each entry of the chain is a manifest or a decision. Its fingerprint is the SHA-256 of the entry
before it, the snapshot ID, the kind and the digest of its content. So a fingerprint covers all
entries up to it, and anyone who has an old one can check that these entries are unchanged.

`landing/fingerprints.jsonl` lists the entries in the order in which this home learned them. If the
list is lost, it is rebuilt in the order of time. It cannot show changes by somebody who
rewrites nights and list together: then the old fingerprint is not found.
"""

import contextlib
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path

import msgspec

from pipelines.landing import night_folders, snapshots
from pipelines.landing.damage import CHANGED, MISSING, SURPLUS, Damage
from pipelines.landing.night_folders import MANIFEST, DamagedFile
from pipelines.landing.snapshots import DECISION, Snapshot
from warehouse.contract.states import PRUNED
from warehouse.storage.layout import Layout, written_aside

LIST = "fingerprints.jsonl"
NIGHT, DECIDED = "night", "decision"
FILES = {NIGHT: MANIFEST, DECIDED: DECISION}
START = "0" * 64
UNREADABLE = "unreadable"
NEWER = "it was added after this fingerprint, although it is older: ask who added it, and why"
BROKEN_LIST = "its fingerprints do not follow from one another: restore it from a backup"
REORDERED = "its decisions are in another order: restore it from a backup of that time"
OTHER = "it is not as it was at this fingerprint: restore it from a backup of that time"


class UnknownFingerprint(Exception):
    """No entry of this home's chain has this fingerprint."""

    def __init__(self, fingerprint: str, layout: Layout, count: int) -> None:
        super().__init__(
            f"None of the {count:,} entries of {layout.landing} has the fingerprint {fingerprint}. "
            "It belongs to another home, or to a newer state than this copy, or nights were "
            "changed together with the list of fingerprints. Nothing was changed. Compare with the "
            "home that sent the fingerprint, or with a backup of that time."
        )


class ChainEntry(msgspec.Struct, frozen=True):
    """A manifest or decision in the chain. `at` is its time (UTC), which the digest covers."""

    snapshot_id: str
    kind: str
    at: str
    digest: str
    fingerprint: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """The content of the entry: the snapshot ID, the kind and the digest."""
        return self.snapshot_id, self.kind, self.digest


def newest_fingerprint(layout: Layout) -> str | None:
    """Return the fingerprint of all listed entries, or None if this home has no list yet."""
    listed = _read_list(layout)
    return listed[-1].fingerprint if listed else None


def extend_chain(layout: Layout, nights: Iterable[Snapshot]) -> str:
    """Add new manifests and decisions to the list, and return the newest fingerprint.

    The caller holds the writer lock. Only manifests that are not in the list are read.
    """
    listed = _read_list(layout)
    head = listed[-1].fingerprint if listed else START
    if not (new := _chain(_find_new(nights, listed), head)):
        return head
    with written_aside(layout.landing / LIST) as file:
        file.write(b"".join(msgspec.json.encode(entry) + b"\n" for entry in (*listed, *new)))
    return new[-1].fingerprint


def entries_up_to(layout: Layout, fingerprint: str) -> list[ChainEntry]:
    """Return the entries that a fingerprint covers. Raises `UnknownFingerprint`."""
    listed = _read_list(layout)
    # A home that was restored without its list, or partly, may still have the same entries.
    by_time = _chain(_find_new(snapshots.landed_snapshots(layout), ()), START)
    for chain in (listed, by_time):
        for number, entry in enumerate(chain, 1):
            if entry.fingerprint == fingerprint:
                return chain[:number]
    raise UnknownFingerprint(fingerprint, layout, max(len(listed), len(by_time)))


def differences(layout: Layout, covered: Sequence[ChainEntry]) -> Iterator[Damage]:
    """Yield the covered entries that differ, then newer entries that claim to be older."""
    nights = {folder.name: folder for folder in night_folders.nights(layout)}
    found = {entry.key: entry for folder in nights.values() for entry in _entries_in(folder)}
    named = set[Path]()
    yield from list_damage(layout, covered)
    for entry in covered:
        if entry.key not in found:
            folder = nights.get(entry.snapshot_id, layout.landing / entry.snapshot_id)
            named.add(file := folder / FILES[entry.kind])
            yield Damage(file, CHANGED if file.exists() else MISSING, entry.snapshot_id, OTHER)
    for damage in _check_order(nights, covered):
        if damage.file not in named:
            named.add(damage.file)
            yield damage
    known = {entry.key for entry in covered}
    last_night = max(
        (_age(nights[e.snapshot_id]) for e in covered if e.snapshot_id in nights), default=("", "")
    )
    last_decision = max((entry.at for entry in covered if entry.kind == DECIDED), default="")
    for entry in sorted(found.values(), key=lambda entry: entry.at):
        folder = nights[entry.snapshot_id]
        file, is_night = folder / FILES[entry.kind], entry.kind == NIGHT
        is_older = _age(folder) <= last_night if is_night else entry.at <= last_decision
        if is_older and entry.key not in known and file not in named:
            yield Damage(file, SURPLUS, entry.snapshot_id, NEWER)


def _check_order(nights: Mapping[str, Path], covered: Sequence[ChainEntry]) -> Iterator[Damage]:
    """Yield the nights whose decisions are not in their order."""
    decided: dict[str, list[ChainEntry]] = {}
    for entry in covered:
        if entry.kind == DECIDED and entry.snapshot_id in nights:
            decided.setdefault(entry.snapshot_id, []).append(entry)
    for snapshot_id, entries in decided.items():
        file = nights[snapshot_id] / DECISION
        if not _is_in_order(nights[snapshot_id], entries):
            yield Damage(file, CHANGED, snapshot_id, REORDERED)


def _is_in_order(folder: Path, covered: Sequence[ChainEntry]) -> bool:
    """Return whether a night's decisions are in their order, because the last one applies.

    The order is the one in which this home learned them or, after a merge, their order in time. The
    decision to prune is always last.
    """
    try:
        night = snapshots.read(folder)
    except DamagedFile:
        return True  # This damage has its own name.
    unpruned = tuple(made for made in night.decisions if made.state != PRUNED)
    found = [entry.key for entry in _decision_entries(replace(night, decisions=unpruned))]
    listed = [entry for entry in covered if entry.key in found]
    in_time = sorted(listed, key=lambda entry: entry.at)
    known = [entry.key for entry in listed]
    return [key for key in found if key in known] in (known, [entry.key for entry in in_time])


def list_damage(layout: Layout, entries: Sequence[ChainEntry] | None = None) -> Iterator[Damage]:
    """Yield damage if the list of fingerprints, or the given part of it, does not add up."""
    path = layout.landing / LIST
    stored = _read_list(layout) if entries is None else entries
    lines = len(path.read_bytes().splitlines()) if path.is_file() else 0
    for entry, computed in zip(stored, _chain(stored, START), strict=True):
        if entry != computed:
            yield Damage(path, CHANGED, entry.snapshot_id, BROKEN_LIST)
            return
    if entries is None and lines != len(stored):
        yield Damage(path, CHANGED, None, BROKEN_LIST)


def _age(folder: Path) -> tuple[str, str]:
    """Return a night's business date and ID, which the clock of a decision does not change."""
    return folder.parent.name, folder.name


def _read_list(layout: Layout) -> list[ChainEntry]:
    """Read the list up to the first line that cannot be read."""
    listed: list[ChainEntry] = []
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        for line in (layout.landing / LIST).read_bytes().splitlines():
            listed.append(msgspec.json.decode(line, type=ChainEntry))  # noqa: PERF401 - keep a good start
    return listed


def _chain(entries: Sequence[ChainEntry], head: str) -> list[ChainEntry]:
    """Return the entries with their fingerprints, computed from the fingerprint before them."""
    heads = accumulate(entries, _next_head, initial=head)
    next(heads)
    return [
        msgspec.structs.replace(entry, fingerprint=head)
        for entry, head in zip(entries, heads, strict=True)
    ]


def _next_head(head: str, entry: ChainEntry) -> str:
    return hashlib.sha256("\n".join((head, *entry.key)).encode()).hexdigest()


def _find_new(nights: Iterable[Snapshot], listed: Sequence[ChainEntry]) -> list[ChainEntry]:
    """Return the entries of these nights that are not listed, in the order of time."""
    known = {entry.key for entry in listed}
    landed = {entry.snapshot_id for entry in listed if entry.kind == NIGHT}
    found: list[ChainEntry] = []
    for night in nights:
        if night.snapshot_id not in landed:
            found.append(_night_entry(night.folder))
        found += [entry for entry in _decision_entries(night) if entry.key not in known]
    return sorted(found, key=lambda entry: (entry.at, entry.snapshot_id, entry.kind, entry.digest))


def _entries_in(folder: Path) -> Iterator[ChainEntry]:
    """Yield the entries in a landing folder, without decisions that cannot be read."""
    yield _night_entry(folder)
    with contextlib.suppress(DamagedFile):
        yield from _decision_entries(snapshots.read(folder))


def _night_entry(folder: Path) -> ChainEntry:
    try:
        content = night_folders.read(folder / MANIFEST)
        return ChainEntry(
            folder.name, NIGHT, _utc(content["finished_at"]), night_folders.digest(content)
        )
    except (DamagedFile, KeyError, ValueError):
        # A damaged file must not stop a night. It has a digest that no undamaged file can have.
        started = night_folders.snapshot_time(folder.name).isoformat()
        return ChainEntry(folder.name, NIGHT, started, UNREADABLE)


def _decision_entries(night: Snapshot) -> Iterator[ChainEntry]:
    for decision in night.decisions:
        digest = hashlib.sha256(msgspec.json.encode(decision)).hexdigest()
        yield ChainEntry(night.snapshot_id, DECIDED, _utc(decision.at), digest)


def _utc(moment: str) -> str:
    return datetime.fromisoformat(moment).astimezone(UTC).isoformat()
