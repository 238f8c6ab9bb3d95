"""The conditions that trigger alerts about the home as a whole or about single nights."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from assets.console.invocation import full_command
from assets.monitoring.alerts import FAILURE, INFO, Alert
from assets.monitoring.staleness import GRACE, published_books
from assets.monitoring.switches import Switches, switch_alerts, tick_of
from assets.nightbook import Nightbook
from assets.publishing import shelf
from pipelines.landing import snapshots
from pipelines.landing.lock import acquire_if_free
from pipelines.landing.night_folders import snapshot_time
from pipelines.landing.snapshots import Snapshot
from pipelines.maintenance.verify import missing_landings
from pipelines.schedule import is_due
from warehouse.contract.model import count_of, first_lines, left_out
from warehouse.contract.states import ACCEPTED, COMPLETE, HELD, REJECTED
from warehouse.query.read import keep_open
from warehouse.query.read import run as ask
from warehouse.reconcile import service
from warehouse.reconcile.model import Break, Result, Run
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import Layout

LOOK_BACK = timedelta(days=7)
OLD_BREAK_AGE = timedelta(days=7)
MAX_SHOWN = 5
# Find the lists that have a round_count finding, and count their records. A finding contains the
# count only in its message, whose wording may change. A test compares the result with the findings.
_ROUND_COUNTS = """
    with lists as (
        select null as venue_id, 'Portfolios' as list, count(*) as records from portfolios
        union all
        select null, 'Venues', count(*) from venues
        union all
        select venue_id, 'Instruments of type ' || coalesce(type, 'unknown'), count(*)
        from instruments where stale_since is null group by venue_id, type
    )
    select venue_id, records, string_agg(list, ', ' order by list) from lists
    where records >= 100 and regexp_matches(records::varchar, '^(1|2|25|5)0+$')
    group by all order by all
"""


def find_alerts(
    nightbook: Nightbook, *, patience: timedelta = GRACE, dagster: Switches | None = None
) -> list[Alert]:
    """Return the alerts about the schedule, the nights, the newest book and the reconciliation.

    `patience` is the time that a run may take to publish an accepted night. If `dagster` is None,
    the state of the schedule and the sensors is read from the home.
    """
    layout, now = nightbook.layout, nightbook.now()
    today = now.astimezone(nightbook.settings().timezone).date()
    nights = snapshots.landed_snapshots(layout)
    alerts = [*switch_alerts(nightbook, dagster), *night_alerts(nightbook, nights, today, patience)]
    if layout.database.exists():
        with keep_open(layout.database):
            alerts += [*_stale_alerts(layout), *_drift_alerts(layout), *_check_alerts(layout)]
            alerts += [*_clock_alerts(layout), *_round_count_alerts(layout)]
    return [*alerts, *_reconciliation_alerts(layout)]


def night_alerts(
    nightbook: Nightbook, nights: list[Snapshot], today: date, patience: timedelta
) -> Iterator[Alert]:
    """Yield the alerts about nights that need attention and about dates missed in the last week."""
    layout, now = nightbook.layout, nightbook.now()
    yield from _held_alerts(layout, nights)
    yield from _rejected_book_alerts(layout, nights, now - LOOK_BACK)
    yield from _gap_alerts(nightbook, nights, today)
    yield from _killed_alerts(layout, nights)
    yield from _unjudged_alerts(nightbook, nights, today)
    yield from _unpublished_alerts(layout, nights, now - patience)
    yield from _unshelved_alerts(nightbook, nights, now - patience)
    yield from _missing_alerts(layout)


def late_alert(nightbook: Nightbook) -> Alert | None:
    """Return an alert if today's night is overdue and nothing has landed."""
    settings, layout, now = nightbook.settings(), nightbook.layout, nightbook.now()
    today = now.astimezone(settings.timezone).date()
    tick = tick_of(settings, today)
    dates = [snapshot.snapshot_date for snapshot in snapshots.landed_snapshots(layout)]
    if tick is None or not dates or today in dates:
        return None
    if now < tick + timedelta(seconds=settings.deadline) + GRACE:
        return None
    return Alert(
        cause=f"late:{today}",
        title=f"no book for {today} yet",
        words=f"It was due at {tick:%H:%M} ({settings.timezone}), but nothing has landed since: no "
        "run has started, or none has completed. The night can still be read until midnight.",
        see=str(layout.home),
        command=full_command(layout, "run"),
        kind=FAILURE,
    )


