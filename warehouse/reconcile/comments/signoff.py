"""Sign-offs: bound to the digest of a result, void as soon as an amount changes."""

from datetime import date, datetime

from warehouse.reconcile.comments.edits import WorkbookEdits
from warehouse.reconcile.matching.totals import Tie
from warehouse.reconcile.store.records import Break, RunResult, Signature, breaks_by_id
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.errors import NotReconciled
from warehouse.reconcile.terms.notices import Notice
from warehouse.spreadsheet.reading.text import fold

ROLES = ("preparer", "reviewer")


def valid(store: Store, digest: str) -> dict[str, Signature]:
    """Return by role the last signature of exactly this result."""
    return {
        signature.role: signature for signature in store.signatures if signature.digest == digest
    }


def sign(
    store: Store, result: RunResult, *, role: str, who: str, comment: str, at: datetime
) -> Signature:
    """Sign a result.

    Raises `NotReconciled` where the role is unknown, nobody signs, or preparer and reviewer are
    the same person, however they write their name.
    """
    if role not in ROLES or not fold(who):
        raise NotReconciled(
            f"{role!r} by {who!r} is no signature: expected {' or '.join(ROLES)} and a name. "
            "Nothing was signed."
        )
    other = valid(store, result.digest).get(ROLES[role == ROLES[0]])
    if other and fold(other.who) == fold(who):
        raise NotReconciled(
            f"{who} has already signed run {result.run_id} as {other.role}: the reviewer must "
            "differ from the preparer. Nothing was signed."
        )
    signature = Signature(
        role=role,
        who=" ".join(who.split()),
        comment=comment,
        at=at.isoformat(),
        day=result.day,
        run_id=result.run_id,
        digest=result.digest,
        open_breaks=result.open_breaks,
    )
    store.add_signature(signature)
    return signature


def take_signatures(store: Store, workbook: WorkbookEdits) -> list[Notice]:
    """Take the signatures that were written into a workbook, for the result that it shows."""
    result = store.result_of(workbook.run_id)
    notices = []
    for cells in workbook.signatures:
        if result is None:
            words = f"signed by {cells.who}, but its run {workbook.run_id} is not known: not taken"
            notices.append(Notice("high", words, workbook.name))
            continue
        signature = valid(store, result.digest).get(cells.role)
        if signature and fold(signature.who) == fold(cells.who):
            continue
        try:
            sign(
                store, result, role=cells.role, who=cells.who, comment=cells.comment, at=workbook.at
            )
        except NotReconciled as refusal:
            notices.append(Notice("high", str(refusal), workbook.name))
    return notices


def why_void(
    store: Store, day: date, digest: str, breaks: tuple[Break, ...], ties: tuple[Tie, ...]
) -> str:
    """Return why the last signature of a day no longer holds; nothing where it holds."""
    signed = [signature for signature in store.signatures if signature.day == day]
    if not signed or signed[-1].digest == digest:
        return ""
    last = signed[-1]
    run = " ".join(filter(None, (f"signed run {last.run_id}", last.open_words)))
    changes = _count_changes(store.result_of(last.run_id), breaks, ties)
    return f"sign-off void: {last.who} {run}, and since then {changes}"


def _count_changes(then: RunResult | None, breaks: tuple[Break, ...], ties: tuple[Tie, ...]) -> str:
    """Say how many breaks and totals of assets differ between two results of a day."""
    if then is None:
        return "the result is another one"
    before, after = breaks_by_id(then), {break_.id: break_ for break_ in breaks}
    moved = sum(before[id_].difference != after[id_].difference for id_ in before.keys() & after)
    new, gone = len(after.keys() - before), len(before.keys() - after)
    assets = {asset for _, _, asset, _, _ in _totals(ties) ^ _totals(then.ties)}
    return (
        f"{moved} amounts of breaks changed, {new} breaks came, {gone} went, and the totals of "
        f"{len(assets)} assets changed"
    )


def _totals(ties: tuple[Tie, ...]) -> set[tuple[str, str, str, str, str]]:
    return {(tie.level, tie.of, tie.asset, tie.ledger, tie.snapshot) for tie in ties}
