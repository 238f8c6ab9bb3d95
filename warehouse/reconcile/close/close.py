"""The packs that there are: whether each is as it was written, and which ledgers they stand for."""

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
from warehouse.reconcile.close.pack import index_page
from warehouse.reconcile.model import AGE_BANDS, Closing, count_ages, to_json
from warehouse.reconcile.record import annotations
from warehouse.reconcile.record.archive import archived_path
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.views import ledgers_by_day
from warehouse.reconcile.settings.config import CloseSettings, read_config
from warehouse.reconcile.terms import NotClosed, NotReconciled
from warehouse.reconcile.workbook import edits
from warehouse.reconcile.workbook.content import WORDING
from warehouse.reconcile.workbook.sign_off import unshown, unshown_words, with_signatures
from warehouse.reconcile.workbook.verify import stray_notices, verify_workbook
from warehouse.storage.layout import digest_of, json_bytes, written_aside


def packs(record: Record) -> Path:
    """Return the folder of all packs."""
    return record.root / "packs"


def pack_problem(record: Record, closing: Closing) -> str:
    """Return what is wrong with the file of a pack; nothing where it is as it was written."""
    path = packs(record) / closing.pack
    if not path.is_file():
        return f"its pack {closing.pack} is not there"
    is_same = path.stat().st_size == closing.size and digest_of(path) == closing.sha256
    return "" if is_same else f"its pack {closing.pack} is not as it was written"