def book_line(nightbook: Nightbook, day: date | str) -> list[str]:
    """Return one line that says whether a date has a book, or no line if `day` is not a date."""
    try:
        wanted = date.fromisoformat(str(day))
    except ValueError:
        return []
    book = snapshots.books(snapshots.landed_snapshots(nightbook.layout)).get(wanted)
    if book is None:
        return [f"{wanted} has no book yet."]
    return [f"{wanted} has a book: snapshot {book.snapshot_id}."]


def unread_dates(nightbook: Nightbook, nights: list[Snapshot], today: date) -> list[date]:
    """Return the scheduled dates from the first night to yesterday for which nothing was landed."""
    landed, settings = {snapshot.snapshot_date for snapshot in nights}, nightbook.settings()
    first = min(landed, default=today)
    days = (first + timedelta(days=number) for number in range((today - first).days))
    return [day for day in days if day not in landed and is_due(settings.schedule, day)]


def _held_alerts(layout: Layout, nights: list[Snapshot]) -> Iterator[Alert]:
    """Yield an alert for each held snapshot, but only one per date if the date has a newer book."""
    books = snapshots.books(nights)
    superseded: dict[date, list[Snapshot]] = {}
    for snapshot in nights:
        if snapshot.state != HELD:
            continue
        book = books.get(snapshot.snapshot_date)
        if book is not None and book.snapshot_id > snapshot.snapshot_id:
            superseded.setdefault(snapshot.snapshot_date, []).append(snapshot)
        else:
            yield _held_alert(layout, snapshot, books)
    for day, held in superseded.items():
        names = [snapshot.snapshot_id for snapshot in held]
        yield Alert(
            cause=f"held:{names[-1]}",
            title=f"{count_of(len(held), 'snapshot')} of {day} held, but the date has a newer book",
            words=f"The book of {day} is still {books[day].snapshot_id}. You may reject these "
            f"snapshots: {', '.join(names[-MAX_SHOWN:])}{left_out(names, MAX_SHOWN)}.",
            see=str(held[-1].folder),
            command=full_command(layout, "snapshots"),
            waits=True,
        )


def _held_alert(layout: Layout, snapshot: Snapshot, books: Mapping[date, Snapshot]) -> Alert:
    earlier = [day for day in books if day <= snapshot.snapshot_date]
    book = f"The book of {earlier[-1]} was not changed." if earlier else "There is no book yet."
    if earlier and earlier[-1] == snapshot.snapshot_date:
        book = f"The book of that date is still {books[earlier[-1]].snapshot_id}."
    lines = (
        f"Snapshot {snapshot.snapshot_id} is waiting for your decision. {book}",
        "The command below only shows the changes that accepting the snapshot would make.",
        "Then accept or reject it. If access to data may have been lost, add --why 'your reason'.",
        *(snapshot.decision.reasons if snapshot.decision else ()),
    )
    return Alert(
        cause=f"held:{snapshot.snapshot_id}",
        title=f"the night of {snapshot.snapshot_date} is held",
        words="\n".join(lines),
        see=str(snapshot.folder),
        command=full_command(layout, "accept", snapshot.snapshot_id, "--dry-run"),
        waits=True,
    )


