"""The packs that there are: whether each is as it was written, and which ledgers they stand for."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

from warehouse.contract.wording import and_more, count_of
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
from warehouse.reconcile.record.record import Store, archived_path
from warehouse.reconcile.record.views import facts_of_runs
from warehouse.reconcile.settings.config import CloseSettings, read_config
from warehouse.reconcile.terms import NotClosed, NotReconciled
from warehouse.reconcile.workbook import edits
from warehouse.reconcile.workbook.content import WORDING
from warehouse.reconcile.workbook.sign_off import unshown, unshown_words, with_signatures
from warehouse.reconcile.workbook.verify import stray_notices, verify_workbook
from warehouse.storage.layout import digest_of, json_bytes, written_aside


def packs(store: Store) -> Path:
    """Return the folder of all packs."""
    return store.root / "packs"


def pack_problem(store: Store, closing: Closing) -> str:
    """Return what is wrong with the file of a pack; nothing where it is as it was written."""
    path = packs(store) / closing.pack
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
    store = Store(folder)
    return [
        PackDamage(
            f"{item.month}, version {item.version}: {problem}",
            f"restore {packs(store)} from the backup",
        )
        for item in store.closings
        if (problem := pack_problem(store, item))
    ]


def remove_archived_ledgers(store: Store, today: date, keep_days: int) -> None:
    """Remove the kept ledgers that no day read since so many days, if a whole pack has them."""
    days: dict[str, date] = {}
    for day in store.days():
        for run in facts_of_runs(store, day):
            days |= {sha256: max(day, days.get(sha256, day)) for _, sha256 in run.files}
    old = {sha256: day for sha256, day in days.items() if (today - day).days > keep_days}
    old = {sha256: day for sha256, day in old.items() if archived_path(store, sha256).is_file()}
    for closing in store.closings if old else ():
        if pack_problem(store, closing):
            continue
        with zipfile.ZipFile(packs(store) / closing.pack) as names:
            manifest = pack.read_manifest(names.read(pack.MANIFEST))
        for sha256 in old.keys() & set(pack.ledgers_among(manifest).values()):
            archived_path(store, sha256).unlink(missing_ok=True)


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
    store = Store(folder)
    settings = read_config(store.config).close
    _require_role(settings, inputs)
    _read_what_people_wrote(store, settings)
    first, last = first_and_last(inputs.month)
    month = read_month(store, inputs.month, books(database, first, last), inputs.now.date())
    basis = closing_basis(store, month)
    if month.closing is not None and month.closing.basis == basis:
        return _existing_version(store, month, month.closing)
    _require_answers(store, month, settings)
    facts = _facts(store, month, inputs)
    path = packs(store) / pack.pack_name(month.name, facts.version)
    page = index_page(store, month, facts, _archived_ledgers(store, month))
    sha256, size = pack.write_pack(path, facts, _members(store, month, facts, page))
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
    store.closings.add(closing)
    remove_archived_ledgers(store, inputs.now.date(), settings.keep_days)
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


def _archived_ledgers(store: Store, month: Month) -> frozenset[str]:
    """Return the digests of the ledgers of a month that the archive still has."""
    digests = pack.ledger_names(store, month)
    return frozenset(digest for digest in digests if archived_path(store, digest).is_file())


def _read_what_people_wrote(store: Store, settings: CloseSettings) -> None:
    """Take comments and signatures since the last run, so that no pack is without them."""
    workbooks, _ = edits.find_workbooks(store)
    if workbooks and store.days():
        day = store.days()[-1]
        annotations.read_comments(store, workbooks, day, settings, notices_of=stray_notices)


def _existing_version(store: Store, month: Month, closing: Closing) -> CloseSummary:
    """Return the version that there is; raises `NotClosed` where its file is not as it was."""
    path = packs(store) / closing.pack
    if problem := pack_problem(store, closing):
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


def _facts(store: Store, month: Month, inputs: CloseInputs) -> pack.PackFacts:
    return pack.PackFacts(
        month=month.name,
        version=month.closing.version + 1 if month.closing else 1,
        first=month.first,
        through=month.through,
        who=inputs.who,
        at=inputs.now.isoformat(),
        program=inputs.program_version,
        books={str(day.day): day.snapshot_id for day in month.days if day.snapshot_id},
        changes=tuple(month_changes(store, month)),
        missing=tuple(_missing(store, month)),
        wording=WORDING,
    )


def _members(
    store: Store, month: Month, facts: pack.PackFacts, page: bytes
) -> Iterator[pack.PackMember]:
    yield pack.PackMember(pack.INDEX, page)
    yield pack.PackMember(pack.FACTS, json_bytes(to_json(facts)))
    trail = pack.trail_table(store, month.first, month.through)
    yield pack.PackMember(pack.TRAIL, trail)
    yield from pack.evidence(store, month)


def _missing(store: Store, month: Month) -> Iterator[str]:
    """Yield what should be in the pack and is not there."""
    yield from _missing_signatures(store, month)
    for result in month.results:
        for path in store.day_files(result.day):
            if not path.is_file():
                yield f"{path.name} is not in out/{result.day}"
        for source in result.sources:
            if not archived_path(store, source.sha256).is_file():
                yield f"the ledger {source.name} of {result.day}, SHA-256 {source.sha256}"
    for sha256 in dict.fromkeys(day.settings for day in month.closed_days):
        if not sha256 or not archived_path(store, sha256).is_file():
            yield f"recon.toml with SHA-256 {sha256 or 'unknown'}, which was not kept"


def _missing_signatures(store: Store, month: Month) -> Iterator[str]:
    """Yield the signatures that a workbook has no row for."""
    for day in month.days:
        workbook = store.day_files(day.day).workbook
        if day.signatures and workbook.is_file():
            content = with_signatures(workbook.read_bytes(), day.signatures)
            yield from (
                unshown_words(workbook, signature) for signature in unshown(content, day.signatures)
            )


def _require_answers(store: Store, month: Month, settings: CloseSettings) -> None:
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
    _require_workbooks(store, month)


def _require_workbooks(store: Store, month: Month) -> None:
    problems = []
    for result in month.results:
        path = store.day_files(result.day).workbook
        if not path.is_file():  # it is told as missing
            continue
        try:
            checked = verify_workbook(store, path)
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