@dataclass(frozen=True, slots=True)
class PackDamage:
    """What is wrong with the packs of a closed month, and what to do."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}"


def damaged_packs(folder: Path) -> list[PackDamage]:
    """Return what is wrong with the packs of closed months: nothing where all are as written."""
    record = Record(folder)
    return [
        PackDamage(
            f"{item.month}, version {item.version}: {problem}",
            f"restore {packs(record)} from the backup",
        )
        for item in record.closings
        if (problem := pack_problem(record, item))
    ]


def remove_archived_ledgers(record: Record, today: date, keep_days: int) -> None:
    """Remove the kept ledgers that no day read since so many days, if a whole pack has them."""
    days = ledgers_by_day(record)
    old = {sha256: day for sha256, day in days.items() if (today - day).days > keep_days}
    old = {sha256: day for sha256, day in old.items() if archived_path(record, sha256).is_file()}
    for closing in record.closings if old else ():
        if pack_problem(record, closing):
            continue
        with zipfile.ZipFile(packs(record) / closing.pack) as names:
            manifest = pack.read_manifest(names.read(pack.MANIFEST))
        for sha256 in old.keys() & set(pack.ledgers_among(manifest).values()):
            archived_path(record, sha256).unlink(missing_ok=True)


_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseInputs:
    """Who closes which month, when, and with which nightbook."""

    month: str
    who: str
    now: datetime
    program_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseSummary:
    """What a close came to: the pack, and all that it lists as not there or not done.

    It is not `is_new` where nothing changed since the last version; then that one is named.
    """

    closing: Closing
    pack: Path
    index: Path
    listed: tuple[str, ...]
    changes: tuple[str, ...]
    is_new: bool


def close(database: Path, folder: Path, inputs: CloseInputs) -> CloseSummary:
    """Write the pack of a month and lock its days; killed at any instant it can be run again.

    Raises `NotReconciled` where there is nothing to close, `NotClosed` where a person must settle
    something first.
    """
    record = Record(folder)
    settings = read_config(record.config).close
    _require_role(settings, inputs)
    _read_what_people_wrote(record, settings)
    first, last = first_and_last(inputs.month)
    month = read_month(record, inputs.month, books(database, first, last), inputs.now.date())
    basis = closing_basis(record, month)
    if month.closing is not None and month.closing.basis == basis:
        return _existing_version(record, month, month.closing)
    _require_answers(record, month, settings)
    facts = _facts(record, month, inputs)
    path = packs(record) / pack.pack_name(month.name, facts.version)
    page = index_page(record, month, facts, _archived_ledgers(record, month))
    sha256, size = pack.write_pack(path, facts, _members(record, month, facts, page))
    index = path.with_suffix(".html")
    with written_aside(index) as file:
        file.write(page)
    # The record is last: without it the days are open, and the same version is written once more.
    closing = Closing(
        month=month.name,
        version=facts.version,
        through=month.through,
        days=month.closed_days,
        who=inputs.who,
        at=inputs.now.isoformat(),
        why="; ".join(facts.changes) or "first version",
        basis=basis,
        pack=path.name,
        sha256=sha256,
        size=size,
    )
    record.closings.add(closing)
    remove_archived_ledgers(record, inputs.now.date(), settings.keep_days)
    return CloseSummary(
        closing=closing,
        pack=path,
        index=index,
        listed=tuple(_open_points(month, facts)),
        changes=facts.changes,
        is_new=True,
    )


def _require_role(settings: CloseSettings, inputs: CloseInputs) -> None:
    """Raise `NotClosed` if a person may not close a month."""
    if refusal := settings.why_not_close(inputs.who):
        raise NotClosed(
            f"{inputs.month[:40]} was not closed: {refusal}. Nothing was written. Let the "
            f"{settings.closing_role} close it."
        )


def _archived_ledgers(record: Record, month: Month) -> frozenset[str]:
    """Return the digests of the ledgers of a month that the archive still has."""
    digests = pack.ledger_names(record, month)
    return frozenset(digest for digest in digests if archived_path(record, digest).is_file())


def _read_what_people_wrote(record: Record, settings: CloseSettings) -> None:
    """Take comments and signatures since the last run, so that no pack is without them."""
    workbooks, _ = edits.find_workbooks(record.out, record.inbox, record.known_workbooks())
    if workbooks and record.days():
        day = record.days()[-1]
        annotations.read_comments(record, workbooks, day, settings, notices_of=stray_notices)


def _existing_version(record: Record, month: Month, closing: Closing) -> CloseSummary:
    """Return the version that there is; raises `NotClosed` where its file is not as it was."""
    path = packs(record) / closing.pack
    if problem := pack_problem(record, closing):
        raise NotClosed(
            f"{month.name} is closed already and nothing changed since, but {problem}. Restore "
            f"{path} from the backup. Nothing was written."
        )
    return CloseSummary(
        closing=closing,
        pack=path,
        index=path.with_suffix(".html"),
        listed=(),
        changes=(),
        is_new=False,
    )


def _facts(record: Record, month: Month, inputs: CloseInputs) -> pack.PackFacts:
    return pack.PackFacts(
        month=month.name,
        version=month.closing.version + 1 if month.closing else 1,
        first=month.first,
        through=month.through,
        who=inputs.who,
        at=inputs.now.isoformat(),
        program=inputs.program_version,
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
    trail = pack.trail_table(record, month.first, month.through)
    yield pack.PackMember(pack.TRAIL, trail)
    yield from pack.evidence(record, month)


def _missing(record: Record, month: Month) -> Iterator[str]:
    """Yield what should be in the pack and is not there."""
    yield from _missing_signatures(record, month)
    for result in month.results:
        for path in record.day_files(result.day):
            if not path.is_file():
                yield f"{path.name} is not in out/{result.day}"
        for source in result.sources:
            if not archived_path(record, source.sha256).is_file():
                yield f"the ledger {source.name} of {result.day}, SHA-256 {source.sha256}"
    for sha256 in dict.fromkeys(day.settings for day in month.closed_days):
        if not sha256 or not archived_path(record, sha256).is_file():
            yield f"recon.toml with SHA-256 {sha256 or 'unknown'}, which was not kept"


def _missing_signatures(record: Record, month: Month) -> Iterator[str]:
    """Yield the signatures that a workbook has no row for."""
    for day in month.days:
        workbook = record.day_files(day.day).workbook
        if day.signatures and workbook.is_file():
            content = with_signatures(workbook.read_bytes(), day.signatures)
            yield from (
                unshown_words(workbook, signature) for signature in unshown(content, day.signatures)
            )


def _require_answers(record: Record, month: Month, settings: CloseSettings) -> None:
    """Raise `NotClosed` where recon.toml asks for more, or a workbook is not as it was written."""
    problems = []
    unsigned, last = month.in_state("unsigned", "nothing compared"), month.results[-1]
    unreconciled = [f"{day.day} ({day.state})" for day in month.days if day.state in UNRECONCILED]
    if settings.unreconciled == "refuse" and unreconciled:
        days = count_of(len(unreconciled), "day")
        problems.append(f"{days} of {len(month.days)} not reconciled: {', '.join(unreconciled)}")
    if settings.unsigned == "refuse" and unsigned:
        problems.append(f"not signed by preparer and reviewer: {', '.join(unsigned)}")
    if settings.open_breaks == "refuse" and last.unsolved_breaks:
        problems.append(f"{count_of(len(last.unsolved_breaks), 'open break')} on {last.day}")
    signatures = next(day.signatures for day in month.days if day.result is last)
    if settings.needs_approver and "approver" not in signatures:
        problems.append(
            f"{last.day} is not signed by an approver: nightbook reconcile sign --role approver "
            f"--as-of {last.day}"
        )
    if problems:
        raise NotClosed(
            f"{month.name} was not closed, because recon.toml asks for more under [close]: "
            f"{'; '.join(problems)}. Nothing was written."
        )
    _require_workbooks(record, month)


def _require_workbooks(record: Record, month: Month) -> None:
    problems = []
    for result in month.results:
        path = record.day_files(result.day).workbook
        if not path.is_file():  # it is told as missing
            continue
        try:
            checked = verify_workbook(record, path)
            differences = list(checked.differences)
            if checked.run_id != result.run_id:
                differences = [f"it shows run {checked.run_id}, and {result.run_id} counts"]
        except NotReconciled as error:
            differences = [str(error)]
        if differences:
            problems.append(f"{path.name}: {and_more(differences, 2, '; ')}")
    if problems:
        raise NotClosed(
            f"{month.name} was not closed, for a pack must hold what was stored, and of its "
            f"workbooks {len(problems)} differ: {and_more(problems, _NAMED, '; ')}. Take them from "
            "the backup, or move them away and run their day again: nightbook reconcile run "
            "--as-of DAY. Nothing was written."
        )


def _open_points(month: Month, facts: pack.PackFacts) -> Iterator[str]:
    """Yield what the pack lists as not done or not there."""
    words = {"unsigned": "not signed", "no ledger": "without a ledger", "no book": "without a book"}
    words["nothing compared"] = "on which nothing was compared"
    for state, phrase in words.items():
        if days := month.in_state(state):
            yield f"{count_of(len(days), 'day')} {phrase}: {', '.join(days)}"
    last = month.results[-1]
    if unsolved := last.unsolved_breaks:
        ages = count_ages(unsolved, last.day)
        by_age = ", ".join(
            f"{count} of {label}"
            for (label, _, _), count in zip(AGE_BANDS, ages, strict=True)
            if count
        )
        yield f"{count_of(len(unsolved), 'open break')} on {last.day}: {by_age}"
    yield from (f"not in the pack: {missing}" for missing in facts.missing)