def _rejected_book_alerts(
    layout: Layout, nights: list[Snapshot], since: datetime
) -> Iterator[Alert]:
    """Yield an alert for each book that was later rejected, because somebody may have used it."""
    books = snapshots.books(nights)
    for snapshot in nights:
        states = [decision.state for decision in snapshot.decisions]
        was_accepted = states[-2:] == [ACCEPTED, REJECTED]
        if snapshot.decision is None or not was_accepted or _time(snapshot.decision.at) < since:
            continue
        if not _was_book(snapshot, nights):
            continue
        book = books.get(snapshot.snapshot_date)
        state = f"the book is {book.snapshot_id} again" if book else "there is no book, only a gap"
        files = "\n".join(snapshot.decision.withdrawn)
        yield Alert(
            cause=f"taken back:{snapshot.snapshot_id}:{snapshot.decision.at}",
            title=f"the book of {snapshot.snapshot_date} was rejected",
            words=f"Snapshot {snapshot.snapshot_id} was accepted, but was later rejected by "
            f"{snapshot.decision.by}: {'; '.join(snapshot.decision.reasons)}. "
            f"For that date, {state}. Files made from it:\n{files or 'none'}",
            see=str(snapshot.folder),
            command=full_command(layout, "snapshots"),
        )


def _was_book(snapshot: Snapshot, nights: list[Snapshot]) -> bool:
    """Return whether a rejected snapshot was the book of its date before the rejection."""
    accepted, rejected = snapshot.decisions[-2:]
    newer = [
        night
        for night in nights
        if night.snapshot_date == snapshot.snapshot_date
        and night.snapshot_id > snapshot.snapshot_id
    ]
    # The book of a date is the newest accepted snapshot, so only decisions about newer snapshots
    # matter.
    times = [accepted.at, *(decision.at for night in newer for decision in night.decisions)]
    return any(
        not any(night.state_at(time) == ACCEPTED for night in newer)
        for time in map(_time, times)
        if _time(accepted.at) <= time < _time(rejected.at)
    )


def _gap_alerts(nightbook: Nightbook, nights: list[Snapshot], today: date) -> Iterator[Alert]:
    """Yield an alert for each scheduled date of the last week for which nothing was landed."""
    layout = nightbook.layout
    for day in unread_dates(nightbook, nights, today):
        if day >= today - LOOK_BACK:
            yield Alert(
                cause=f"gap:{day}",
                title=f"{day} was not read",
                words=f"No snapshot was landed for {day}. The API returns only the current "
                "holdings, so the date remains a gap (see ops.gaps).",
                see=str(layout.landing),
                command=full_command(layout, "status"),
                kind=FAILURE,
            )


def _killed_alerts(layout: Layout, nights: list[Snapshot]) -> Iterator[Alert]:
    """Yield an alert for each date on which a killed run left a folder but no snapshot."""
    with acquire_if_free(layout.pull_lock) as is_nobody_pulling:
        folders = list(layout.landing.glob("*/.*.pulling")) if is_nobody_pulling else []
    landed = {str(snapshot.snapshot_date) for snapshot in nights}
    for day in sorted({folder.parent.name for folder in folders} - landed):
        yield Alert(
            cause=f"killed:{day}",
            title=f"the run that read {day} was killed",
            words=f"It landed no snapshot, so {day} has no book. The API returns only the current "
            "holdings, so the date can be read only until midnight.",
            see=str(layout.landing / day),
            command=full_command(layout, "run"),
            kind=FAILURE,
        )


