"""A closed day is run again only with a reason, which is stored before anything else is."""

from collections.abc import Callable
from datetime import date, datetime

from warehouse.reconcile.settings.closing import CloseSettings
from warehouse.reconcile.store.closings import Closing, Restatement
from warehouse.reconcile.store.store import Store
from warehouse.reconcile.terms.errors import DayClosed, NotReconciled


def closings_of(store: Store, month: str) -> list[Closing]:
    """Return the versions of a month's pack, the oldest first."""
    return [item for item in store.closings if item.month == month]


def closing_of(store: Store, day: date) -> Closing | None:
    """Return the newest closing that a day is locked by."""
    closings = [item for item in closings_of(store, f"{day:%Y-%m}") if day <= item.through]
    return closings[-1] if closings else None


def restating(
    store: Store, day: date, settings: CloseSettings, *, who: str, why: str, now: datetime
) -> Callable[[], None]:
    """Return what stores that a closed day is run again; nothing is stored for an open one.

    Raises `DayClosed` if the day is closed and no reason is given, `NotReconciled` if that person
    may not restate it.
    """
    closing, reason = closing_of(store, day), " ".join(why.split())
    if closing is None:
        return lambda: None
    if not reason:
        raise DayClosed(
            f"{day} is closed: {closing.words}. Nothing was reconciled and nothing was changed. "
            "If it has to be corrected, say why; the old pack stays, and the next "
            f"`nightbook reconcile close {closing.month}` writes another beside it:\n"
            f'nightbook reconcile run --as-of {day} --restate "why"'
        )
    if refusal := settings.why_not_close(who):
        raise NotReconciled(
            f"{day} is closed and was not restated: {refusal}. Nothing was reconciled and nothing "
            f"was changed. Let the {settings.closing_role} run it."
        )
    before = store.result(day)
    restatement = Restatement(
        day=day,
        who=who,
        why=reason,
        at=now.isoformat(),
        run_before=before.run_id if before else "",
        digest_before=before.digest if before else "",
    )
    return lambda: store.restatements.add(restatement)
