"""The functions that commands call: init, rehearse, preview, settle, run, status, sign, verify.

`folder` is `<home>/reconcile`, and `database` is the published warehouse. Callers pass the time.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from warehouse.query.book import book as open_book
from warehouse.reconcile import book, movement
from warehouse.reconcile.close.month import closing_of, restating
from warehouse.reconcile.match.inputs import MatchInputs
from warehouse.reconcile.match.sides import scope_of
from warehouse.reconcile.model import Closing, Run, Signature, SignatureCells
from warehouse.reconcile.preview import Preview, preview_file
from warehouse.reconcile.record import signatures
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.views import break_history
from warehouse.reconcile.run import (
    RunFiles,
    RunInputs,
    for_large_tables,
    reading_context,
    reconcile_day,
)
from warehouse.reconcile.settings.config import TEMPLATE, parse_config, read_config
from warehouse.reconcile.terms import NotReconciled
from warehouse.reconcile.workbook import ledgers
from warehouse.reconcile.workbook.sign_off import with_signatures
from warehouse.reconcile.workbook.verify import VerifyResult, verify_workbook
from warehouse.storage.layout import write_bytes


@dataclass(frozen=True, slots=True)
class InitFiles:
    """The files written by `init`, and the number of keys in the template."""

    files: tuple[Path, ...]
    keys: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """A stored run with its valid signatures by role, and the closing of its month.

    `void` is the reason why the last signature is no longer valid. It is empty if the signature is
    valid.
    """

    run: Run
    signatures: tuple[Signature, ...]
    void: str
    closing: Closing | None


def init(database: Path, folder: Path) -> InitFiles:
    """Write a ledger template with the newest book's keys, and recon.toml if it does not exist.

    Raises `FileNotFoundError` if no warehouse is published.
    """
    record = Record(folder)
    record.make()
    path = folder / "ledger_template.xlsx"
    files = [path]
    with open_book(database, None, ()) as source:
        keys = ledgers.write_template(source, path)
    if not record.config.exists():
        write_bytes(record.config, TEMPLATE.encode())
        files.append(record.config)
    return InitFiles(tuple(files), keys)


def rehearse(
    database: Path, folder: Path, *, first: date | None = None
) -> tuple[Path, tuple[str, ...]]:
    """Write a ledger for the newest book into the inbox, with planted errors. Return the errors.

    `first` is the day of the first such ledger, if this is not the first one. The errors depend on
    the night: some stay, some are corrected, and some return.
    """
    record = Record(folder)
    record.make()
    with open_book(database, first, ()) as source:
        planted = ledgers.plant(source)
    with open_book(database, None, ()) as source:
        path = record.inbox / f"ledger-{source.day}.xlsx"
        night = (source.day - (first or source.day)).days
        return path, ledgers.write_sample(source, path, planted, night)


def preview(database: Path, folder: Path, file: Path) -> Preview:
    """Read a file in the same way as a run for the newest book, but do not store anything.

    Raises `NotReconciled` if the file cannot be opened or covers a name that the book does not
    have, and `NotExported` if there is no book.
    """
    record = Record(folder)
    config = read_config(record.config)
    with open_book(database, None, ()) as source:
        reference = book.read_reference(source, config)
        context = reading_context(record, config, reference, source.day)
        given = partial(MatchInputs, source=source, config=config, reference=reference)
        return preview_file(file, context, lambda ledger: scope_of(given(ledger=ledger)))


def settle(folder: Path, lines: str) -> None:
    """Append lines to recon.toml.

    Raises `NotReconciled`, and writes nothing, if the file would be invalid with these lines.
    """
    record = Record(folder)
    record.make()
    before = record.config.read_text(encoding="utf-8") if record.config.exists() else TEMPLATE
    content = f"{before.rstrip()}\n\n{lines.strip()}\n".encode()
    parse_config(content, record.config)
    write_bytes(record.config, content)


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
    since: date | None = None,
) -> RunFiles:
    """Read edited workbooks, compare the inbox ledgers with the book, and write the workbook.

    `by` is the user who runs it. `restate` is the reason for rerunning a day in a closed month. In
    the folder of movements, nightbook writes the ledger, from the book on or before `since`.

    Raises `DayClosed` (exit code 3) if that reason is missing, `Ambiguous` (3) if a person must
    settle something, `NotReconciled` (2) if an input cannot be used, and `NotExported` if there is
    no such book.
    """
    record = Record(folder)
    with for_large_tables(), open_book(database, as_of, ()) as source:
        moved = movement.read_movement(source, record, since) if record.option else None
        movement.prepare_folder(record) if moved else record.make()
        config = read_config(record.config)
        restatement = restating(record, source.day, config.close, who=by, why=restate, now=now)
        if moved:
            movement.write_ledger(source, record, moved)
        inputs = RunInputs(
            program_version, now, pause, by=by, restatement=restatement, movement=moved
        )
        return reconcile_day(source, record, config, inputs)


def _run_of_day(record: Record, day: date | None) -> Run:
    days = record.days()
    wanted = day or (days[-1] if days else None)
    result = record.result(wanted) if wanted else None
    if result is None:
        raise NotReconciled(
            f"No result exists for {wanted or 'any day'} yet. Put a ledger into the inbox and run "
            f"`nightbook reconcile run{record.option}`. Nothing was changed."
        )
    return result


def status(folder: Path, *, day: date | None = None) -> RunStatus:
    """Return the status of the latest result, or of the result for the given day.

    Raises `NotReconciled` if there is no result.
    """
    record = Record(folder)
    result = _run_of_day(record, day)
    return RunStatus(
        run=result,
        signatures=tuple(signatures.valid(record, result.digest).values()),
        void=signatures.why_void(record, result),
        closing=closing_of(record, result.day),
    )


def history(folder: Path, break_id: str) -> tuple[dict[str, Any], ...]:
    """Return a break's days, comments and signatures, oldest first.

    Raises `NotReconciled` if no break ever had this ID.
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
    """Sign a day's result or the latest one. `entered_by` is the user who enters the signature.

    The workbook in `out/` also shows the signature, unless somebody has changed the workbook.

    Raises `NotReconciled` if there is no result, the person does not have the role, or the person
    has signed in another role.
    """
    record = Record(folder)
    settings = read_config(record.config).close
    run = _run_of_day(record, day)
    signature = signatures.sign(
        record,
        run,
        settings,
        SignatureCells(role, who, comment),
        at=now,
        entered_by=entered_by or who,
    )
    _show_signatures(record, run)
    return signature


