"""A month and its lock: each day's state, and the restatement of closed days."""

import calendar
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from warehouse.contract.model import and_more, count_of
from warehouse.query.connect import connect
from warehouse.reconcile.model import (
    Annotation,
    ClosedDay,
    Closing,
    Restatement,
    Run,
    Signature,
    moment,
)
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.record.signatures import valid
from warehouse.reconcile.settings.config import CloseSettings
from warehouse.reconcile.terms import DayClosed, NotReconciled
from warehouse.storage.layout import json_bytes

UNRECONCILED = ("no ledger", "no book", "nothing compared")
_MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])")
_NAMED = 5  # maximum number of days to list in the description of a change


def closings_of(record: Record, month: str) -> list[Closing]:
    """Return a month's closings, one for each version of its pack, oldest first."""
    return [item for item in record.closings if item.month == month]


def closing_of(record: Record, day: date) -> Closing | None:
    """Return the latest closing that locks a day, or None if the day is open."""
    closings = [item for item in closings_of(record, f"{day:%Y-%m}") if day <= item.through]
    return closings[-1] if closings else None


def restating(
    record: Record, day: date, settings: CloseSettings, *, who: str, why: str, now: datetime
) -> Restatement | None:
    """Return the restatement that a run of a closed day must store, or None for an open day.

    Raises `DayClosed` if the day is closed and no reason is given, and `NotReconciled` if the
    person may not restate it.
    """
    closing, reason = closing_of(record, day), " ".join(why.split())
    if closing is None:
        return None
    if not reason:
        raise DayClosed(
            f"{day} is closed: {closing.description}. Nothing was reconciled and nothing was "
            "changed. To correct the day, rerun it with a reason. The old pack does not change, "
            f"and the next `nightbook reconcile close {closing.month}{record.option}` writes a new "
            "pack next to it. Type:\n"
            f'nightbook reconcile run{record.option} --as-of {day} --restate "why"'
        )
    if refusal := settings.why_not_close(who):
        raise NotReconciled(
            f"{day} is closed and was not restated: {refusal}. Nothing was reconciled and nothing "
            f"was changed. Ask the {settings.closing_role} to restate the day."
        )
    before = record.result(day)
    return Restatement(
        day=day,
        who=who,
        why=reason,
        at=now.isoformat(),
        run_before=before.run_id if before else "",
        digest_before=before.digest if before else "",
    )


@dataclass(frozen=True, slots=True)
class MonthDay:
    """One day in a month: its book's snapshot ID, its latest result, and its signatures by role."""

    day: date
    snapshot_id: str
    result: Run | None
    signatures: Mapping[str, Signature]

    @property
    def state(self) -> str:
        """The day's state in a few words."""
        if self.result is None:
            return "no ledger" if self.snapshot_id else "no book"
        if not self.result.position_count:
            return "nothing compared"
        return "signed" if {"preparer", "reviewer"} <= self.signatures.keys() else "unsigned"


@dataclass(frozen=True, slots=True)
class Month:
    """A month's days and its latest closing. A month that is not over has only the days so far."""

    name: str
    days: tuple[MonthDay, ...]
    closing: Closing | None

    @property
    def first(self) -> date:
        """The first day of the month."""
        return self.days[0].day

    @property
    def through(self) -> date:
        """The last day that the close of the month covers."""
        return self.days[-1].day

    def __contains__(self, day: date) -> bool:
        """Return whether the close of the month covers a day."""
        return self.first <= day <= self.through

    @property
    def results(self) -> list[Run]:
        """The latest result for each day that has a result, oldest first."""
        return [day.result for day in self.days if day.result is not None]

    def in_state(self, *states: str) -> list[str]:
        """Return the days that are in one of these states."""
        return [str(day.day) for day in self.days if day.state in states]

    @property
    def closed_days(self) -> tuple[ClosedDay, ...]:
        """The days with results, as stored in a closing."""
        return tuple(
            ClosedDay(
                day=run.day, run_id=run.run_id, digest=run.digest, settings=run.settings_digest
            )
            for run in self.results
        )


