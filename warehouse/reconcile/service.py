"""The reconciliation as commands see it: init, run, status, history, sign, verify.

`folder` is `<home>/reconcile`, `database` the published warehouse. Times and pauses are given.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import python_calamine

from warehouse.contract.wording import count_of
from warehouse.query.book import book
from warehouse.reconcile import reconciliation, result
from warehouse.reconcile.comments import signoff
from warehouse.reconcile.comments.annotations import ACCEPTED
from warehouse.reconcile.comments.edits import read_edits
from warehouse.reconcile.config import TEMPLATE, read_config
from warehouse.reconcile.errors import NotReconciled
from warehouse.reconcile.ledger.coverage import coverage_words, totals, unread
from warehouse.reconcile.ledger.model import Unused
from warehouse.reconcile.notices import Notice
from warehouse.reconcile.store import archive
from warehouse.reconcile.store import ops_rows as published
from warehouse.reconcile.store.archive import Folder, Json
from warehouse.reconcile.workbook import sample_ledger, template
from warehouse.reconcile.workbook.readback import verification
from warehouse.storage.layout import written_aside

TIED, OPEN_BREAKS = 0, 3


@dataclass(frozen=True, slots=True)
class InitFiles:
    """What `init` wrote; files that were there are left as they are."""

    files: tuple[Path, ...]
    keys: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to: `exit_code` is 0 where all ties or is accepted, 3 where breaks are open.

    A run without a ledger has no `run_id` and says so in `notices`.
    """

    day: date
    run_id: str
    digest: str
    counts: Mapping[str, int]
    open_breaks: int
    breaks: int
    files: tuple[Path, ...]
    notices: tuple[Notice, ...]
    exit_code: int
    unused: tuple[Unused, ...] = ()
    level: str = ""

    @property
    def words(self) -> str:
        """The result in one paragraph."""
        if not self.run_id:
            return "; ".join(": ".join(filter(None, (n.where, n.words))) for n in self.notices)
        keys = sum(self.counts.values())
        rejected = sum(notice.words.startswith("rejected") for notice in self.notices)
        return (
            f"{self.day}: {count_of(keys, 'key')}, {self.counts['Matched']} exact, "
            f"{self.counts['Within tolerance']} within tolerance, {count_of(self.breaks, 'break')} "
            f"({self.open_breaks} open), {count_of(rejected, 'row')} rejected. Compared at "
            f"{self.level}; not used: {totals(self.unused) or 'nothing'}."
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """How the newest result, or that of a day, stands, with its breaks and signatures.

    `rejected` are the rows of the ledgers that could not be used, `unread` is what nobody decided
    about, and `coverage` says at which level was compared and what was not used.
    """

    day: date
    run_id: str
    digest: str
    counts: Mapping[str, int]
    breaks: tuple[Json, ...]
    rejected: int
    signatures: tuple[Json, ...]
    void: str
    exit_code: int
    unread: tuple[str, ...] = ()
    coverage: str = ""


@dataclass(frozen=True, slots=True)
class VerifyResult:
    """What differs between a workbook and the result it shows; nothing where it is whole.

    `compared` says which rows of which sheets were held against it, `uncompared` why others were
    not.
    """

    file: Path
    run_id: str
    differences: tuple[str, ...]
    compared: tuple[str, ...]
    uncompared: tuple[str, ...]
    signatures: tuple[Json, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether everything that was compared is as it was."""
        return not self.differences

    @property
    def words(self) -> str:
        """What may be said where it is whole."""
        *others, last = self.compared
        rows = f"{', '.join(others)} and {last}" if others else last
        return (
            f"{self.file}: {rows} are as run {self.run_id} wrote them: numbers, texts, names and "
            "formulas. What people write was not compared."
        )


def init(database: Path, folder: Path) -> InitFiles:
    """Write recon.toml and a ledger template with the keys of the newest book.

    Raises `FileNotFoundError` where no warehouse is published.
    """
    kept = Folder(folder)
    kept.make()
    files = []
    with book(database, None, ()) as source:
        path = folder / "ledger_template.xlsx"
        keys = template.write(source, path)
        files.append(path)
    if not kept.config.exists():
        with written_aside(kept.config) as file:
            file.write(TEMPLATE.encode())
        files.append(kept.config)
    return InitFiles(tuple(files), keys)


def rehearse(database: Path, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Write a ledger of the newest book with errors planted into the inbox; they come back."""
    kept = Folder(folder)
    kept.make()
    with book(database, None, ()) as source:
        path = kept.inbox / f"ledger-{source.day}.xlsx"
        return path, sample_ledger.write(source, path)


def run(
    database: Path,
    folder: Path,
    *,
    as_of: date | None = None,
    program_version: str,
    now: datetime,
    pause: Callable[[], None] = lambda: time.sleep(0.2),
) -> RunSummary:
    """Read what people wrote, hold the inbox's ledgers against the book, write the workbook.

    Raises `Ambiguous` (exit code 3) where a person must settle something, `NotReconciled` (2)
    where an input cannot be used, `NotExported` where there is no such book.
    """
    kept = Folder(folder)
    kept.make()
    config = read_config(kept.config)
    with book(database, as_of, ()) as source:
        done = reconciliation.run(
            source, kept, config, result.RunInputs(program_version, now, pause)
        )
    if done.result is None:
        code = OPEN_BREAKS if any(item.severity != "low" for item in done.unused) else TIED
        return RunSummary(source.day, "", "", {}, 0, 0, (), done.notices, code, done.unused)
    found = done.result
    return RunSummary(
        source.day,
        found["run_id"],
        found["digest"],
        found["counts"],
        sum(break_["status"] != ACCEPTED for break_ in found["breaks"]),
        len(found["breaks"]),
        done.files,
        done.notices,
        _exit_code(found),
        done.unused,
        found["coverage"]["level"],
    )


def _exit_code(found: Json) -> int:
    """3 where a break is open, a row was rejected, or something was not delivered or not read."""
    opened = any(break_["status"] != ACCEPTED for break_ in found["breaks"])
    lost = found["counts"]["Portfolio not delivered"] or found["rejected"]
    return OPEN_BREAKS if opened or lost or unread(found) else TIED


def _result_of_day(kept: Folder, day: date | None) -> Json:
    days = archive.days(kept)
    wanted = day or (days[-1] if days else None)
    found = archive.result(kept, wanted) if wanted else None
    if found is None:
        raise NotReconciled(
            f"There is no result of {wanted or 'any day'} yet. Put a ledger into the inbox and run "
            "`nightbook reconcile run`. Nothing was changed."
        )
    return found


def status(folder: Path, *, day: date | None = None) -> Standing:
    """How the newest result stands, or that of a day.

    Raises `NotReconciled` where there is none.
    """
    kept = Folder(folder)
    found = _result_of_day(kept, day)
    return Standing(
        date.fromisoformat(found["day"]),
        found["run_id"],
        found["digest"],
        found["counts"],
        tuple(found["breaks"]),
        found["rejected"],
        tuple(signoff.valid(kept, found["digest"]).values()),
        signoff.void(kept, found),
        _exit_code(found),
        tuple(f"{item['name']}: {item['reason']}" for item in unread(found)),
        coverage_words(found),
    )


def history(folder: Path, break_id: str) -> tuple[Json, ...]:
    """Every day of a break, everything that was said of it and who signed it, oldest first.

    Raises `NotReconciled` where nothing is known of it.
    """
    kept = Folder(folder)
    told: list[Json] = []
    for day in archive.days(kept):
        found = archive.by_id(archive.result(kept, day)).get(break_id)
        if found:
            told.append({"at": day.isoformat(), "kind": "break", **found})
    for entry in archive.annotations(kept):
        about = {"at": entry["at"], "kind": "said", "who": entry["who"]}
        told += [about | entry for entry in entry["entries"] if entry["break_id"] == break_id]
    days = {entry["at"] for entry in told if entry["kind"] == "break"}
    told += [
        {"kind": "signed", "at": signed["at"], "words": signoff.words(signed)}
        for signed in archive.signoffs(kept)
        if signed["day"] in days
    ]
    if not told:
        raise NotReconciled(
            f"{break_id!r} is no break that was ever seen; `nightbook reconcile status` lists "
            "those of today. Nothing was changed."
        )
    return tuple(sorted(told, key=lambda entry: (entry["at"], entry["kind"])))


def sign(
    folder: Path, *, role: str, who: str, comment: str = "", day: date | None = None, now: datetime
) -> Json:
    """Sign the newest result, or that of a day, as preparer or reviewer.

    Raises `NotReconciled` where both would be the same person or there is no result.
    """
    kept = Folder(folder)
    return signoff.sign(
        kept, _result_of_day(kept, day), role=role, who=who, comment=comment, at=now
    )


def verify(folder: Path, file: Path) -> VerifyResult:
    """Hold names, results and exact figures of a workbook against the stored result.

    Raises `NotReconciled` where the file is no workbook of ours, its run is not known, or a sheet
    cannot be read.
    """
    kept = Folder(folder)
    content = file.read_bytes() if file.is_file() else b""
    read = read_edits(file, content) if content else None
    found = archive.result_of(kept, read.run_id) if read else None
    if read is None or found is None:
        raise NotReconciled(
            f"{file.name} is no workbook of a run that this folder knows. Nothing was verified."
        )
    try:
        held = verification.compare_workbook(kept, content, found, read.written)
    except python_calamine.CalamineError as error:
        raise NotReconciled(
            f"A sheet of {file.name} cannot be read ({error}): it is damaged. Nothing was "
            "verified. Take the workbook from where it was written, or from the backup."
        ) from error
    signed = tuple(signoff.valid(kept, found["digest"]).values())
    return VerifyResult(file, read.run_id, held.differences, held.compared, held.uncompared, signed)


def ops_rows(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Rows for `ops.breaks`, `ops.annotations` and `ops.signoffs` (see `tables`)."""
    return published.rows(Folder(folder))
