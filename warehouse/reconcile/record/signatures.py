"""Signatures on results. If an amount changes, the digest changes, which voids the signatures."""

from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import chain

from warehouse.contract.model import and_more, count_of
from warehouse.reconcile.model import (
    SETTLED,
    Entry,
    Notice,
    Run,
    Signature,
    SignatureCells,
    Tie,
    WorkbookEdits,
    breaks_by_id,
)
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.settings.config import ROLES, CloseSettings
from warehouse.reconcile.terms import NotReconciled, display_asset
from warehouse.spreadsheet.reading.text import fold

_MAX_ASSETS = 3  # maximum number of assets to name in a message about changes


def valid(record: Record, digest: str) -> dict[str, Signature]:
    """Return the last signature for each role on the result with this digest."""
    signed = (item for item in record.signatures if item.digest == digest)
    return {signature.role: signature for signature in signed}


def sign(
    record: Record,
    run: Run,
    settings: CloseSettings,
    cells: SignatureCells,
    *,
    at: datetime,
    entered_by: str,
    entries: Collection[Entry] = (),
    source: str = "",
    sha256: str = "",
) -> Signature:
    """Sign a result.

    `entered_by` is the person who typed the `cells`, in the workbook `source` or in a terminal.
    `entries` are the entries of the same workbook. They change the number of open breaks.

    Raises `NotReconciled` if the role is unknown, the person does not have it, the name is empty,
    nothing was compared, or the person has already signed in another role (ignoring case and
    spaces in the name). If roles are configured, nobody may enter two signatures either.
    """
    who = " ".join(cells.who.split())
    status = {entry.break_id: entry.value for entry in entries if entry.field == "status"}
    limits = run.coverage.materiality
    signature = Signature(
        role=cells.role,
        who=who,
        comment=cells.comment,
        at=at.isoformat(),
        day=run.day,
        run_id=run.run_id,
        digest=run.digest,
        open_breaks=sum(
            status.get(item.id, item.status) not in SETTLED
            or (item.id in status and limits is not None and limits.is_large(item.value))
            for item in run.breaks
        ),
        entered_by="" if fold(entered_by) == fold(who) else entered_by,
        source=source,
        sha256=sha256,
    )
    others = [signed for signed in valid(record, run.digest).values() if signed.role != cells.role]
    refusals = chain(
        _refusals(run, signature, others, settings),
        _refused_entries(signature, others) if settings.roles else (),
    )
    if refusal := next(refusals, ""):
        raise NotReconciled(f"{refusal} Nothing was signed.")
    record.signatures.add(signature)
    return signature


def _refusals(
    run: Run, signature: Signature, others: list[Signature], settings: CloseSettings
) -> Iterator[str]:
    """Yield the reasons to reject a signature. `others` are the signatures in other roles."""
    role, who = signature.role, signature.who
    if role not in ROLES or not fold(who):
        yield f"{role!r} by {who!r} is not valid: expected one of {', '.join(ROLES)}, and a name."
    if not run.position_count:
        yield (
            f"Run {run.run_id} of {run.day} did not compare any positions, so there is nothing to "
            "sign. To see the part of the book its ledgers cover, run nightbook reconcile status."
        )
    if not settings.may_sign(role, who):
        roles = ", ".join(settings.roles_of(who)) or "no role"
        yield (
            f"{who} does not have the role {role}. Under [roles] in recon.toml, {who} has {roles}, "
            f"and the role {role} is assigned to {', '.join(settings.roles[role]) or 'nobody'}."
        )
    for signed in others:
        if fold(signed.who) == fold(who):
            yield (
                f"{who} has already signed run {run.run_id} as {signed.role}: the {role} must "
                f"be a different person."
            )


def _refused_entries(signature: Signature, others: list[Signature]) -> Iterator[str]:
    """Yield the reasons why roles in recon.toml do not allow a person to enter a signature."""
    who, entered_by = signature.who, signature.entered_by or signature.who
    if signature.source and entered_by == signature.source:
        yield (
            f"{signature.source} does not say who saved it. If recon.toml has [roles], the "
            f"signature of {who} in such a file is not accepted. Enter your name in the settings "
            "of the spreadsheet program and save again, or use nightbook reconcile sign."
        )
    for signed in others:
        if {fold(who), fold(entered_by)} & {
            fold(signed.who),
            fold(signed.entered_by or signed.who),
        }:
            yield (
                f"{entered_by} cannot enter {who}'s signature as {signature.role}, because "
                f"the result is already {signed.description}. If recon.toml has [roles], nobody "
                f"may sign or enter two signatures for the same result. Ask {who} to sign."
            )