def first_and_last(month: str) -> tuple[date, date]:
    """Return a month's first and last day. Raises `NotReconciled` if the month is invalid."""
    match = _MONTH.fullmatch(month)
    if match is None:
        raise NotReconciled(
            f"{month[:40]!r} is not a month. Write it as YYYY-MM, for example 2026-11. Nothing was "
            "closed."
        )
    year, number = map(int, match.groups())
    return date(year, number, 1), date(year, number, calendar.monthrange(year, number)[1])


def books(database: Path, first: date, last: date) -> dict[date, str]:
    """Map each day that has a book to the book's snapshot ID."""
    with connect(database) as connection:
        query = "select snapshot_date, snapshot_id from ops.snapshots where is_book"
        rows = connection.execute(query).fetchall()
    return {day: snapshot_id for day, snapshot_id in rows if first <= day <= last}


def read_month(record: Record, month: str, book_ids: Mapping[date, str], today: date) -> Month:
    """Return a month. If it is not over, include only the days up to the last book or result.

    Raises `NotReconciled` if no day has a result.
    """
    first, last = first_and_last(month)
    days = [day for day in record.days() if first <= day <= last]
    if not days:
        raise NotReconciled(
            f"No day of {month} was reconciled, so there is nothing to close. Put a ledger into "
            f"the inbox and run `nightbook reconcile run{record.option}`."
        )
    closing = next(reversed(closings_of(record, month)), None)
    through = last if today > last else max([*days, *book_ids])
    if closing:
        through = max(through, closing.through)
    return month_of(record, month, book_ids, through, closing)


def month_of(
    record: Record,
    month: str,
    book_ids: Mapping[date, str],
    through: date,
    closing: Closing | None = None,
) -> Month:
    """Return a month up to and including the day `through`."""
    first, _ = first_and_last(month)
    dates = (first + timedelta(number) for number in range((through - first).days + 1))
    days = tuple(_month_day(record, day, book_ids.get(day, "")) for day in dates)
    return Month(month, days, closing)


def _month_day(record: Record, day: date, snapshot_id: str) -> MonthDay:
    run = record.result(day)
    if run is None:
        return MonthDay(day, snapshot_id, None, {})
    return MonthDay(day, snapshot_id or run.snapshot_id, run, valid(record, run.digest))


def closing_basis(record: Record, month: Month) -> str:
    """Return a digest of a pack's content, so that an unchanged month is not closed twice."""
    content = {
        "days": [[str(day.day), day.run_id, day.digest] for day in month.closed_days],
        "through": str(month.through),
        "books": [[str(day.day), day.snapshot_id] for day in month.days],
        "signatures": [item.no for item in record.signatures if item.day in month],
        "restatements": [item.no for item in record.restatements if item.day in month],
        "entries": [item.no for item in record.annotations if _is_of(item, month)],
    }
    return hashlib.sha256(json_bytes(content)).hexdigest()


def month_changes(record: Record, month: Month) -> Iterator[str]:
    """Describe each difference from the previous pack."""
    if month.closing is None:
        return
    before, closed_at = {day.day: day for day in month.closing.days}, month.closing.at
    added = [str(day.day) for day in month.closed_days if day.day not in before]
    if added:
        yield f"{count_of(len(added), 'new day')}: {and_more(added, _NAMED)}"
    for day in month.closed_days:
        then = before.get(day.day)
        whys = "; ".join(
            f"{item.why} ({item.who}, {moment(item.at)} UTC)"
            for item in record.restatements
            if item.day == day.day and item.at > closed_at
        )
        if then and then.digest != day.digest:
            why = whys or "no reason was given"
            yield f"{day.day} was restated: run {then.run_id} was replaced by {day.run_id}: {why}"
        elif whys:
            yield f"{day.day} was rerun with the same result: {whys}"
    since = [item for item in record.signatures if item.day in month and item.at > closed_at]
    if since:
        yield f"{count_of(len(since), 'new signature')}"
    later = [item for item in record.annotations if item.at > closed_at]
    entries = sum(len(item.entries) for item in later if _is_of(item, month))
    if entries:
        yield f"{entries:,} new {'entry' if entries == 1 else 'entries'} in workbooks"


def _is_of(annotation: Annotation, month: Month) -> bool:
    """Return whether an annotation contains a person's entries for a day of the month."""
    # A run ID begins with the day of the book.
    is_of_month = annotation.run_id.startswith(month.name.replace("-", ""))
    return is_of_month and bool(annotation.entries) and annotation.engine_day is None
