"""Functions that compare the files of a home with the digests that were recorded for them."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pipelines.lake import night_files
from pipelines.landing import night_folders, snapshots
from pipelines.landing.damage import (
    CHANGED,
    MISSING,
    SURPLUS,
    BodiesNotLocal,
    Damage,
    without_bodies,
)
from pipelines.landing.fingerprint import LIST, list_damage
from pipelines.landing.manifest import Manifest, load_manifest
from pipelines.landing.night_folders import MANIFEST, DamagedFile
from pipelines.landing.snapshots import DECISION, Snapshot
from pipelines.maintenance.upgrade import RECORD
from warehouse.contract import states
from warehouse.storage.digests import read_digests
from warehouse.storage.layout import DATABASE, DIGESTS, Layout, digest_of, json_bytes

LANDED = "restore it from a backup, because the API keeps no history"
LAKE = "rebuild the lake with: nightbook rebuild --from-landing"
WAREHOUSE = "rebuild the warehouse with: nightbook rebuild"
RESTORE = (
    "Nothing was rebuilt. The lake and the warehouse are unchanged and still show those nights. "
    "Restore the listed files from a backup. The API keeps no history, so nightbook cannot fetch "
    "them again."
)
STRANGE = "nightbook did not write this file: check it and move it elsewhere"
_LEFTOVER = re.compile(r"\..*\.(aside|pulling)|\.tmp-.*|\.current")
MAX_NAMED = 5  # maximum number of damaged files that an error message names


@dataclass(frozen=True, slots=True)
class _LandedNight:
    """A snapshot's verified manifest and decisions. Each is None if its file is damaged."""

    folder: Path
    manifest: Manifest | None
    snapshot: Snapshot | None

    @property
    def is_kept(self) -> bool:
        """True unless the night was pruned."""
        return self.snapshot is None or self.snapshot.state != states.PRUNED

    @property
    def is_decided(self) -> bool:
        """True if the night has been accepted, held, rejected or pruned."""
        return self.snapshot is not None and self.snapshot.decision is not None


def verify(layout: Layout) -> Iterator[Damage]:
    """Yield every changed, missing or surplus file in the landing zone, lake and warehouse."""
    landed = _landed_nights(layout)
    nights = {night.folder.name: night for night in landed}
    yield from _landing(layout, landed)
    yield from _lake(layout, nights)
    yield from _warehouse(layout, nights)


def verify_landing(layout: Layout) -> Iterator[Damage]:
    """Yield every changed, missing or surplus file in the landing zone."""
    return _landing(layout, _landed_nights(layout))


def require_landing(layout: Layout, *, bodies: bool) -> None:
    """Check that no landed night is missing and, with `bodies`, that all landed files are intact.

    Raises `BodiesNotLocal`, or `DamagedFile` with all missing nights and damaged files.
    """
    if bodies and (away := without_bodies(layout)):
        raise BodiesNotLocal(away, "Nothing was rebuilt")
    damages = [*missing_landings(layout), *(verify_landing(layout) if bodies else ())]
    broken = [f"{damage.file} ({damage.what})" for damage in damages if damage.what != SURPLUS]
    if broken:
        broken = list(dict.fromkeys(broken))
        more = [f"and {len(broken) - MAX_NAMED} more"] if len(broken) > MAX_NAMED else []
        found = "; ".join([*broken[:MAX_NAMED], *more])
        raise DamagedFile(layout.landing, found, "an unchanged copy of every landed file", RESTORE)


def missing_landings(layout: Layout) -> Iterator[Damage]:
    """Yield the nights in the lake or warehouse that have no landing folder or manifest."""
    digests = read_digests(layout.database.parent)
    snapshot_ids = {path.stem for path in layout.manifests.glob("[!.]*.json")}
    snapshot_ids |= set(digests.decided) if digests else set()
    folders = {folder.name: folder for folder in _folders(layout)}
    for snapshot_id in sorted(snapshot_ids):
        folder = folders.get(snapshot_id, layout.landing / snapshot_id)
        if not (folder / MANIFEST).exists():
            yield Damage(folder / MANIFEST, MISSING, snapshot_id, LANDED)


