"""Sign-offs: bound to the digest of a result, void as soon as an amount changes."""

from dataclasses import dataclass
from datetime import date, datetime

from warehouse.contract.model import count_of
from warehouse.reconcile.model import (
    Break,
    Notice,
    Run,
    Signature,
    Tie,
    WorkbookEdits,
    breaks_by_id,
)
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.settings.config import ROLES, CloseSettings
from warehouse.reconcile.terms import NotReconciled
from warehouse.spreadsheet.reading.text import fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """Who signs, in which role and when; `entered_by` typed it, in a workbook or at a terminal."""

    role: str
    who: str
    comment: str
    at: datetime
    entered_by: str
    source: str = ""
    sha256: str = ""


def valid(record: Record, digest: str) -> dict[str, Signature]:
    """Return by role the last signature of exactly this result."""
    return {
        signature.role: signature for signature in record.signatures if signature.digest == digest
    }


def sign(record: Record, result: Run, signing: Signing, settings: CloseSettings) -> Signature:
    """Sign a result.

    Raises `NotReconciled` if the role is unknown or not that person's, nobody signs, nothing was
    compared, or the same person signed in another role, however they write their name. With roles,
    the same person cannot enter two signatures either.
    """
    role, who = signing.role, " ".join(signing.who.split())
    if role not in ROLES or not fold(who):
        raise NotReconciled(
            f"{role!r} by {who!r} is no signature: expected {', '.join(ROLES)} and a name. "
            "Nothing was signed."
        )
    if not result.position_count:
        raise NotReconciled(
            f"Run {result.run_id} of {result.day} compared no position, so there is nothing to "
            "sign. Nothing was signed. Look at what its ledgers cover: nightbook reconcile status."
        )
    if not settings.may_sign(role, who):
        others = ", ".join(settings.roles_of(who)) or "no role"
        raise NotReconciled(
            f"{who} is no {role}: {who} has {others} under [roles] in recon.toml, and {role} is "
            f"{', '.join(settings.roles[role]) or 'nobody'}. Nothing was signed."
        )
    for signed in valid(record, result.digest).values():
        if signed.role != role and fold(signed.who) == fold(who):
            raise NotReconciled(
                f"{who} has already signed run {result.run_id} as {signed.role}: the {role} must "
                f"differ from the {signed.role}. Nothing was signed."
            )
    if settings.roles:
        _require_other_people(record, result, signing, who)
    signature = Signature(
        role=role,
        who=who,
        comment=signing.comment,
        at=signing.at.isoformat(),
        day=result.day,
        run_id=result.run_id,
        digest=result.digest,
        open_breaks=result.open_breaks,
        entered_by="" if fold(signing.entered_by) == fold(who) else signing.entered_by,
        source=signing.source,
        sha256=signing.sha256,
    )
    record.signatures.add(signature)
    return signature


def _require_other_people(record: Record, result: Run, signing: Signing, who: str) -> None:
    """Raise `NotReconciled` if one person would sign, or enter, the signatures of two roles."""
    if signing.source and signing.entered_by == signing.source:
        raise NotReconciled(
            f"{signing.source} does not say who saved it. With [roles] in recon.toml, the "
            f"signature of {who} in such a file is not taken. Nothing was signed. Enter your name "
            "in the settings of the program and save again, or use nightbook reconcile sign."
        )
    people = {fold(who), fold(signing.entered_by)}
    for signed in valid(record, result.digest).values():
        others = {fold(signed.who), fold(signed.entered_by or signed.who)}
        if signed.role != signing.role and people & others:
            raise NotReconciled(
                f"{signing.entered_by} cannot enter the signature of {who} as {signing.role}, "
                f"because the result is already {signed.words}. With [roles] in recon.toml, "
                "nobody takes part in two signatures of one result. Nothing was signed. Let "
                f"{who} sign."
            )


def why_not_accept(
    record: Record, workbook: WorkbookEdits, result: Run | None, settings: CloseSettings
) -> str:
    """Return why whoever saved a workbook may not accept its breaks; nothing if they may.

    With an approver it takes another person than the one who ran and prepared the result.
    """
    if not settings.needs_approver:
        return ""
    rule = "with [close] approver = true it takes another person than the one who compared"
    if workbook.is_anonymous:
        return f"{workbook.name} does not say who saved it, and {rule}"
    compared = {fold(result.by)} if result else set()
    prepared = valid(record, result.digest).get("preparer") if result else None
    if prepared:
        compared |= {fold(prepared.who), fold(prepared.entered_by or prepared.who)}
    if fold(workbook.who) in compared:
        return f"{workbook.who} compared this result, and {rule}"
    may = [role for role in ("reviewer", "approver") if role in settings.roles]
    if may and not any(settings.may_sign(role, workbook.who) for role in may):
        return f"{workbook.who} is not a {' or '.join(may)} under [roles], and {rule}"
    return ""


def take_signatures(
    record: Record, workbook: WorkbookEdits, settings: CloseSettings
) -> list[Notice]:
    """Take the signatures that were written into a workbook, for the result that it shows."""
    result = record.result_of(workbook.run_id)
    notices = []
    for cells in workbook.signatures:
        if result is None:
            words = f"signed by {cells.who}, but its run {workbook.run_id} is not known: not taken"
            notices.append(Notice("high", words, workbook.name))
            continue
        signature = valid(record, result.digest).get(cells.role)
        if signature and fold(signature.who) == fold(cells.who):
            continue
        signing = Signing(
            role=cells.role,
            who=cells.who,
            comment=cells.comment,
            at=workbook.at,
            entered_by=workbook.who,
            source=workbook.name,
            sha256=workbook.sha256,
        )
        try:
            sign(record, result, signing, settings)
        except NotReconciled as refusal:
            notices.append(Notice("high", str(refusal), workbook.name))
    return notices


def why_void(
    record: Record, day: date, digest: str, breaks: tuple[Break, ...], ties: tuple[Tie, ...]
) -> str:
    """Return why the last signature of a day no longer holds; nothing where it holds."""
    signed = [signature for signature in record.signatures if signature.day == day]
    if not signed or signed[-1].digest == digest:
        return ""
    last = signed[-1]
    run = " ".join(filter(None, (f"signed run {last.run_id}", last.open_words)))
    changes = _count_changes(record.result_of(last.run_id), breaks, ties)
    return f"sign-off void: {last.who} {run}, and since then {changes}"


def _count_changes(then: Run | None, breaks: tuple[Break, ...], ties: tuple[Tie, ...]) -> str:
    """Say how many breaks and totals of assets differ between two results of a day."""
    if then is None:
        return "the result is another one"
    before, after = breaks_by_id(then), {break_.id: break_ for break_ in breaks}
    moved = sum(before[id_].difference != after[id_].difference for id_ in before.keys() & after)
    new, gone = len(after.keys() - before), len(before.keys() - after)
    assets = {asset for _, _, asset, _, _ in _totals(ties) ^ _totals(then.ties)}
    return (
        f"the amounts of {count_of(moved, 'break')} changed, {count_of(new, 'break')} came, "
        f"{gone} went, and the totals of {count_of(len(assets), 'asset')} changed"
    )


def _totals(ties: tuple[Tie, ...]) -> set[tuple[str, str, str, str, str]]:
    return {(tie.level, tie.of, tie.asset, tie.ledger, tie.snapshot) for tie in ties}
