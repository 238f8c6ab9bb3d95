"""The folder of the reconciliation, whose files appear whole or not at all.

`results/<day>/<no>-<run>.json` and the numbered files of `annotations`, `signoffs`, `restatements`
and `closings` are only ever added to.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from warehouse.reconcile.model import (
    Annotation,
    Closing,
    DaySettings,
    Notice,
    Restatement,
    RunResult,
    Signature,
    to_json,
    with_present_ages,
)
from warehouse.reconcile.settings.config import TEMPLATE, Config
from warehouse.reconcile.terms import NotReconciled
from warehouse.spreadsheet.reading.archives import LedgerFile
from warehouse.spreadsheet.reading.grid import OpenedFile
from warehouse.storage.layout import make_directory, read_json, written_aside

Content = TypeVar("Content")

Record = TypeVar("Record", bound=msgspec.Struct)

_DIGITS = 6  # of a file's number


class DayFiles(NamedTuple):
    """What a run writes for a day: the workbook, and for machines every key and the breaks."""

    workbook: Path
    positions: Path
    breaks: Path


class NumberedRecords(Generic[Record]):
    """The records of a folder in the order in which they came, a numbered file each."""

    def __init__(self, folder: Path, kind: type[Record]) -> None:
        self._folder, self._kind = folder, kind

    @cached_property
    def _records(self) -> list[Record]:
        return [_read(path, self._kind) for path in self.paths()]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def paths(self) -> list[Path]:
        """Return their files."""
        return _numbered_files(self._folder)

    def add(self, record: Record) -> None:
        """Add one behind all others."""
        number = _add(self._folder, "", to_json(record))
        self._records.append(replace(record, no=number))


class Store:
    """The folder `<home>/reconcile`, opened once for a run or a command.

    What was read once is not read again, so that one run sees one state of every file.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.config = root / "recon.toml"
        self.inbox = root / "inbox"
        self.out = root / "out"
        self.mappings = root / "mappings.json"
        self.annotations = NumberedRecords(root / "annotations", Annotation)
        self.signatures = NumberedRecords(root / "signoffs", Signature)
        self.restatements = NumberedRecords(root / "restatements", Restatement)
        self.closings = NumberedRecords(root / "closings", Closing)
        self._results: dict[Path, RunResult] = {}

    def make(self) -> None:
        """Make the folders that people use."""
        make_directory(self.inbox)
        make_directory(self.out)

    def day_files(self, day: date) -> DayFiles:
        """Return where the files of a day lie, whether they are there or not."""
        folder = self.out / day.isoformat()
        return DayFiles(
            workbook=folder / f"recon_{day}.xlsx",
            positions=folder / f"positions_{day}.parquet",
            breaks=folder / f"breaks_{day}.machines.csv",
        )

    def days(self) -> list[date]:
        """Return the days that have a result, oldest first."""
        folder = self.root / "results"
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        return [date.fromisoformat(name) for name in names if _numbered_files(folder / name)]

    def is_newest(self, day: date) -> bool:
        """Return whether no later day has a result."""
        return all(day >= stored for stored in self.days())

    def result_paths(self, day: date) -> list[Path]:
        """Return the files of all results of a day, the oldest first."""
        return _numbered_files(self.root / "results" / day.isoformat())

    def newest_path(self, day: date) -> Path | None:
        """Return the file of the newest result of a day."""
        files = self.result_paths(day)
        return files[-1] if files else None

    def result(self, day: date) -> RunResult | None:
        """Return the newest result of a day."""
        path = self.newest_path(day)
        return self.result_at(path) if path else None

    def result_of(self, run_id: str) -> RunResult | None:
        """Return the result of one run, as it was stored last."""
        for path in sorted((self.root / "results").glob("*/*.json"), reverse=True):
            if path.stem.partition("-")[2] == run_id:
                return self.result_at(path)
        return None

    def result_before(self, day: date) -> RunResult | None:
        """Return the newest result of an earlier day."""
        earlier = [stored for stored in self.days() if stored < day]
        return self.result(earlier[-1]) if earlier else None

    def result_at(self, path: Path) -> RunResult:
        """Return the result that a file holds."""
        if path not in self._results:
            self._results[path] = with_present_ages(_read(path, RunResult))
        return self._results[path]

    def add_result(self, result: RunResult) -> RunResult:
        """Store the result of a run and return it; the same one again replaces itself."""
        folder = self.root / "results" / result.day.isoformat()
        files = _numbered_files(folder)
        content = to_json(result)
        # A run's id is of its digest: the same id is the same result, made once more.
        if files and files[-1].stem.endswith(result.run_id):
            write_json(files[-1], content | {"no": len(files)})
        else:
            _add(folder, f"-{result.run_id}", content)
        self._results.clear()
        stored = self.result(result.day)
        return stored or result

    def known_shapes(self) -> dict[str, dict[str, str]]:
        """Return what was learned of ledgers by their headers."""
        return _read(self.mappings, dict[str, dict[str, str]]) if self.mappings.exists() else {}

    def ledgers_before(self, day: date) -> frozenset[str]:
        """Return the digests of ledgers with which an earlier day was reconciled."""
        before = self.result_before(day)
        return frozenset(
            [*(digest for digest, at in self._first_days().items() if at < day.isoformat())]
            + [source.sha256 for source in (before.sources if before else ())]
        )

    def add_ledgers(self, digests: Iterable[str], day: date) -> None:
        """Remember the first day that each ledger was read for."""
        first_days = self._first_days()
        for digest in digests:
            first_days[digest] = min(first_days.get(digest, day.isoformat()), day.isoformat())
        write_json(self.root / "read.json", first_days)

    def _first_days(self) -> dict[str, str]:
        path = self.root / "read.json"
        return _read(path, dict[str, str]) if path.exists() else {}

    def known_workbooks(self) -> frozenset[str]:
        """Return the digests of workbooks that were read back, or written, already."""
        path = self.root / "seen.json"
        digests = _read(path, list[str]) if path.exists() else []
        return frozenset([*digests, *(annotation.sha256 for annotation in self.annotations)])

    def add_workbooks(self, digests: Iterable[str]) -> None:
        """Remember workbooks that need not be read back again."""
        write_json(self.root / "seen.json", sorted({*self.known_workbooks(), *digests}))


