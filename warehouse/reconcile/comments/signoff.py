"""Sign-offs: bound to the digest of a result, void as soon as an amount changes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from warehouse.contract.wording import count_of
from warehouse.reconcile.comments.annotations import ACCEPTED
from warehouse.reconcile.comments.edits import WorkbookEdits
from warehouse.reconcile.errors import NotReconciled
from warehouse.reconcile.notices import Notice
from warehouse.reconcile.store.archive import Folder, Json, add_signoff, by_id, result_of, signoffs
from warehouse.spreadsheet.reading.text import fold

ROLES = ("preparer", "reviewer")


def open_breaks(found: Mapping[str, Any]) -> int:
    """Return how many breaks of a result nobody has accepted."""
    return sum(broken["status"] != ACCEPTED for broken in found["breaks"])


def with_open(signed: Mapping[str, Any]) -> str:
    """Return with how many open breaks it was signed, in words; nothing of an older signature."""
    number = signed.get("open_breaks")
    if number is None:
        return ""
    return f"with {count_of(number, 'open break')}" if number else "with no open break"


def words(signed: Mapping[str, Any]) -> str:
    """Return a signature in one line."""
    told = f"signed by {signed['who']} as {signed['role']} at {signed['at']}"
    return " ".join(filter(None, (told, with_open(signed))))


def valid(folder: Folder, digest: str) -> dict[str, Json]:
    """By role the last signature of exactly this result."""
    return {signoff["role"]: signoff for signoff in signoffs(folder) if signoff["digest"] == digest}


def sign(folder: Folder, found: Json, *, role: str, who: str, comment: str, at: datetime) -> Json:
    """Sign a result.

    Raises `NotReconciled` where the role is unknown, nobody signs, or preparer and reviewer are
    the same person, however they write their name.
    """
    if role not in ROLES or not fold(who):
        raise NotReconciled(
            f"{role!r} by {who!r} is no signature: expected {' or '.join(ROLES)} and a name. "
            "Nothing was signed."
        )
    other = valid(folder, found["digest"]).get(ROLES[role == ROLES[0]])
    if other and fold(other["who"]) == fold(who):
        raise NotReconciled(
            f"{who} has already signed run {found['run_id']} as {other['role']}: the reviewer must "
            "differ from the preparer. Nothing was signed."
        )
    signed = {
        "role": role,
        "who": " ".join(who.split()),
        "comment": comment,
        "at": at.isoformat(),
        "day": found["day"],
        "run_id": found["run_id"],
        "digest": found["digest"],
        "open_breaks": open_breaks(found),
    }
    add_signoff(folder, signed)
    return signed


def take_signatures(folder: Folder, workbook: WorkbookEdits) -> list[Notice]:
    """Take the signatures that were written into a workbook, for the result that it shows."""
    found = result_of(folder, workbook.run_id)
    notices = []
    for role, (who, comment) in workbook.signed.items():
        if found is None:
            words = f"signed by {who}, but its run {workbook.run_id} is not known: not taken"
            notices.append(Notice("high", words, workbook.name))
            continue
        known = valid(folder, found["digest"]).get(role)
        if known and fold(known["who"]) == fold(who):
            continue
        try:
            sign(folder, found, role=role, who=who, comment=comment, at=workbook.at)
        except NotReconciled as refused:
            notices.append(Notice("high", str(refused), workbook.name))
    return notices


def void(folder: Folder, now: Mapping[str, Any]) -> str:
    """Why the last signature of a day no longer holds, in words; nothing where it holds."""
    signed = [signoff for signoff in signoffs(folder) if signoff["day"] == now["day"]]
    if not signed or signed[-1]["digest"] == now["digest"]:
        return ""
    last = signed[-1]
    then = result_of(folder, last["run_id"])
    told = " ".join(filter(None, (f"signed run {last['run_id']}", with_open(last))))
    return f"sign-off void: {last['who']} {told}, and since then {count_changes(then, now)}"


def count_changes(then: Json | None, now: Mapping[str, Any]) -> str:
    """How many totals of assets and breaks differ between two results of a day."""
    if then is None:
        return "the result is another one"
    before, after = by_id(then), by_id(dict(now))
    moved = sum(
        before[key]["difference"] != after[key]["difference"] for key in before.keys() & after
    )
    new, gone = len(after.keys() - before), len(before.keys() - after)
    assets = {key[2] for key in _totals(now) ^ _totals(then)}
    return (
        f"{moved} amounts of breaks changed, {new} breaks came, {gone} went, and the totals of "
        f"{len(assets)} assets changed"
    )


def _totals(found: Mapping[str, Any]) -> set[tuple[str, ...]]:
    names = ("level", "of", "asset", "ledger", "snapshot")
    return {tuple(str(tie[name]) for name in names) for tie in found["ties"]}