def _unjudged_alerts(nightbook: Nightbook, nights: list[Snapshot], today: date) -> Iterator[Alert]:
    """Yield an alert for each landed night that is still not judged after its run's deadline."""
    layout, now = nightbook.layout, nightbook.now()
    patience = timedelta(seconds=nightbook.settings().deadline) + GRACE
    for snapshot in nights:
        if snapshot.state != COMPLETE or now < snapshot_time(snapshot.snapshot_id) + patience:
            continue
        day = snapshot.snapshot_date
        date_option = () if day == today else ("--date", str(day))
        yield Alert(
            cause=f"unfinished:{snapshot.snapshot_id}",
            title=f"the night of {day} was landed but not judged",
            words=f"Snapshot {snapshot.snapshot_id} is not a book, because the run that landed it "
            "did not finish, or its decision was lost. Its data is complete, and the next run "
            "judges and publishes it.",
            see=str(snapshot.folder),
            command=full_command(layout, "run", *date_option),
            waits=True,
        )


def _unpublished_alerts(
    layout: Layout, nights: list[Snapshot], before: datetime
) -> Iterator[Alert]:
    """Yield one alert about books that were accepted before the given time but never published."""
    _, missing = published_books(layout, nights)
    if old := _decided_before(missing, before):
        yield Alert(
            cause=f"unpublished:{old[-1].snapshot_id}:{len(old)}",
            title=f"{_days(snapshot.snapshot_date for snapshot in old)} accepted but "
            "not in the warehouse",
            words="The warehouse shows an older book, because the run that accepted "
            f"{old[-1].snapshot_id} did not publish it. All data is complete, so it can be "
            "rebuilt.",
            see=str(layout.database),
            command=full_command(layout, "rebuild"),
            kind=FAILURE,
            waits=True,
        )


def _unshelved_alerts(
    nightbook: Nightbook, nights: list[Snapshot], before: datetime
) -> Iterator[Alert]:
    """Yield one alert about nights that were decided before the given time but not shelved."""
    if old := _decided_before(shelf.waiting_nights(nightbook, nights), before):
        yield Alert(
            cause=f"unshelved:{old[-1].snapshot_id}:{len(old)}",
            title=f"{_days(snapshot.snapshot_id for snapshot in old)} not on the shelf",
            words="Other machines cannot see these nights or their decisions. In this home, they "
            "are complete and published. The next run uploads them, or reports why it cannot.",
            see=str(nightbook.layout.home),
            command=full_command(nightbook.layout, "shelve"),
            kind=FAILURE,
            waits=True,
        )


def _missing_alerts(layout: Layout) -> Iterator[Alert]:
    """Yield one alert about nights in the lake or warehouse whose landing folders are missing."""
    nights = [damage.night or "" for damage in missing_landings(layout)]
    if nights:
        yield Alert(
            cause=f"gone:{nights[-1]}:{len(nights)}",
            title=f"{_days(nights)} missing from the landing folder",
            words="They are in the lake or the warehouse, but their API responses are missing. The "
            "API keeps no history, so restore them from a backup (nightbook --home NEW restore "
            "FILE).",
            see=str(layout.landing),
            command=full_command(layout, "verify"),
            kind=FAILURE,
            waits=True,
        )


def _decided_before(nights: list[Snapshot], before: datetime) -> list[Snapshot]:
    return [night for night in nights if night.decision and _time(night.decision.at) <= before]


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _days(nights: Iterable[object]) -> str:
    """Format nights as the subject and verb of a sentence, for example `the night ID is`."""
    names = list(map(str, nights))
    if len(names) == 1:
        return f"the night {names[0]} is"
    return f"{len(names)} nights ({', '.join(names[-MAX_SHOWN:])}{left_out(names, MAX_SHOWN)}) are"


def _stale_alerts(layout: Layout) -> Iterator[Alert]:
    rows = _rows(
        layout,
        "select venue_id, stale_since, count(*), any_value(why.error) from instruments "
        "left join (select venue_id, any_value(error) as error from ops.requests "
        "inner join ops.snapshots using (snapshot_id) where is_book and error is not null "
        "and ops.snapshots.snapshot_date = (select max(snapshot_date) from ops.snapshots "
        "where is_book) group by all) as why using (venue_id) "
        "where stale_since is not null group by all order by all",
    )
    empty = (
        "Its lists are empty, without an error. The venue may have closed, or access may be lost."
    )
    for venue, since, count, why in rows:
        yield Alert(
            cause=f"stale:{venue}:{since}",
            title=f"venue {venue} {'could not be read' if why else 'lists no instruments'}",
            words=f"Its {count_of(count, 'instrument')} {'is' if count == 1 else 'are'} from "
            f"{since}, carried over since then. {why or empty}",
            see=str(layout.database),
            command=_query(layout, "select * from findings where kind = 'instruments_stale'"),
        )


