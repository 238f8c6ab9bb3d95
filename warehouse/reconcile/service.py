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
from warehouse.reconcile import reconciliation
from warehouse.reconcile.comments import signoff
from warehouse.reconcile.comments.annotations import entries_about
from warehouse.reconcile.comments.edits import read_edits
from warehouse.reconcile.ledger.coverage import totals
from warehouse.reconcile.ledger.model import Unused
from warehouse.reconcile.settings.config import TEMPLATE, read_config
from warehouse.reconcile.store.records import (
    OPEN_BREAKS,
    TIED,
    Break,
    RunResult,
    Signature,
    breaks_by_id,
    to_json,
)
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.errors import NotReconciled
from warehouse.reconcile.terms.notices import Notice
from warehouse.reconcile.workbook import sample_ledger, template
from warehouse.reconcile.workbook.readback.verification import VerifyResult, compare_workbook
from warehouse.storage.layout import written_aside


@dataclass(frozen=True, slots=True)
class InitFiles:
    """What `init` wrote; files that were there are left as they are."""

    files: tuple[Path, ...]
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """What a run came to: `exit_code` is 0 where all ties or is accepted, 3 where breaks are open.

    A run without a ledger has no `run_id` and says so in `notices`.
    """

    day: date
    run_id: str = ""
    digest: str = ""
    counts: Mapping[str, int]
    open_breaks: int = 0
    breaks: int = 0
    rejected: int = 0
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
        return (
            f"{self.day}: {count_of(keys, 'key')}, {self.counts['Matched']} exact, "
            f"{self.counts['Within tolerance']} within tolerance, {count_of(self.breaks, 'break')} "
            f"({self.open_breaks} open), {count_of(self.rejected, 'row')} rejected. Compared at "
            f"{self.level}; not used: {totals(self.unused) or 'nothing'}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the newest result, or that of a day, stands, with its breaks and signatures.

    `rejected` are the rows of the ledgers that could not be used, `unread` is what nobody decided
    about, and `coverage` says at which level was compared and what was not used.
    """

    day: date
    run_id: str
    digest: str
    counts: Mapping[str, int]
    breaks: tuple[Break, ...]
    rejected: int
    signatures: tuple[Signature, ...]
    void: str
    exit_code: int
    unread: tuple[str, ...] = ()
    coverage: str = ""


def init(database: Path, folder: Path) -> InitFiles:
    """Write recon.toml and a ledger template with the keys of the newest book.

    Raises `FileNotFoundError` where no warehouse is published.
    """
    store = Store(folder)
    store.make()
    path = folder / "ledger_template.xlsx"
    files = [path]
    with book(database, None, ()) as source:
        keys = template.write(source, path)
    if not store.config.exists():
        with written_aside(store.config) as file:
            file.write(TEMPLATE.encode())
        files.append(store.config)
    return InitFiles(tuple(files), keys)


def rehearse(database: Path, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Write a ledger of the newest book with errors planted into the inbox; return the errors."""
    store = Store(folder)
    store.make()
    with book(database, None, ()) as source:
        path = store.inbox / f"ledger-{source.day}.xlsx"
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
    store = Store(folder)
    store.make()
    config = read_config(store.config)
    inputs = reconciliation.RunInputs(program_version, now, pause)
    with book(database, as_of, ()) as source:
        left = reconciliation.run(source, store, config, inputs)
    result = left.result
    if result is None:
        is_quiet = all(item.severity == "low" for item in left.unused)
        return RunSummary(
            day=source.day,
            counts={},
            files=(),
            notices=left.notices,
            exit_code=TIED if is_quiet else OPEN_BREAKS,
            unused=left.unused,
        )
    return RunSummary(
        day=source.day,
        run_id=result.run_id,
        digest=result.digest,
        counts=result.counts,
        open_breaks=result.open_breaks,
        breaks=len(result.breaks),
        rejected=result.rejected,
        files=left.files,
        notices=left.notices,
        exit_code=result.exit_code,
        unused=left.unused,
        level=result.coverage.level if result.coverage else "",
    )


def _result_of_day(store: Store, day: date | None) -> RunResult:
    days = store.days()
    wanted = day or (days[-1] if days else None)
    result = store.result(wanted) if wanted else None
    if result is None:
        raise NotReconciled(
            f"There is no result of {wanted or 'any day'} yet. Put a ledger into the inbox and run "
            "`nightbook reconcile run`. Nothing was changed."
        )
    return result


def status(folder: Path, *, day: date | None = None) -> Standing:
    """Return how the newest result stands, or that of a day.

    Raises `NotReconciled` where there is none.
    """
    store = Store(folder)
    result = _result_of_day(store, day)
    return Standing(
        day=result.day,
        run_id=result.run_id,
        digest=result.digest,
        counts=result.counts,
        breaks=result.breaks,
        rejected=result.rejected,
        signatures=tuple(signoff.valid(store, result.digest).values()),
        void=signoff.why_void(store, result.day, result.digest, result.breaks, result.ties),
        exit_code=result.exit_code,
        unread=tuple(f"{item.name}: {item.reason}" for item in result.unread),
        coverage=result.coverage.words if result.coverage else "",
    )


def history(folder: Path, break_id: str) -> tuple[dict[str, Any], ...]:
    """Return every day of a break, all that was written about it and who signed it, oldest first.

    Raises `NotReconciled` where nothing is known of it.
    """
    store = Store(folder)
    lines: list[dict[str, Any]] = []
    for day in store.days():
        break_ = breaks_by_id(store.result(day)).get(break_id)
        if break_:
            lines.append({"at": day.isoformat(), "kind": "break", **to_json(break_)})
    days = {line["at"] for line in lines}
    lines += entries_about(store, break_id)
    lines += [
        {"kind": "signed", "at": signature.at, "words": signature.words}
        for signature in store.signatures
        if signature.day.isoformat() in days
    ]
    if not lines:
        raise NotReconciled(
            f"{break_id!r} is no break that was ever seen; `nightbook reconcile status` lists "
            "those of today. Nothing was changed."
        )
    return tuple(sorted(lines, key=lambda line: (line["at"], line["kind"])))


def sign(
    folder: Path, *, role: str, who: str, comment: str = "", day: date | None = None, now: datetime
) -> Signature:
    """Sign the newest result, or that of a day, as preparer or reviewer.

    Raises `NotReconciled` where both would be the same person or there is no result.
    """
    store = Store(folder)
    result = _result_of_day(store, day)
    return signoff.sign(store, result, role=role, who=who, comment=comment, at=now)


def verify(folder: Path, file: Path) -> VerifyResult:
    """Hold names, results and exact figures of a workbook against the stored result.

    Raises `NotReconciled` where the file is no workbook of ours, its run is not known, or a sheet
    cannot be read.
    """
    store = Store(folder)
    content = file.read_bytes() if file.is_file() else b""
    edits = read_edits(file, content) if content else None
    result = store.result_of(edits.run_id) if edits else None
    if edits is None or result is None:
        raise NotReconciled(
            f"{file.name} is no workbook of a run that this folder knows. Nothing was verified."
        )
    try:
        return compare_workbook(store, file, content, result, edits.written)
    except python_calamine.CalamineError as error:
        raise NotReconciled(
            f"A sheet of {file.name} cannot be read ({error}): it is damaged. Nothing was "
            "verified. Take the workbook from where it was written, or from the backup."
        ) from error
