"""The archive of files read by runs: ledgers and recon.toml, each stored once under its SHA-256.

Only `close` deletes files: ledgers that are in a closed month's pack and were not used for any day
in the last `keep_days` days (see recon.toml).
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path

from warehouse.contract.model import and_more
from warehouse.reconcile.model import DaySettings, Notice
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.settings.config import TEMPLATE, Config
from warehouse.reconcile.terms import NotReconciled
from warehouse.spreadsheet.reading.files import LedgerFile
from warehouse.spreadsheet.reading.grid import OpenedFile
from warehouse.storage.layout import write_bytes

_SHOWN, _MAX_LENGTH = 20, 80


def archived_path(record: Record, sha256: str) -> Path:
    """Return the path for a file in the archive, whether the file exists or not."""
    return record.root / "kept" / sha256


def archive_inputs(record: Record, ledgers: Iterable[OpenedFile], settings: str) -> None:
    """Archive a run's ledgers and recon.toml under the digests of the bytes that were read.

    Raises `NotReconciled` if one of these files has changed since it was read.
    """
    for ledger in ledgers:
        _archive(record, ledger.path, ledger.sha256)
    _archive(record, record.config, settings, TEMPLATE.encode())


def _archive(record: Record, path: LedgerFile, sha256: str, default: bytes = b"") -> None:
    # Check the digest before archiving the file, because somebody may have saved the file after it
    # was read.
    if archived_path(record, sha256).exists():
        return
    content = path.read_bytes() if path.is_file() else default
    if hashlib.sha256(content).hexdigest() != sha256:
        raise NotReconciled(
            f"{path.name} was changed while it was read. Nothing was reconciled. Rerun the command."
        )
    write_bytes(archived_path(record, sha256), content)


def settings_of_day(record: Record, config: Config, day: date, run_id: str) -> DaySettings:
    """Return the settings for a day.

    The latest day uses the current settings. A past day that is rerun uses the settings from when
    it was the latest day, and its workbook lists the differences from the current settings.
    """
    before = record.result(day)
    if before is None or record.is_newest(day):
        return DaySettings(digest=config.digest, words=dict(config.words), run_id=run_id)
    return before.day_settings


def settings_changes(record: Record, config: Config, day: date) -> Iterator[Notice]:
    """Yield a notice if the current settings differ from a past day's settings."""
    then = settings_of_day(record, config, day, "")
    if differences := list(_differences(then.words, config.words)):
        yield Notice(
            "high",
            "this past day was rerun, and recon.toml has changed since run "
            f"{then.run_id}: {and_more(differences, _SHOWN, '; ')}",
            "recon.toml",
        )


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        if name not in then:
            yield f"{name} is new: {now[name][:_MAX_LENGTH]}"
        elif name not in now:
            yield f"{name} was {then[name][:_MAX_LENGTH]} and is no longer set"
        elif then[name] != now[name]:
            yield f"{name} was {then[name][:_MAX_LENGTH]} and is now {now[name][:_MAX_LENGTH]}"
