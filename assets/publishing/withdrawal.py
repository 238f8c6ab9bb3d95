"""What was made of a night that was accepted and is taken back: found, named and marked.

Nobody's file is touched: beside it appears a note that says what it was made of, by its SHA-256, so
that a newer file of the same name is not meant.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from pipelines.landing.snapshots import Decision, Snapshot
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import Layout, digest_of, written_aside

NOTE = ".rejected.txt"


def made_of(layout: Layout, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the files that show a night: exports and workbooks of its date, later reports."""
    return tuple(
        path.relative_to(layout.home).as_posix() for path in sorted(_files(layout, snapshot))
    )


def _files(layout: Layout, snapshot: Snapshot) -> Iterator[Path]:
    day = snapshot.snapshot_date.isoformat()
    for path in layout.exports.glob(f"*{day}*"):
        if _is_since(path, snapshot):
            yield path
    for path in layout.reports.glob("*.html"):
        if _is_since(path, snapshot) and (day in path.name or path.stem == "latest"):
            yield path
    if _is_reconciled(layout, snapshot):
        for path in (layout.home / "reconcile" / "out" / day).glob("*"):
            if path.is_file() and not path.name.endswith(NOTE):
                yield path


def _is_since(path: Path, snapshot: Snapshot) -> bool:
    """Whether a file was made after the night was accepted; an older one is of another book."""
    if snapshot.decision is None or not path.is_file() or path.name.endswith(NOTE):
        return False
    accepted = datetime.fromisoformat(snapshot.decision.at)
    return path.stat().st_mtime >= accepted.timestamp()


def _is_reconciled(layout: Layout, snapshot: Snapshot) -> bool:
    try:
        result = Record(layout.home / "reconcile").result(snapshot.snapshot_date)
    except NotReconciled:
        return True  # it cannot be read: better a note too many
    return result is not None and result.snapshot_id == snapshot.snapshot_id


def is_without_note(layout: Layout, decision: Decision) -> bool:
    """Whether a file that a decision withdrew has no note beside it."""
    return any(
        (layout.home / name).is_file() and not (layout.home / f"{name}{NOTE}").is_file()
        for name in decision.withdrawn
    )


def mark(layout: Layout, snapshot: Snapshot, decision: Decision) -> None:
    """Put a note beside each file that a decision withdrew."""
    for name in decision.withdrawn:
        path = layout.home / name
        if not path.is_file():
            continue
        note = (
            f"{path.name} was made of snapshot {snapshot.snapshot_id}, which is no book any more: "
            f"it was rejected at {decision.at} by {decision.by} ({'; '.join(decision.reasons)}).\n"
            f"Meant is the file of SHA-256 {digest_of(path)}; a newer one of that name is not.\n"
        )
        with written_aside(path.with_name(f"{path.name}{NOTE}")) as file:
            file.write(note.encode(errors="backslashreplace"))