def _show_signatures(record: Record, run: Run) -> None:
    """Add the valid signatures to a day's workbook, if nobody has edited it since nightbook did."""
    workbook = record.day_files(run.day).workbook
    before = workbook.read_bytes() if workbook.is_file() else b""
    if hashlib.sha256(before).hexdigest() not in record.known_workbooks():
        return
    content = with_signatures(before, signatures.valid(record, run.digest))
    if content != before:
        # Mark the new file as read first, so that its signatures are not entered a second time.
        record.add_workbooks([hashlib.sha256(content).hexdigest()])
        write_bytes(workbook, content)


def verify(folder: Path, file: Path) -> VerifyResult:
    """Compare a workbook's names, results and exact figures with the stored result.

    Raises `NotReconciled` if the file is not one of our workbooks, its run is unknown, or a sheet
    cannot be read.
    """
    record = Record(folder)
    checked = verify_workbook(record, file)
    valid = signatures.valid(record, checked.digest)
    run = record.result_of(checked.run_id)
    latest = record.result(run.day) if run else None
    uncompared = checked.uncompared
    if latest and latest.digest != checked.digest:
        words = f"this is an earlier result of {latest.day}, which run {latest.run_id} replaced, "
        uncompared = (*uncompared, f"{words}so its signatures do not count")
    return replace(checked, uncompared=uncompared, signatures=tuple(valid.values()))