def _landing(layout: Layout, nights: Iterable[_LandedNight]) -> Iterator[Damage]:
    """Yield every changed, missing or surplus file in the given nights' landing folders."""
    expected: set[Path] = set()
    away = without_bodies(layout)
    for night in nights:
        folder = night.folder
        stored = {} if night.manifest is None else night.manifest.stored
        bodies = {folder / name: digest for name, digest in stored.items()}
        expected |= {folder / MANIFEST, folder / DECISION} | set(bodies)
        if night.manifest is None:
            yield _broken_file(folder / MANIFEST, folder.name, LANDED)
            expected |= set(folder.iterdir())
        if night.snapshot is None:
            yield _broken_file(folder / DECISION, folder.name, LANDED)
        if night.is_kept and folder.name in away:
            yield from _mismatches({path: bodies[path] for path in bodies if path.exists()}, LANDED)
        elif night.is_kept:
            yield from _mismatches(bodies, LANDED)
    yield from list_damage(layout)
    yield from _surplus(layout.landing, expected | {layout.landing / LIST})


def _folders(layout: Layout) -> list[Path]:
    """Return the folders of all snapshots in the landing zone, sorted."""
    return sorted(path for path in night_folders.nights(layout) if path.is_dir())


def _landed_nights(layout: Layout) -> list[_LandedNight]:
    """Read and verify all nights in the landing zone."""
    return [_read(folder) for folder in _folders(layout)]


def _read(folder: Path) -> _LandedNight:
    """Read and verify a snapshot's manifest and decisions."""
    manifest, snapshot = None, None
    with contextlib.suppress(DamagedFile):
        if _is_as_written(folder / MANIFEST):
            manifest = load_manifest(folder)
    with contextlib.suppress(DamagedFile):
        if not (folder / DECISION).exists() or _is_as_written(folder / DECISION):
            snapshot = snapshots.read(folder)
    return _LandedNight(folder, manifest, snapshot)


def _is_as_written(path: Path) -> bool:
    """Return whether a sealed JSON file is exactly as nightbook wrote it, including white space."""
    return path.read_bytes() == json_bytes(night_folders.with_seal(night_folders.read(path)))


def _lake(layout: Layout, nights: Mapping[str, _LandedNight]) -> Iterator[Damage]:
    """Yield every changed, missing or surplus file in the lake."""
    expected: set[Path] = {layout.lake / RECORD}
    unsealed = {night_ for night_ in nights if not layout.manifest(night_).exists()}
    for path in sorted(layout.manifests.glob("[!.]*.json")):
        night = nights.get(path.stem)
        if night is not None and not night.is_kept:
            unsealed.add(path.stem)  # an earlier run was interrupted while pruning this night
            continue
        expected.add(path)
        sealed = _read_lake_manifest(path)
        if sealed is None:
            yield _broken_file(path, path.stem, LAKE)
            unsealed.add(path.stem)
            continue
        if night is None:
            yield Damage(path, SURPLUS, path.stem, f"its landed night is missing; {LANDED}")
        digests = _file_digests(layout, path.stem, sealed)
        expected |= set(digests)
        yield from _mismatches(digests, LAKE)
    for snapshot_id, night in sorted(nights.items()):
        if night.is_decided and night.is_kept and not layout.manifest(snapshot_id).exists():
            yield Damage(layout.manifest(snapshot_id), MISSING, snapshot_id, LAKE)
    yield from (
        path_ for path_ in _surplus(layout.lake, expected) if not _belongs_to(path_.file, unsealed)
    )


def _read_lake_manifest(path: Path) -> dict[str, Any] | None:
    """Read a lake manifest. Return None if it is damaged."""
    try:
        return night_folders.read(path) if _is_as_written(path) else None
    except DamagedFile:
        return None


