"""The monthly close, which writes the pack, locks the days and deletes archived ledgers."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from warehouse.contract.model import and_more, count_of
from warehouse.reconcile.close import pack
from warehouse.reconcile.close.month import (
    UNRECONCILED,
    Month,
    books,
    closing_basis,
    first_and_last,
    month_changes,
    read_month,
)
from warehouse.reconcile.model import AGE_BANDS, NEEDS_SECOND, Closing, count_ages, to_json
from warehouse.reconcile.record import annotations
from warehouse.reconcile.record.archive import archived_path
from warehouse.reconcile.record.record import Record, pack_problem, packs
from warehouse.reconcile.record.views import ledgers_by_day
from warehouse.reconcile.settings.config import CloseSettings, read_config
from warehouse.reconcile.terms import NotClosed, NotReconciled
from warehouse.reconcile.workbook import edits
from warehouse.reconcile.workbook.content import WORDING
from warehouse.reconcile.workbook.sign_off import describe_unshown, unshown, with_signatures
from warehouse.reconcile.workbook.strays import stray_notices
from warehouse.reconcile.workbook.verify import verify_workbook
from warehouse.storage.layout import json_bytes, write_bytes

_NAMED = 5  # maximum number of workbooks to list in a message


def remove_archived_ledgers(record: Record, today: date, keep_days: int) -> None:
    """Delete archived ledgers that are in a pack and were not used in the last `keep_days` days."""
    old = {
        sha256
        for sha256, day in ledgers_by_day(record).items()
        if (today - day).days > keep_days and archived_path(record, sha256).is_file()
    }
    for closing in record.closings if old else ():
        if not pack_problem(record, closing):
            with zipfile.ZipFile(packs(record) / closing.pack) as names:
                packed = pack.read_manifest(names).ledgers.values()
            for sha256 in old & set(packed):
                archived_path(record, sha256).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSummary:
    """The result of closing a month: the pack, and a list of missing and unfinished items.

    If nothing changed since the last version, `is_new` is false and `closing` is that version.
    """

    closing: Closing
    pack: Path
    listed: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    is_new: bool = False

    @property
    def index(self) -> Path:
        """The path of the pack's index page, which is next to the pack."""
        return self.pack.with_suffix(".html")


def close(
    database: Path, folder: Path, name: str, *, who: str, now: datetime, program_version: str
) -> CloseSummary:
    """Write a month's pack and lock its days. If the process is killed, run the close again.

    Raises `NotReconciled` if no day can be closed, and `NotClosed` if a person must settle
    something first.
    """
    record = Record(folder)
    settings = read_config(record.config).close
    if refusal := settings.why_not_close(who):
        raise NotClosed(
            f"{name[:40]} was not closed: {refusal}. Nothing was written. Ask the "
            f"{settings.closing_role} to close the month."
        )
    _store_new_edits(record, settings)
    first, last = first_and_last(name)
    month = read_month(record, name, books(database, first, last), now.date())
    basis = closing_basis(record, month)
    if month.closing is not None and month.closing.basis == basis:
        return _existing_version(record, month.closing)
    _check_demands(record, month, settings)
    facts = _facts(record, month, who=who, at=now.isoformat(), program=program_version)
    path = packs(record) / pack.pack_name(month.name, facts.version)
    page = pack.index_page(record, month, facts, _archived_ledgers(record, month))
    sha256, size = pack.write_pack(path, facts, _members(record, month, facts, page))
    write_bytes(path.with_suffix(".html"), page)
    # Store the closing last. If the process is killed before this point, the days stay open, and
    # the next close rewrites the same version.
    closing = Closing(
        month=month.name,
        version=facts.version,
        through=month.through,
        days=month.closed_days,
        who=who,
        at=facts.at,
        why="; ".join(facts.changes) or "first version",
        basis=basis,
        pack=path.name,
        sha256=sha256,
        size=size,
    )
    record.closings.add(closing)
    remove_archived_ledgers(record, now.date(), settings.keep_days)
    listed = tuple(_open_points(month, facts))
    return CloseSummary(
        closing=closing, pack=path, listed=listed, changes=facts.changes, is_new=True
    )


def _store_new_edits(record: Record, settings: CloseSettings) -> None:
    """Read comments and signatures added since the last run, so that the pack includes them."""
    workbooks, _ = edits.find_workbooks(record.out, record.inbox, record.known_workbooks())
    if workbooks and record.days():
        day = record.days()[-1]
        annotations.store_edits(record, workbooks, day, settings, notices_of=stray_notices)


def _existing_version(record: Record, closing: Closing) -> CloseSummary:
    """Return the summary of an existing pack. Raises `NotClosed` if the pack's file is damaged."""
    path = packs(record) / closing.pack
    if problem := pack_problem(record, closing):
        raise NotClosed(
            f"{closing.month} is already closed and nothing has changed since then, but {problem}. "
            f"Restore {path} from the backup. Nothing was written."
        )
    return CloseSummary(closing=closing, pack=path)


def _archived_ledgers(record: Record, month: Month) -> frozenset[str]:
    """Return the digests of the month's ledgers that are still in the archive."""
    digests = pack.ledger_names(record, month)
    return frozenset(digest for digest in digests if archived_path(record, digest).is_file())


def _facts(record: Record, month: Month, *, who: str, at: str, program: str) -> pack.PackFacts:
    return pack.PackFacts(
        month=month.name,
        version=month.closing.version + 1 if month.closing else 1,
        first=month.first,
        through=month.through,
        who=who,
        at=at,
        program=program,
        books={str(day.day): day.snapshot_id for day in month.days if day.snapshot_id},
        changes=tuple(month_changes(record, month)),
        missing=tuple(_missing(record, month)),
        wording=WORDING,
    )


