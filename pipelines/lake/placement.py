"""Functions that judge staged nights, and move the files of accepted nights into the lake.

An accepted night becomes the book of its date. The files of books are in
`lake/<table>/snapshot_date=.../`, one for each date, so that any engine can read the folders. The
files of other nights stay staged. `lake/manifests/<snapshot_id>.json` describes the files of a
snapshot (see `pipelines.lake.lake_manifest`).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.flatten import flatten
from pipelines.lake import guards, lake_manifest, lessons, reason_lines
from pipelines.lake.date_doubts import find_date_doubts
from pipelines.lake.decision_rows import rows_of_decisions
from pipelines.lake.facts import Facts, Findings, RejectGroup
from pipelines.lake.lake_manifest import LakeManifests, sealed_ids
from pipelines.lake.origins import find_other_server
from pipelines.lake.repeated_accounts import RepeatedAccounts
from pipelines.landing import night_folders, snapshots
from pipelines.landing.briefs import IN_LAKE
from pipelines.landing.manifest import Manifest
from pipelines.landing.night_folders import DamagedFile
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.lake import BOOK_FILES
from warehouse.contract.ops import NIGHTLY
from warehouse.storage.layout import Layout, make_directory, sync_directory

Row = dict[str, Any]
_BOOK_NAMES = tuple(table.name for table in BOOK_FILES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeContents:
    """The lake's content that is published in the warehouse: books, nightly files and rows.

    `books` contains the date, snapshot ID and files of each book. `nightly` maps each nightly table
    to the files of all snapshots. `snapshots` contains the rows of `ops.snapshots`, and `decided`
    the rows of each table in `ops.DECIDED`. `digests` contains the SHA-256 of all files.
    """

    books: tuple[tuple[date, str, Mapping[str, Path]], ...]
    nightly: Mapping[str, Mapping[str, Path]]
    snapshots: tuple[Row, ...]
    digests: Mapping[Path, str]
    decided: Mapping[str, list[Row]]


class _Files(Mapping[str, Path]):
    """A mapping from table or snapshot names to file paths. Paths are built on demand."""

    def __init__(self, names: Collection[str], path_of: Callable[[str], Path]) -> None:
        self._names, self._path_of = names, path_of

    def __getitem__(self, name: str) -> Path:
        if name not in self._names:
            raise KeyError(name)
        return self._path_of(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class _PlacedDigests(Mapping[Path, str]):
    """A mapping from each night's files to their SHA-256. Manifests are read on demand."""

    def __init__(self, manifests: LakeManifests, nights: Mapping[str, Snapshot]) -> None:
        self._manifests, self._nights = manifests, nights

    def __getitem__(self, path: Path) -> str:
        night, name = self._nights[path.stem], path.parent.parent.name
        if path != self._manifests.layout.parquet(name, night.snapshot_date, path.stem):
            raise KeyError(path)
        return str(self._files(path.stem)[name]["sha256"])

    def __iter__(self) -> Iterator[Path]:
        for key, night in self._nights.items():
            for name in self._files(key):
                yield self._manifests.layout.parquet(name, night.snapshot_date, key)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _files(self, snapshot_id: str) -> Row:
        sealed = self._manifests.of(snapshot_id)
        return {**sealed["tables"], **sealed["nightly"]}


def decide_by_guards(known: LakeManifests, manifest: Manifest, *, at: datetime) -> Snapshot:
    """Let the guards accept or hold a sealed snapshot, unless it already has a decision."""
    snapshot = snapshots.find(known.layout, manifest.snapshot_id)
    if snapshot.decisions:
        return snapshot
    content = known.of(manifest.snapshot_id)
    landed = known.nights
    causes = guards.find_reasons(
        Facts.of(content["facts"]),
        lake_manifest.facts_before(known, manifest),
        _night(content, manifest, landed),
    )
    reasons = reason_lines.order(lessons.apply_lessons(causes, landed))
    is_held = not all(reason.is_known for reason in reasons)
    decided = snapshots.decide(
        snapshot,
        states.HELD if is_held else states.ACCEPTED,
        by=snapshots.GUARDS,
        at=at,
        reasons=reason_lines.lines_of(reasons),
        causes=reasons,
    )
    known.note(decided)
    return decided


