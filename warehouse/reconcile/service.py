"""The reconciliation as commands see it: init, run, status, history, sign, verify.

`folder` is `<home>/reconcile`, `database` the published warehouse. Times and pauses are given.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from warehouse.reconcile.book import open_book
from warehouse.reconcile.close.month import closing_of, restating
from warehouse.reconcile.model import Break, RunResult, Signature
from warehouse.reconcile.record import signatures
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.views import break_history
from warehouse.reconcile.run import (
    RunInputs,
    RunSummary,
    for_large_tables,
    reconcile_day,
    summary_of,
)
from warehouse.reconcile.settings.config import TEMPLATE, read_config
from warehouse.reconcile.terms import NotReconciled
from warehouse.reconcile.workbook import ledgers
from warehouse.reconcile.workbook.verify import VerifyResult, verify_workbook
from warehouse.storage.layout import written_aside


@dataclass(frozen=True, slots=True)
class InitFiles:
    """What `init` wrote; files that were there are left as they are."""

    files: tuple[Path, ...]
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How the newest result, or that of a day, stands, with its breaks and signatures.

    `rejected` are the rows of the ledgers that could not be used, `unread` is what nobody decided
    about, `closing` how its month was closed; `extent` says how many positions of the book were
    compared, `coverage` at which level, and what was not used.
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
    extent: str = ""
    unread: tuple[str, ...] = ()
    coverage: str = ""
    closing: str = ""


def init(database: Path, folder: Path) -> InitFiles:
    """Write recon.toml and a ledger template with the keys of the newest book.

    Raises `FileNotFoundError` where no warehouse is published.
    """
    record = Record(folder)
    record.make()
    path = folder / "ledger_template.xlsx"
    files = [path]
    with open_book(database, None) as source:
        keys = ledgers.write_template(source, path)
    if not record.config.exists():
        with written_aside(record.config) as file:
            file.write(TEMPLATE.encode())
        files.append(record.config)
    return InitFiles(tuple(files), keys)


def rehearse(
    database: Path, folder: Path, *, first: date | None = None
) -> tuple[Path, tuple[str, ...]]:
    """Write a ledger of the newest book with errors planted into the inbox; return the errors.

    `first` is the day of the first such ledger, if there were others: its errors go on, or are
    mended, or come back.
    """
    record = Record(folder)
    record.make()
    with open_book(database, first) as source:
        planted = ledgers.plant(source)
    with open_book(database, None) as source:
        path = record.inbox / f"ledger-{source.day}.xlsx"
        night = (source.day - (first or source.day)).days
        return path, ledgers.write_sample(source, path, planted, night)


def run(
    database: Path,
    folder: Path,
    *,
    as_of: date | None = None,
    program_version: str,
    now: datetime,
    pause: Callable[[], None] = lambda: time.sleep(0.2),
    by: str = "",
    restate: str = "",
) -> RunSummary:
    """Read what people wrote, hold the inbox's ledgers against the book, write the workbook.

    `by` is who runs it; `restate` says why a day of a closed month is run again.

    Raises `DayClosed` (exit code 3) where that is not said, `Ambiguous` (3) where a person must
    settle something, `NotReconciled` (2) where an input cannot be used, `NotExported` where there
    is no such book.
    """
    record = Record(folder)
    record.make()
    config = read_config(record.config)
    with for_large_tables(), open_book(database, as_of) as source:
        inputs = RunInputs(
            program_version,
            now,
            pause,
            by=by,
            before_writing=restating(
                record, source.day, config.close, who=by, why=restate, now=now
            ),
        )
        left = reconcile_day(source, record, config, inputs)
    return summary_of(source.day, left)


def _result_of_day(record: Record, day: date | None) -> RunResult:
    days = record.days()
    wanted = day or (days[-1] if days else None)
    result = record.result(wanted) if wanted else None
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
    record = Record(folder)
    result = _result_of_day(record, day)
    closing = closing_of(record, result.day)
    return Standing(
        day=result.day,
        run_id=result.run_id,
        digest=result.digest,
        counts=result.counts,
        breaks=result.breaks,
        rejected=result.rejected,
        signatures=tuple(signatures.valid(record, result.digest).values()),
        void=signatures.why_void(record, result.day, result.digest, result.breaks, result.ties),
        exit_code=result.exit_code,
        extent=result.extent,
        unread=tuple(f"{item.name}: {item.reason}" for item in result.unread),
        coverage=result.coverage.words if result.coverage else "",
        closing=closing.words if closing else "",
    )


def history(folder: Path, break_id: str) -> tuple[dict[str, Any], ...]:
    """Return every day of a break, all that was written about it and who signed it, oldest first.

    Raises `NotReconciled` where nothing is known of it.
    """
    return break_history(Record(folder), break_id)


def sign(
    folder: Path,
    *,
    role: str,
    who: str,
    comment: str = "",
    day: date | None = None,
    now: datetime,
    entered_by: str = "",
) -> Signature:
    """Sign the newest result, or that of a day; `entered_by` is who types it.

    Raises `NotReconciled` where the role is not that person's, the same person signed in another
    one, or there is no result.
    """
    record = Record(folder)
    settings = read_config(record.config).close
    signing = signatures.Signing(
        role=role, who=who, comment=comment, at=now, entered_by=entered_by or who
    )
    return signatures.sign(record, _result_of_day(record, day), signing, settings)


def verify(folder: Path, file: Path) -> VerifyResult:
    """Hold names, results and exact figures of a workbook against the stored result.

    Raises `NotReconciled` where the file is no workbook of ours, its run is not known, or a sheet
    cannot be read.
    """
    record = Record(folder)
    checked = verify_workbook(record, file)
    valid = signatures.valid(record, checked.digest)
    return replace(checked, signatures=tuple(valid.values()))