def _drift_alerts(layout: Layout) -> Iterator[Alert]:
    """Yield one alert about undocumented data that the API sent for the first time last night."""
    rows = _rows(
        layout,
        "select first_seen, kind, path, word, example, seen from ops.drift where first_seen = "
        "(select max(snapshot_date) from ops.snapshots) order by all",
    )
    if rows:
        lines = [
            f"{kind}: {path} {word}, {count_of(count, 'time')}, for example {str(example)[:80]}"
            for _, kind, path, word, example, count in rows
        ]
        yield Alert(
            cause=f"drift:{rows[0][0]}:{len(rows)}",
            title=f"the API sent {count_of(len(rows), 'kind')} of data that "
            f"{'is' if len(rows) == 1 else 'are'} not as documented",
            words="\n".join(
                (
                    f"First seen on {rows[0][0]}. All responses are stored.",
                    *first_lines(lines, MAX_SHOWN),
                )
            ),
            see=str(layout.database),
            command=_query(layout, "select * from ops.drift order by first_seen desc"),
            kind=INFO,
        )


def _check_alerts(layout: Layout) -> Iterator[Alert]:
    rows = _rows(
        layout,
        "select snapshot_date, check_name, meaning, wrong_rows, example from ops.checks "
        "where not passed and check_name <> 'drift' "
        "union all select snapshot_date, table_name || ' control totals', "
        "'JSON, lake and warehouse agree.', count(*), min(in_json || ' / ' || in_lake) "
        "from ops.control_totals where (in_json <> in_lake or in_lake <> in_warehouse) "
        "and snapshot_id = (select max(snapshot_id) from ops.snapshots where is_book) "
        "group by all order by all",
    )
    for day, name, meaning, wrong, example in rows:
        yield Alert(
            cause=f"check:{name}:{day}",
            title=f"check {name} failed",
            words=f"{meaning} On {day}, this rule was violated by {count_of(wrong, 'row')}, for "
            f"example {example}",
            see=str(layout.database),
            command=_query(layout, "select * from ops.checks where not passed"),
            kind=FAILURE,
        )


def _round_count_alerts(layout: Layout) -> Iterator[Alert]:
    """Yield alerts about lists with a round number of records, which may lack pages."""
    for venue, records, lists in _rows(layout, _ROUND_COUNTS):
        yield Alert(
            cause=f"round:{venue or ''}:{records}",
            title="a list has a round number of records",
            words=f"{lists}: exactly {records} records. Check that the list is complete, not just "
            f"one page of several.{f' Venue: {venue}.' if venue else ''}",
            see=str(layout.database),
            command=_query(layout, "select * from findings where kind = 'round_count'"),
            kind=INFO,
        )


def _clock_alerts(layout: Layout) -> Iterator[Alert]:
    """Yield one alert if this machine's clock differed from the API's in the latest nights."""
    corrected: list[tuple[str, int]] = []
    query = "select snapshot_id, clock_skew_ms from ops.snapshots order by snapshot_id desc"
    for snapshot_id, skew in _rows(layout, query):
        if skew is None:
            break
        corrected.append((snapshot_id, int(skew)))
    if corrected:
        first = snapshot_time(corrected[-1][0])
        side = "behind" if corrected[0][1] > 0 else "ahead of"
        yield Alert(
            cause=f"clock:{corrected[-1][0]}",
            title="this machine's clock is wrong",
            words=f"It has been {abs(corrected[0][1])} ms {side} the API's clock since "
            f"{first:%Y-%m-%d %H:%M} UTC. Each run uses the API's clock, and a night is held if "
            "its date would be different by this machine's clock.",
            see=full_command(layout, "doctor"),
            command="timedatectl set-ntp true",
        )