def why_not_accept(
    record: Record, workbook: WorkbookEdits, result: Run | None, settings: CloseSettings
) -> str:
    """Return why the user who saved a workbook may not accept breaks, or an empty string.

    If an approver is required, the person who ran or prepared the result may not accept breaks.
    """
    if not settings.needs_approver:
        return ""
    rule = "[close] approver = true requires a second person to accept breaks"
    if workbook.who == workbook.name:  # The file does not say who saved it.
        return f"{workbook.name} does not say who saved it, and {rule}"
    compared = {fold(result.by)} if result else set()
    prepared = valid(record, result.digest).get("preparer") if result else None
    if prepared:
        compared |= {fold(prepared.who), fold(prepared.entered_by or prepared.who)}
    if fold(workbook.who) in compared:
        return f"{workbook.who} ran or prepared this result, and {rule}"
    may = [role for role in ("reviewer", "approver") if role in settings.roles]
    if may and not any(settings.may_sign(role, workbook.who) for role in may):
        return f"{workbook.who} is not a {' or '.join(may)} under [roles], and {rule}"
    return ""


def take_signatures(
    record: Record, workbook: WorkbookEdits, entries: Collection[Entry], settings: CloseSettings
) -> list[Notice]:
    """Store a workbook's signatures on its result. Return notices about rejected signatures.

    `entries` are the workbook's entries that were stored.
    """
    run = record.result_of(workbook.run_id)
    notices = []
    for cells in workbook.signatures:
        if run is None:
            message = (
                f"signed by {cells.who}, but the run {workbook.run_id} is unknown, so the "
                "signature was not stored"
            )
            notices.append(Notice("high", message, workbook.name))
            continue
        signed = valid(record, run.digest).get(cells.role)
        if signed and fold(signed.who) == fold(cells.who):
            continue
        try:
            sign(
                record,
                run,
                settings,
                cells,
                at=workbook.at,
                entered_by=workbook.who,
                entries=entries,
                source=workbook.name,
                sha256=workbook.sha256,
            )
        except NotReconciled as refusal:
            notices.append(Notice("high", str(refusal), workbook.name))
    return notices


def why_void(record: Record, now: Run) -> str:
    """Return why the last signatures of a run's day are void, or "" if they are still valid."""
    signed = [signature for signature in record.signatures if signature.day == now.day]
    if not signed or signed[-1].digest == now.digest:
        return ""
    last = signed[-1]
    run = " ".join(filter(None, (f"signed run {last.run_id}", last.open_breaks_phrase)))
    names = [f"{item.who} ({item.role})" for item in valid(record, last.digest).values()]
    changes = _count_changes(record.result_of(last.run_id), now)
    return f"sign-off void: {and_more(names, len(names))} {run}, and since then {changes}"


def _count_changes(then: Run | None, now: Run) -> str:
    """Describe how many breaks and asset totals differ between two results for a day."""
    if then is None:
        return "the result is different"
    before, after = breaks_by_id(then), breaks_by_id(now)
    moved = sum(before[id_].difference != after[id_].difference for id_ in before.keys() & after)
    new, gone = len(after.keys() - before), len(before.keys() - after)
    assets = {display_asset(asset) for _, _, asset, _, _ in _totals(now.ties) ^ _totals(then.ties)}
    changes = (
        (moved, f"the amounts of {count_of(moved, 'break')} changed"),
        (new, f"{count_of(new, 'break')} appeared"),
        (gone, f"{count_of(gone, 'break')} disappeared"),
        (len(assets), f"the totals of {and_more(sorted(assets), _MAX_ASSETS)} changed"),
    )
    return "; ".join(words for number, words in changes if number) or "the result is different"


def _totals(ties: tuple[Tie, ...]) -> set[tuple[str, str, str, str, str]]:
    return {(tie.level, tie.of, tie.asset, tie.ledger, tie.snapshot) for tie in ties}