def move_into_place(layout: Layout, landed: Sequence[Snapshot] | None = None) -> None:
    """Move files so that the lake's folders contain the books' files and nothing else.

    The book of a date is its newest accepted snapshot. `landed` contains all nights, if the caller
    has already read them.
    """
    landed = snapshots.landed_snapshots(layout) if landed is None else landed
    books = {snapshot.snapshot_id for snapshot in snapshots.books(landed).values()}
    days = {snapshot.snapshot_id: snapshot.snapshot_date for snapshot in landed}
    waiting = {path.parent.name for path in layout.lake.glob(".staged/*/*.parquet")}
    # Each move is a single rename, and every run moves all misplaced files. So if a run is killed,
    # the next run completes the work.
    for snapshot_id in sorted(sealed_ids(layout)):
        day = days.get(snapshot_id)
        is_book = snapshot_id in books
        if day is None or (is_book and snapshot_id not in waiting):
            continue  # Skip a night without a landed folder, because `lake_contents` reports it.
        for table in BOOK_FILES:
            placed = layout.parquet(table.name, day, snapshot_id)
            staged = layout.staged_file(table.name, snapshot_id)
            if is_book:
                _move(staged, placed)
            else:
                _move(placed, staged)


def lake_contents(manifests: LakeManifests) -> LakeContents:
    """Collect the content to publish in the warehouse, using only manifests and decisions."""
    layout = manifests.layout
    landed = manifests.nights
    books = snapshots.books(landed)
    pruned = {snapshot.snapshot_id for snapshot in landed if snapshot.state == states.PRUNED}
    sealed = sealed_ids(layout) - pruned
    _require_landing_folders(manifests, sealed, {snapshot.snapshot_id for snapshot in landed})
    chosen = tuple(
        (day, snapshot.snapshot_id, _book_files(layout, snapshot))
        for day, snapshot in books.items()
        if snapshot.snapshot_id in sealed
    )
    here = {snapshot.snapshot_id: snapshot for snapshot in landed if snapshot.snapshot_id in sealed}
    nightly = {
        table.name: _Files(here, partial(_nightly_file, layout, here, table.name))
        for table in NIGHTLY
    }
    is_book = {snapshot_id for _, snapshot_id, _ in chosen}
    rows = tuple(
        _snapshot_row(snapshot, manifests.briefs.of(snapshot).row, is_book) for snapshot in landed
    )
    return LakeContents(
        books=chosen,
        nightly=nightly,
        snapshots=rows,
        digests=_PlacedDigests(manifests, here),
        decided=rows_of_decisions(landed),
    )


def _night(content: Row, manifest: Manifest, landed: Sequence[Snapshot]) -> Findings:
    failed = flatten.failed_venues(manifest)
    return Findings(
        rejects=tuple(RejectGroup(**shape) for shape in content.get("money_shapes", ())),
        differing_totals=content["differing_totals"],
        venues=len(flatten.whole_venues(manifest) | failed),
        failed=sorted(failed),
        emptied=content.get("emptied", ()),
        notices=manifest.notices,
        signs=manifest.signs,
        window=manifest.window,
        date_doubts=find_date_doubts(manifest, landed),
        repeated=tuple(RepeatedAccounts(**venue) for venue in content.get("repeated", ())),
        other_server=find_other_server(manifest, landed),
    )


def _move(source: Path, target: Path) -> None:
    if source.is_file():
        make_directory(target.parent)
        source.replace(target)
        sync_directory(target.parent)
        sync_directory(source.parent)


def _book_files(layout: Layout, book: Snapshot) -> Mapping[str, Path]:
    path_of = partial(
        layout.parquet, snapshot_date=book.snapshot_date, snapshot_id=book.snapshot_id
    )
    return _Files(_BOOK_NAMES, path_of)


def _nightly_file(
    layout: Layout, nights: Mapping[str, Snapshot], table: str, snapshot_id: str
) -> Path:
    return layout.parquet(table, nights[snapshot_id].snapshot_date, snapshot_id)


def _require_landing_folders(manifests: LakeManifests, sealed: set[str], landed: set[str]) -> None:
    """Raise `DamagedFile` if the landed folder of a sealed night is missing."""
    for snapshot_id in sorted(sealed - landed):
        day = date.fromisoformat(manifests.of(snapshot_id)["snapshot_date"])
        folder = manifests.layout.snapshot(day, snapshot_id)
        raise DamagedFile(
            folder / night_folders.MANIFEST, "nothing", "the manifest of a landed night"
        )


def _snapshot_row(snapshot: Snapshot, known: Row, is_book: set[str]) -> Row:
    decision = snapshot.decision
    if snapshot.state == states.PRUNED:
        known = known | dict.fromkeys(IN_LAKE)
    return known | {
        "snapshot_date": snapshot.snapshot_date,
        "snapshot_id": snapshot.snapshot_id,
        "state": snapshot.state,
        "is_book": snapshot.snapshot_id in is_book,
        "started_at": datetime.fromisoformat(known["started_at"]),
        "finished_at": datetime.fromisoformat(known["finished_at"]),
        "decided_by": decision.by if decision else None,
        "decided_at": datetime.fromisoformat(decision.at) if decision else None,
        "reason": "; ".join(decision.reasons) if decision else "",
    }
