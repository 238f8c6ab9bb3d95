"""What a run leaves: the kept result, the workbook, the breaks for machines, the evidence."""

import csv
import hashlib
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from warehouse.query.book import OpenBook
from warehouse.reconcile.breaks.engine import Outcome
from warehouse.reconcile.comments.annotations import in_cell
from warehouse.reconcile.config import Config
from warehouse.reconcile.ledger.coverage import level_words, lines_of, totals
from warehouse.reconcile.ledger.model import Ledger
from warehouse.reconcile.store import archive, day_settings
from warehouse.reconcile.store.archive import Folder, Json
from warehouse.reconcile.workbook import positions, write
from warehouse.reconcile.workbook.content import WorkbookContent
from warehouse.reconcile.workbook.readback import imprint
from warehouse.storage.layout import written_aside


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What a run is given besides its data."""

    program_version: str
    now: datetime
    pause: Callable[[], None]


def evidence(
    source: OpenBook, found: tuple[Ledger, Outcome], config: Config, given: RunInputs, run_id: str
) -> dict[str, str]:
    """What stands behind the figures, in words."""
    ledger, outcome = found
    told = {
        "run": run_id,
        "digest of the result": outcome.digest,
        "made by": f"nightbook {given.program_version}",
        "warehouse made by": f"nightbook {source.build['program_version']}",
        "snapshot": source.snapshot_id,
        "read from": f"{source.snapshot['started_at']:%Y-%m-%d %H:%M:%S} UTC",
        "read until": f"{source.snapshot['finished_at']:%Y-%m-%d %H:%M:%S} UTC",
        "level": level_words(ledger),
        "tolerance": f"absolute {config.absolute}, relative {config.relative}",
        "SHA-256 of recon.toml": config.digest,
    }
    told |= {f"tolerance of {asset}": str(entry) for asset, entry in config.per_asset.items()}
    for source_ in ledger.sources:
        told[f"SHA-256 of {source_.name} {source_.sheet}".strip()] = source_.sha256
    told |= {result.value: str(count) for result, count in outcome.counts.items()}
    return told


def store_result(folder: Folder, shown: WorkbookContent, config: Config, given: RunInputs) -> Json:
    """Keep the result; what was kept is what `status` and `verify` say."""
    outcome = shown.outcome
    result: Json = {
        "name": config.name,
        "day": shown.day.isoformat(),
        "run_id": shown.run_id,
        "digest": outcome.digest,
        "snapshot_id": shown.source.snapshot_id,
        "fields": list(outcome.fields),
        "counts": {entry.value: count for entry, count in outcome.counts.items()},
        "rejected": len(shown.ledger.rejected),
        "breaks": [asdict(break_) for break_ in outcome.breaks],
        "resolved": list(shown.resolved),
        "episodes": dict(outcome.episodes),
        "ties": [asdict(tie) for tie in shown.ties],
        "workbook": {"names": _names(shown), "rolled": _roll_forward_rows(shown)},
        "coverage": {
            "level": level_words(shown.ledger),
            "files": lines_of(shown.ledger),
            "unused": [asdict(item) | {"kind": item.kind.value} for item in shown.unused],
            "in_all": totals(shown.unused),
            "forgiven": [list(line) for line in outcome.forgiven],
        },
        "written": imprint.identity(shown),
        "day_settings": day_settings.own(folder, config, shown.day, shown.run_id),
        "sources": [asdict(source_) for source_ in shown.ledger.sources],
        "notices": [asdict(notice) for notice in shown.notices],
        "evidence": dict(shown.evidence),
        "revision": shown.revision,
        "made_at": given.now.isoformat(),
    }
    archive.add_result(folder, result)
    return archive.result(folder, shown.day) or result


def _names(shown: WorkbookContent) -> dict[str, dict[str, str]]:
    """The names that the workbook shows for ids, of those that are in it: every key is in a tie."""
    made: dict[str, dict[str, str]] = {}
    for tie in shown.ties:
        name = shown.shown.get(tie.level, {}).get(tie.of, tie.of)
        if name != tie.of:
            made.setdefault(tie.level, {})[tie.of] = name
    return made


def _roll_forward_rows(shown: WorkbookContent) -> list[list[str]]:
    return [[in_cell(text) for text in line.line] for line in shown.rolled]


def write_files(folder: Folder, shown: WorkbookContent) -> tuple[Path, ...]:
    """Write the workbook, and for machines the breaks and every key.

    What we wrote need not be read back.
    """
    place = folder.out / shown.day.isoformat()
    book_path = place / f"recon_{shown.day}.xlsx"
    name = imprint.identity(shown)
    write.write(replace(shown, written=name), book_path)
    content = book_path.read_bytes()
    imprint.keep(folder, name, content)
    table = io.StringIO()
    csv.writer(table).writerows(write.rows_of_breaks(shown))
    positions_path = place / positions.name(shown.day)
    positions.write(shown, positions_path)
    csv_path = place / f"breaks_{shown.day}.machines.csv"
    with written_aside(csv_path) as file:
        file.write(table.getvalue().encode())
    archive.add_digests(folder, [hashlib.sha256(content).hexdigest()])
    return book_path, csv_path, positions_path