def _reconciliation_alerts(layout: Layout) -> Iterator[Alert]:
    """Yield alerts about the latest reconciliation."""
    folder = layout.home / "reconcile"
    try:
        result = service.status(folder).run
    except NotReconciled:
        return
    yield from _break_alerts(layout, result, folder)
    yield from _unread_alerts(layout, result, folder)
    if not sum(result.counts.values()):
        yield Alert(
            cause=f"nothing-compared:{result.day}",
            title="the ledger was not compared with any position",
            words=f"Book against ledger, {result.day}: {result.extent}. The book has no "
            "positions in the scope of these files. Correct [file] in recon.toml, then reconcile "
            "again.",
            see=str(folder / "recon.toml"),
            command=full_command(layout, "reconcile", "run"),
        )
    undelivered = result.counts.get(Result.NOT_DELIVERED.value, 0)
    if result.rejected or undelivered:
        yield Alert(
            cause=f"incomplete:{result.day}",
            title="part of the ledger could not be compared",
            words=f"Book against ledger, {result.day}: unreadable rows: "
            f"{result.rejected}; keys of portfolios that the API did not deliver: "
            f"{undelivered}. The other rows were compared.",
            see=str(folder / "out" / result.day.isoformat()),
            command=full_command(layout, "reconcile", "status"),
        )


def _unread_alerts(layout: Layout, result: Run, folder: Path) -> Iterator[Alert]:
    """Yield one alert about inbox files that were neither used nor marked as ignored."""
    if result.unread:
        yield Alert(
            cause=f"unread:{result.day}",
            title="not everything in the inbox was read",
            words=_ledger_lines(result, result.unread),
            see=str(folder / "inbox"),
            command=full_command(layout, "reconcile", "status"),
        )


def _break_alerts(layout: Layout, result: Run, folder: Path) -> Iterator[Alert]:
    """Yield one alert about all open breaks, and one for each day on which old breaks appeared."""
    by_day: dict[str, list[Break]] = {}
    for break_ in result.breaks:
        if break_.is_open:
            by_day.setdefault(break_.first_seen.isoformat(), []).append(break_)
    if not by_day:
        return
    groups = [(max(by_day), "breaks", [break_ for day in sorted(by_day) for break_ in by_day[day]])]
    oldest = (result.day - OLD_BREAK_AGE).isoformat()
    groups += [(day, "breaks-old", by_day[day]) for day in sorted(by_day) if day <= oldest]
    for day, kind, breaks in groups:
        since = "" if kind == "breaks" else f" since {day}"
        verb = "is" if len(breaks) == 1 else "are"
        yield Alert(
            cause=f"{kind}:{day}",
            title=f"{count_of(len(breaks), 'break')} {verb} open{since}",
            words=_ledger_lines(result, list(map(_break_line, breaks))),
            see=str(folder / "out" / result.day.isoformat()),
            command=full_command(layout, "reconcile", "status"),
        )


def _ledger_lines(result: Run, lines: Sequence[str]) -> str:
    return "\n".join((f"Book against ledger, {result.day}:", *first_lines(lines, MAX_SHOWN)))


def _break_line(break_: Break) -> str:
    return f"{break_.id}: {break_.result_words}, {break_.place}, {break_.difference_words}"


def _query(layout: Layout, query: str) -> str:
    """Return a `nightbook query` command that shows the rows that an alert is about."""
    return full_command(layout, "query", query)


def _rows(layout: Layout, query: str) -> tuple[tuple[Any, ...], ...]:
    return ask(layout.database, query).rows