def _members(
    record: Record, month: Month, facts: pack.PackFacts, page: bytes
) -> Iterator[pack.PackMember]:
    yield pack.PackMember(pack.INDEX, page)
    yield pack.PackMember(pack.FACTS, json_bytes(to_json(facts)))
    yield pack.PackMember(pack.TRAIL, pack.trail_table(record, month))
    yield from pack.evidence(record, month)


def _missing(record: Record, month: Month) -> Iterator[str]:
    """Yield the signatures and files that are missing from the pack."""
    yield from _missing_signatures(record, month)
    for result in month.results:
        for path in record.day_files(result.day):
            if not path.is_file():
                yield f"{path.name}, which is missing from out/{result.day}"
        for source in result.sources:
            if not archived_path(record, source.sha256).is_file():
                yield f"the ledger {source.name} for {result.day}, SHA-256 {source.sha256}"
    for sha256 in dict.fromkeys(day.settings for day in month.closed_days):
        if not archived_path(record, sha256).is_file():
            yield f"recon.toml with SHA-256 {sha256}, which was not archived"


def _missing_signatures(record: Record, month: Month) -> Iterator[str]:
    """Yield a message for each signature that cannot be written into its day's workbook."""
    for day in month.days:
        workbook = record.day_files(day.day).workbook
        if day.signatures and workbook.is_file():
            content = with_signatures(workbook.read_bytes(), day.signatures)
            for signature in unshown(content, day.signatures):
                yield describe_unshown(workbook, signature)


def _check_demands(record: Record, month: Month, settings: CloseSettings) -> None:
    """Raise `NotClosed` if a requirement in recon.toml is not met, or a workbook was changed."""
    if problems := list(_unmet_demands(month, settings)):
        raise NotClosed(
            f"{month.name} was not closed, because it does not meet the requirements under [close] "
            f"in recon.toml: {'; '.join(problems)}. Nothing was written."
        )
    last = month.results[-1]
    if waiting := [item.id for item in last.unsolved_breaks if item.status == NEEDS_SECOND]:
        raise NotClosed(
            f"{month.name} was not closed, because on {last.day} a second person must accept "
            f"{count_of(len(waiting), 'break')}: {and_more(waiting, _NAMED)}. A different person "
            "sets the status in the newest workbook. Then run `nightbook reconcile "
            f"run{record.option}`, and close the month. Nothing was written."
        )
    if changed := list(_changed_workbooks(record, month)):
        raise NotClosed(
            f"{month.name} was not closed, because its stored results differ from "
            f"{count_of(len(changed), 'workbook')}: {and_more(changed, _NAMED, '; ')}. Restore "
            "each workbook from the backup, or move it out of the folder and rerun that day: "
            f"nightbook reconcile run{record.option} --as-of DAY (with --restate WHY if the day is "
            "closed). Nothing was written."
        )


def _unmet_demands(month: Month, settings: CloseSettings) -> Iterator[str]:
    """Yield the requirements in recon.toml that a month does not meet."""
    unsigned, last = month.in_state("unsigned", "nothing compared"), month.results[-1]
    unreconciled = [f"{day.day} ({day.state})" for day in month.days if day.state in UNRECONCILED]
    if settings.unreconciled == "refuse" and unreconciled:
        days = count_of(len(unreconciled), "day")
        yield f"{days} (of {len(month.days)}) without a reconciliation: {', '.join(unreconciled)}"
    if settings.unsigned == "refuse" and unsigned:
        yield f"days without both signatures (preparer and reviewer): {', '.join(unsigned)}"
    if settings.open_breaks == "refuse" and last.unsolved_breaks:
        yield f"{count_of(len(last.unsolved_breaks), 'open break')} on {last.day}"
    signatures = next(day.signatures for day in month.days if day.result is last)
    if settings.needs_approver and "approver" not in signatures:
        yield (
            f"{last.day} is not signed by an approver (to sign it, run nightbook reconcile sign "
            f"--role approver --as-of {last.day})"
        )


def _changed_workbooks(record: Record, month: Month) -> Iterator[str]:
    """Yield each workbook that differs from its stored result, with its differences."""
    for result in month.results:
        path = record.day_files(result.day).workbook
        if not path.is_file():  # `_missing` reports missing workbooks.
            continue
        try:
            checked = verify_workbook(record, path)
            differences = checked.differences
            if checked.run_id != result.run_id:
                latest = f"but the day's latest run is {result.run_id}"
                differences = (f"the workbook shows run {checked.run_id}, {latest}",)
        except NotReconciled as error:
            differences = (str(error),)
        if differences:
            yield f"{path.name}: {and_more(differences, 2, '; ')}"


def _open_points(month: Month, facts: pack.PackFacts) -> Iterator[str]:
    """Yield the month's unfinished and missing items, worded as in the pack."""
    phrases = {
        "unsigned": "not signed",
        "no ledger": "without a ledger",
        "no book": "without a book",
        "nothing compared": "on which nothing was compared",
    }
    for state, phrase in phrases.items():
        if days := month.in_state(state):
            yield f"{count_of(len(days), 'day')} {phrase}: {', '.join(days)}"
    last = month.results[-1]
    if unsolved := last.unsolved_breaks:
        bands = zip(AGE_BANDS, count_ages(unsolved, last.day), strict=True)
        by_age = ", ".join(f"{label}: {count}" for (label, _, _), count in bands if count)
        yield f"{count_of(len(unsolved), 'open break')} on {last.day} ({by_age})"
    yield from (f"not in the pack: {missing}" for missing in facts.missing)
