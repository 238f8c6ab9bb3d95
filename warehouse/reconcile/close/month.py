"""A closed day is run again only with a reason, which is stored before anything else is."""

import calendar
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from warehouse.contract.model import and_more, count_of
from warehouse.query.connect import connect
from warehouse.query.firm_state import has_sources
from warehouse.reconcile.model import ClosedDay, Closing, Restatement, Run, Signature
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.signatures import valid
from warehouse.reconcile.settings.config import CloseSettings
from warehouse.reconcile.terms import DayClosed, NotReconciled
from warehouse.storage.layout import json_bytes


def closings_of(record: Record, month: str) -> list[Closing]:
    """Return the versions of a month's pack, the oldest first."""
    return [item for item in record.closings if item.month == month]


def closing_of(record: Record, day: date) -> Closing | None:
    """Return the newest closing that a day is locked by."""
    closings = [item for item in closings_of(record, f"{day:%Y-%m}") if day <= item.through]
    return closings[-1] if closings else None


def restating(
    record: Record, day: date, settings: CloseSettings, *, who: str, why: str, now: datetime
) -> Callable[[], None]:
    """Return what stores that a closed day is run again; nothing is stored for an open one.

    Raises `DayClosed` if the day is closed and no reason is given, `NotReconciled` if that person
    may not restate it.
    """
    closing, reason = closing_of(record, day), " ".join(why.split())
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
    before = record.result(day)
    restatement = Restatement(
        day=day,
        who=who,
        why=reason,
        at=now.isoformat(),
        run_before=before.run_id if before else "",
        digest_before=before.digest if before else "",
    )
    return lambda: record.restatements.add(restatement)


UNRECONCILED = ("no ledger", "no book", "nothing compared")

_MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])")

_NAMED = 5


@dataclass(frozen=True, slots=True)
class MonthDay:
    """One day of a month: its book, the result that counts, and by role who signed that."""

    day: date
    snapshot_id: str
    result: Run | None
    signatures: Mapping[str, Signature]

    @property
    def state(self) -> str:
        """What is to be said of it in a few words."""
        if self.result is None:
            return "no ledger" if self.snapshot_id else "no book"
        if not self.result.position_count:
            return "nothing compared"
        return "signed" if {"preparer", "reviewer"} <= self.signatures.keys() else "unsigned"


@dataclass(frozen=True, slots=True)
class Month:
    """A month through one of its days; `closing` is how it was closed before."""

    name: str
    first: date
    days: tuple[MonthDay, ...]
    closing: Closing | None

    @property
    def through(self) -> date:
        """The last day that is closed."""
        return self.days[-1].day

    def __contains__(self, day: date) -> bool:
        """Return whether it is one of the days that are closed."""
        return self.first <= day <= self.through

    @property
    def results(self) -> list[Run]:
        """The results that count, the oldest first."""
        return [day.result for day in self.days if day.result is not None]

    def in_state(self, *states: str) -> list[str]:
        """Return the days that are in one of these states."""
        return [str(day.day) for day in self.days if day.state in states]

    @property
    def closed_days(self) -> tuple[ClosedDay, ...]:
        """The days with what they are closed with."""
        return tuple(
            ClosedDay(
                day=result.day,
                run_id=result.run_id,
                digest=result.digest,
                settings=result.settings_digest,
            )
            for result in self.results
        )


def first_and_last(month: str) -> tuple[date, date]:
    """Return the days of a month; raises `NotReconciled` where a text is none."""
    match = _MONTH.fullmatch(month)
    if match is None:
        raise NotReconciled(f"{month[:40]!r} is no month: write it as 2026-11. Nothing was closed.")
    year, number = map(int, match.groups())
    return date(year, number, 1), date(year, number, calendar.monthrange(year, number)[1])


def books(database: Path, first: date, last: date) -> dict[date, str]:
    """Return the snapshots that are the books of some days."""
    with connect(database) as connection:
        nights = "firm_nights" if has_sources(connection) else "ops.snapshots"
        query = f"select snapshot_date, snapshot_id from {nights} where is_book"  # noqa: S608 - one of the two above
        rows = connection.execute(query).fetchall()
    return {day: snapshot_id for day, snapshot_id in rows if first <= day <= last}


def read_month(record: Record, month: str, book_ids: Mapping[date, str], today: date) -> Month:
    """Return how a month stands: whole where it is over, else through its last book or result.

    Raises `NotReconciled` where no day of it has a result.
    """
    first, last = first_and_last(month)
    days = [day for day in record.days() if first <= day <= last]
    if not days:
        raise NotReconciled(
            f"No day of {month} was reconciled, so there is nothing to close. Put a ledger into "
            "the inbox and run `nightbook reconcile run`."
        )
    closings = closings_of(record, month)
    through = last if today > last else max([*days, *book_ids])
    if closings:
        through = max(through, closings[-1].through)
    return month_of(record, month, book_ids, through, closings[-1] if closings else None)


def month_of(
    record: Record,
    month: str,
    book_ids: Mapping[date, str],
    through: date,
    closing: Closing | None = None,
) -> Month:
    """Return a month through one of its days."""
    first, _ = first_and_last(month)
    every = [first + timedelta(number) for number in range((through - first).days + 1)]
    days = tuple(_month_day(record, day, book_ids.get(day, "")) for day in every)
    return Month(month, first, days, closing)


def _month_day(record: Record, day: date, snapshot_id: str) -> MonthDay:
    result = record.result(day)
    signatures = valid(record, result.digest) if result else {}
    return MonthDay(day, snapshot_id or (result.snapshot_id if result else ""), result, signatures)


def closing_basis(record: Record, month: Month) -> str:
    """Return one digest of what a pack is about, so that nothing is closed twice."""
    content = {
        "days": [[str(day.day), day.run_id, day.digest] for day in month.closed_days],
        "through": str(month.through),
        "books": [[str(day.day), day.snapshot_id] for day in month.days],
        "signatures": [item.no for item in record.signatures if item.day in month],
        "restatements": [item.no for item in record.restatements if item.day in month],
    }
    return hashlib.sha256(json_bytes(content)).hexdigest()


def month_changes(record: Record, month: Month) -> Iterator[str]:
    """Yield what is another than in the pack before, a sentence each."""
    if month.closing is None:
        return
    before = {day.day: day for day in month.closing.days}
    added = [str(day.day) for day in month.closed_days if day.day not in before]
    if added:
        yield f"{count_of(len(added), 'day')} came: {and_more(added, _NAMED)}"
    for day in month.closed_days:
        then = before.get(day.day)
        whys = [
            f"{item.why} ({item.who}, {item.at})"
            for item in record.restatements
            if item.day == day.day and item.at > month.closing.at
        ]
        if then and then.digest != day.digest:
            why = "; ".join(whys) or "no reason was given"
            yield f"{day.day} was restated: run {then.run_id} is now {day.run_id}: {why}"
        elif whys:
            yield f"{day.day} was run again and its result is the same: {'; '.join(whys)}"
    since = [item for item in record.signatures if item.day in month and item.at > month.closing.at]
    if since:
        yield f"{count_of(len(since), 'signature')} came"