def write_json(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all."""
    # With `indent` the encoder is the one in Python, which takes ten times as long.
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    with written_aside(path) as file:
        file.write(msgspec.json.format(text.encode("utf-8", "surrogatepass"), indent=1) + b"\n")


def _read(path: Path, kind: type[Content]) -> Content:
    """Read one of our files; raise `NotReconciled` where it is damaged."""
    try:
        return msgspec.convert(read_json(path), kind)
    except (OSError, ValueError) as error:
        raise NotReconciled(
            f"{path} cannot be read ({type(error).__name__}: {str(error)[:200]}): it was changed "
            "or damaged. Nothing was reconciled and nothing was changed. Restore that folder from "
            "the backup."
        ) from error


def _numbered_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.json"))


def _add(folder: Path, suffix: str, content: dict[str, Any]) -> int:
    files = _numbered_files(folder)
    number = int(files[-1].name[:_DIGITS]) + 1 if files else 1
    write_json(folder / f"{number:0{_DIGITS}}{suffix}.json", content | {"no": number})
    return number


def archived_path(store: Store, sha256: str) -> Path:
    """Return where the file of a digest lies, whether it is there or not."""
    return store.root / "kept" / sha256


def archive_inputs(store: Store, ledgers: Iterable[OpenedFile], settings: str) -> None:
    """Archive the ledgers of a run, and recon.toml, by the digests under which they were read.

    Raises `NotReconciled` where one of them is another one by now.
    """
    for ledger in ledgers:
        _archive(store, ledger.path, ledger.sha256)
    _archive(store, store.config, settings, TEMPLATE.encode())


def _archive(store: Store, path: LedgerFile, sha256: str, otherwise: bytes = b"") -> None:
    # Archived is what was read: a file that was saved between the two is found by its digest.
    if archived_path(store, sha256).exists():
        return
    content = path.read_bytes() if path.is_file() else otherwise
    if hashlib.sha256(content).hexdigest() != sha256:
        raise NotReconciled(
            f"{path.name} was changed while it was read. Nothing was reconciled. Run again."
        )
    with written_aside(archived_path(store, sha256)) as file:
        file.write(content)


_MOST, _LONGEST = 20, 80


def settings_of_day(store: Store, config: Config, day: date, run_id: str) -> DaySettings:
    """Return the settings that are a day's own: those of now where it is the newest day."""
    before = store.result(day)
    if before is None or store.is_newest(day):
        return DaySettings(digest=config.digest, words=dict(config.words), run_id=run_id)
    return before.day_settings or DaySettings(
        digest=before.settings_digest, words=None, run_id=before.run_id
    )


def settings_changes(store: Store, config: Config, day: date) -> Iterator[Notice]:
    """Yield what the settings of now change in a past day that had others."""
    then = settings_of_day(store, config, day, "")
    if then.digest == config.digest and then.words in (None, config.words):
        return
    if then.words is None:
        differences = ["what stood there then was not kept by an older nightbook"]
    else:
        differences = list(_differences(then.words, config.words))
    if differences:
        more_count = len(differences) - _MOST
        more = [f"and {more_count} more"] if more_count > 0 else []
        yield Notice(
            "high",
            f"this past day was run again with other settings than its own, those of run "
            f"{then.run_id}: {'; '.join([*differences[:_MOST], *more])}",
            "recon.toml",
        )


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        was, is_now = then.get(name), now.get(name)
        if was is None and is_now is not None:
            yield f"{name} is new: {is_now[:_LONGEST]}"
        elif is_now is None and was is not None:
            yield f"{name} is gone: it was {was[:_LONGEST]}"
        elif was is not None and is_now is not None and was != is_now:
            yield f"{name} was {was[:_LONGEST]} and is now {is_now[:_LONGEST]}"