def _file_digests(layout: Layout, snapshot_id: str, sealed: Mapping[str, Any]) -> dict[Path, str]:
    """Map the paths of a sealed snapshot's files to their SHA-256.

    A book table's file is in the staging folder or in its final folder, or in both during a
    rebuild.
    """
    day = date.fromisoformat(sealed["snapshot_date"])
    digests: dict[Path, str] = {}
    # Use the list of tables in the manifest, because the night may have been built with an older
    # contract that had different tables.
    for role, name, digest in night_files.entries(sealed):
        places = night_files.places(layout, role, name, day, snapshot_id)
        stored = [place for place in places if place.exists()] or [places[0]]
        digests |= dict.fromkeys(stored, digest)
    return digests


def _belongs_to(file: Path, snapshot_ids: set[str]) -> bool:
    """Return whether a file, or the folder that contains it, is named after a snapshot ID."""
    return file.stem in snapshot_ids or file.parent.name in snapshot_ids


def _warehouse(layout: Layout, nights: Mapping[str, _LandedNight]) -> Iterator[Damage]:
    """Yield every changed, missing or surplus file in the warehouse."""
    versions = layout.warehouse / "versions"
    current = layout.warehouse / "current"
    expected = {current}
    for version in sorted(versions.glob("[!.]*")):
        digests = read_digests(version)
        expected |= {version / DIGESTS, version / DATABASE}
        if digests is None:
            yield _broken_file(version / DIGESTS, None, WAREHOUSE)
            continue
        if not digests.match(version / DATABASE):
            yield _broken_file(version / DATABASE, None, WAREHOUSE)
        if current.is_symlink() and version == current.parent / current.readlink():
            yield from _missing_decisions(layout, digests.decided, nights)
    has_books = any(night.is_decided for night in nights.values())
    if not layout.database.exists() and (has_books or current.is_symlink()):
        yield Damage(layout.database, MISSING, None, WAREHOUSE)
    yield from _surplus(layout.warehouse, expected)


def _missing_decisions(
    layout: Layout, decided: Mapping[str, str | None], nights: Mapping[str, _LandedNight]
) -> Iterator[Damage]:
    """Yield each night or decision that is in the warehouse but was never landed."""
    for snapshot_id, at in sorted(decided.items()):
        night = nights.get(snapshot_id)
        if night is None:
            yield Damage(layout.landing / snapshot_id, MISSING, snapshot_id, LANDED)
        elif night.snapshot is not None:
            times = [decision.at for decision in night.snapshot.decisions]
            if at is not None and at not in times:
                yield _broken_file(night.folder / DECISION, snapshot_id, LANDED)


def _mismatches(digests: Mapping[Path, str], remedy: str) -> Iterator[Damage]:
    """Yield damage for each file that is missing or has a different SHA-256."""
    for path, digest in sorted(digests.items()):
        if not path.is_file() or digest_of(path) != digest:
            yield _broken_file(path, _night_of(path), remedy)


def _broken_file(path: Path, night: str | None, remedy: str) -> Damage:
    """Build the damage for a changed file or, if the file does not exist, for a missing file."""
    return Damage(path, CHANGED if path.exists() else MISSING, night, remedy)


def _surplus(root: Path, expected: Iterable[Path]) -> Iterator[Damage]:
    """Yield damage for unexpected files below a folder, except for leftovers of killed runs."""
    expected = set(expected)
    for path in sorted(root.rglob("*")):
        is_leftover = any(_LEFTOVER.fullmatch(part) for part in path.relative_to(root).parts)
        if path not in expected and not is_leftover and (path.is_symlink() or not path.is_dir()):
            yield Damage(path, SURPLUS, _night_of(path), STRANGE)


def _night_of(path: Path) -> str | None:
    """Return the snapshot ID in a path, or None if there is none."""
    match = night_folders.ID.search(f"{path.parent.name}/{path.name}")
    return match.group() if match else None
