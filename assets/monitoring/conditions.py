"""The conditions that a person must know about: of a home and of a night."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from assets.console.invocation import full_command
from assets.monitoring.alerts import FAILURE, INFO, Alert
from assets.monitoring.due import tick_of
from assets.monitoring.staleness import GRACE
from assets.monitoring.switches import Switches, switch_alerts
from assets.nightbook import Nightbook
from assets.publishing import lost_decisions, shelf
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
from warehouse.reconcile.model import Break, Result
from warehouse.reconcile.service import Standing
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import Layout

LOOK_BACK = timedelta(days=7)


def night_alerts(
    nightbook: Nightbook, nights: list[Snapshot], today: date, patience: timedelta
) -> Iterator[Alert]:
    """Yield what is wrong with nights until it is settled; dates not read, for a week."""
    layout, now = nightbook.layout, nightbook.now()
    yield from _held_alerts(layout, nights)
    yield from _taken_back(layout, nights, now - LOOK_BACK)
    yield from _gaps(nightbook, nights, today)
    yield from _killed_alerts(layout, nights)
    yield from _unjudged_alerts(nightbook, nights, today)
    yield from _unpublished_alerts(layout, nights, now - patience)
    yield from _unshelved_alerts(nightbook, nights, now - patience)
    yield from _missing_alerts(layout)


def book_line(nightbook: Nightbook, day: date | str) -> list[str]:
    """Return a line that says whether a date has a book; nothing if `day` is not a date."""
    try:
        wanted = date.fromisoformat(str(day))
    except ValueError:
        return []
    book = snapshots.books(snapshots.landed_snapshots(nightbook.layout)).get(wanted)
    if book is None:
        return [f"{wanted} has no book yet."]
    return [f"{wanted} has a book: snapshot {book.snapshot_id}."]


def late_alert(nightbook: Nightbook) -> Alert | None:
    """Return an alert for today's night if it is long past its tick and nothing was landed."""
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
        title=f"no book of {today} yet",
        words=f"It was due at {tick:%H:%M} ({settings.timezone}), and nothing was landed since: "
        "no run has begun, or none got so far. Until midnight it can still be read.",
        see=str(layout.home),
        command=full_command(layout, "run"),
        kind=FAILURE,
    )


def published_books(
    layout: Layout, nights: list[Snapshot]
) -> tuple[list[Snapshot], list[Snapshot]]:
    """Return the books that the warehouse shows, and those accepted and never published."""
    untold = lost_decisions.unpublished_snapshots(layout, nights)
    books = list(snapshots.books(nights).values())
    missing = [snapshot for snapshot in books if snapshot.snapshot_id in untold]
    published = [snapshot for snapshot in nights if snapshot.snapshot_id not in untold]
    return list(snapshots.books(published).values()), missing


def unread_dates(nightbook: Nightbook, nights: list[Snapshot], today: date) -> list[date]:
    """Return planned dates after the first night that are over and were not read."""
    landed, settings = {snapshot.snapshot_date for snapshot in nights}, nightbook.settings()
    first = min(landed, default=today)
    days = (first + timedelta(days=number) for number in range((today - first).days))
    return [day for day in days if day not in landed and is_due(settings.schedule, day)]


def _held_alerts(layout: Layout, nights: list[Snapshot]) -> Iterator[Alert]:
    """Yield held nights; those of a date that has a newer book in one message."""
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
            title=f"{count_of(len(held), 'snapshot')} of {day} held, and a newer one is its book",
            words=f"The book of {day} is {books[day].snapshot_id} and stays. Reject what nobody "
            f"needs, or leave it: {', '.join(names[-SHOWN:])}{left_out(names, SHOWN)}.",
            see=str(held[-1].folder),
            command=full_command(layout, "snapshots"),
            waits=True,
        )


def _held_alert(layout: Layout, snapshot: Snapshot, books: Mapping[date, Snapshot]) -> Alert:
    before = [day for day in books if day <= snapshot.snapshot_date]
    stays = f"The book of {before[-1]} stays." if before else "There is no book yet."
    if before and before[-1] == snapshot.snapshot_date:
        stays = f"That date has a book, which stays: {books[before[-1]].snapshot_id}."
    lines = (
        f"Snapshot {snapshot.snapshot_id} waits for your decision. {stays}",
        "The command below shows what accepting it would change, and changes nothing.",
        "Then accept or reject it. If access may have been lost, give the reason: --why '...'",
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


def _taken_back(layout: Layout, nights: list[Snapshot], since: datetime) -> Iterator[Alert]:
    """Yield nights that were books and are none any more: somebody may have used one."""
    books = snapshots.books(nights)
    for snapshot in nights:
        states = [decision.state for decision in snapshot.decisions]
        was_accepted = states[-2:] == [ACCEPTED, REJECTED]
        if snapshot.decision is None or not was_accepted or _at(snapshot.decision.at) < since:
            continue
        if not _was_book(snapshot, nights):
            continue
        book = books.get(snapshot.snapshot_date)
        is_now = f"its book is {book.snapshot_id} again" if book else "it has no book: a gap"
        files = "\n".join(snapshot.decision.withdrawn)
        yield Alert(
            cause=f"taken back:{snapshot.snapshot_id}:{snapshot.decision.at}",
            title=f"the book of {snapshot.snapshot_date} was taken back",
            words=f"Snapshot {snapshot.snapshot_id} was accepted, and was rejected by "
            f"{snapshot.decision.by}: {'; '.join(snapshot.decision.reasons)}. "
            f"Of that date, {is_now}. Made of it:\n{files or 'no file'}",
            see=str(snapshot.folder),
            command=full_command(layout, "snapshots"),
        )


def _was_book(snapshot: Snapshot, nights: list[Snapshot]) -> bool:
    """Return whether a snapshot that was accepted and then rejected was the book in between."""
    accepted, rejected = snapshot.decisions[-2:]
    newer = [
        other
        for other in nights
        if other.snapshot_date == snapshot.snapshot_date
        and other.snapshot_id > snapshot.snapshot_id
    ]
    # The newest accepted snapshot of a date is its book, so only decisions on newer ones matter.
    moments = [accepted.at, *(decision.at for other in newer for decision in other.decisions)]
    return any(
        not any(other.state_at(_at(moment)) == ACCEPTED for other in newer)
        for moment in moments
        if _at(accepted.at) <= _at(moment) < _at(rejected.at)
    )


def _gaps(nightbook: Nightbook, nights: list[Snapshot], today: date) -> Iterator[Alert]:
    """Yield planned dates of the last week that are over and were not read."""
    layout = nightbook.layout
    for day in unread_dates(nightbook, nights, today):
        if day >= today - LOOK_BACK:
            yield Alert(
                cause=f"gap:{day}",
                title=f"{day} was not read",
                words=f"No snapshot of {day} was landed, and the API tells only what is held now: "
                "that date stays a gap (ops.gaps).",
                see=str(layout.landing),
                command=full_command(layout, "status"),
                kind=FAILURE,
            )


def _killed_alerts(layout: Layout, nights: list[Snapshot]) -> Iterator[Alert]:
    """Yield dates of which a dead pull left its unfinished folder, and that have no snapshot."""
    with acquire_if_free(layout.pull_lock) as is_nobody_pulling:
        folders = list(layout.landing.glob("*/.*.pulling")) if is_nobody_pulling else []
    landed = {str(snapshot.snapshot_date) for snapshot in nights}
    for day in sorted({folder.parent.name for folder in folders} - landed):
        yield Alert(
            cause=f"killed:{day}",
            title=f"the run that read {day} was killed",
            words=f"It landed no snapshot, so {day} has no book. The API tells only what is held "
            "now: until midnight the date can still be read.",
            see=str(layout.landing / day),
            command=full_command(layout, "run"),
            kind=FAILURE,
        )


def _unjudged_alerts(nightbook: Nightbook, nights: list[Snapshot], today: date) -> Iterator[Alert]:
    """Yield landed nights that nobody judged, when the run that landed them must be over."""
    layout, now = nightbook.layout, nightbook.now()
    patience = timedelta(seconds=nightbook.settings().deadline) + GRACE
    for snapshot in nights:
        if snapshot.state != COMPLETE or now < snapshot_time(snapshot.snapshot_id) + patience:
            continue
        day = snapshot.snapshot_date
        of = () if day == today else ("--date", str(day))
        yield Alert(
            cause=f"unfinished:{snapshot.snapshot_id}",
            title=f"the night of {day} is landed and not judged",
            words=f"Snapshot {snapshot.snapshot_id} is no book: the run that landed it came to no "
            "end, or what was decided is lost. Its bytes are here; the next run judges and "
            "publishes it.",
            see=str(snapshot.folder),
            command=full_command(layout, "run", *of),
            waits=True,
        )


def _unpublished_alerts(
    layout: Layout, nights: list[Snapshot], before: datetime
) -> Iterator[Alert]:
    """Yield in one message the books accepted before a moment and not published."""
    _, missing = published_books(layout, nights)
    old = [
        snapshot
        for snapshot in missing
        if snapshot.decision and _at(snapshot.decision.at) <= before
    ]
    if old:
        yield Alert(
            cause=f"unpublished:{old[-1].snapshot_id}:{len(old)}",
            title=f"{_days(snapshot.snapshot_date for snapshot in old)} accepted and "
            "not in the warehouse",
            words="Whoever opens the warehouse sees an older book. The run that accepted "
            f"{old[-1].snapshot_id} did not get as far as publishing it; all is there to make it "
            "of.",
            see=str(layout.database),
            command=full_command(layout, "rebuild"),
            kind=FAILURE,
            waits=True,
        )


def _unshelved_alerts(
    nightbook: Nightbook, nights: list[Snapshot], before: datetime
) -> Iterator[Alert]:
    """Yield in one message the nights decided before a moment that are not on the shelf so."""
    old = [
        snapshot
        for snapshot in shelf.waiting_nights(nightbook, nights)
        if snapshot.decision and _at(snapshot.decision.at) <= before
    ]
    if old:
        yield Alert(
            cause=f"unshelved:{old[-1].snapshot_id}:{len(old)}",
            title=f"{_days(snapshot.snapshot_id for snapshot in old)} not on the shelf",
            words="Other machines do not see them, or not as they were decided. Here they are "
            "whole and published; the next run shelves them, and says why where it cannot.",
            see=str(nightbook.layout.home),
            command=full_command(nightbook.layout, "shelve"),
            kind=FAILURE,
            waits=True,
        )


def _missing_alerts(layout: Layout) -> Iterator[Alert]:
    """Yield in one message the nights of lake or warehouse that landing does not hold."""
    nights = [damage.night or "" for damage in missing_landings(layout)]
    if nights:
        yield Alert(
            cause=f"gone:{nights[-1]}:{len(nights)}",
            title=f"{_days(nights)} gone from the landing zone",
            words="Lake or warehouse tell of them, and what was landed of them is not there. The "
            "API keeps no history: restore them from a backup (nightbook --home NEW restore FILE).",
            see=str(layout.landing),
            command=full_command(layout, "verify"),
            kind=FAILURE,
            waits=True,
        )


def _at(moment: str) -> datetime:
    return datetime.fromisoformat(moment).astimezone(UTC)


def _days(nights: Iterable[object]) -> str:
    """Return nights by name, the newest of many, with the verb."""
    names = list(map(str, nights))
    if len(names) == 1:
        return f"the night {names[0]} is"
    return f"{len(names)} nights ({', '.join(names[-SHOWN:])}{left_out(names, SHOWN)}) are"


AGED = timedelta(days=7)
SHOWN = 5


def find_alerts(
    nightbook: Nightbook, *, patience: timedelta = GRACE, dagster: Switches | None = None
) -> list[Alert]:
    """Return everything that is not as it should be, of all nights and of the newest book."""
    # A run has `patience` to publish what it accepted; `dagster` is given where it was read
    # already.
    layout, now = nightbook.layout, nightbook.now()
    today = now.astimezone(nightbook.settings().timezone).date()
    nights = snapshots.landed_snapshots(layout)
    alerts = [*switch_alerts(nightbook, dagster), *night_alerts(nightbook, nights, today, patience)]
    if layout.database.exists():
        with keep_open(layout.database):
            alerts += [*_stale(layout), *_drift(layout), *_checks(layout), *_clock(layout)]
            alerts += _round_counts(layout)
    return [*alerts, *_reconciliation_alerts(layout)]


def _stale(layout: Layout) -> Iterator[Alert]:
    rows = _rows(
        layout,
        "select venue_id, stale_since, count(*), any_value(why.error) from instruments "
        "left join (select venue_id, any_value(error) as error from ops.requests "
        "inner join ops.snapshots using (snapshot_id) where is_book and error is not null "
        "and ops.snapshots.snapshot_date = (select max(snapshot_date) from ops.snapshots "
        "where is_book) group by all) as why using (venue_id) "
        "where stale_since is not null group by all order by all",
    )
    empty = "Its lists came empty, without an error: gone, or our access is."
    for venue, since, count, why in rows:
        yield Alert(
            cause=f"stale:{venue}:{since}",
            title=f"venue {venue} {'could not be read' if why else 'lists no instruments'}",
            words=f"Its {count_of(count, 'instrument')} {'is that' if count == 1 else 'are those'} "
            f"of {since}, carried over since. {why or empty}",
            see=str(layout.database),
            command=full_command(
                layout, "query", "select * from findings where kind = 'instruments_stale'"
            ),
        )


def _drift(layout: Layout) -> Iterator[Alert]:
    """Yield in one message what the newest night was the first to have, held or not."""
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
            title=f"the API sent {count_of(len(rows), 'thing')} that "
            f"{'is' if len(rows) == 1 else 'are'} not as documented",
            words="\n".join(
                (f"First seen {rows[0][0]}; every body is kept.", *first_lines(lines, SHOWN))
            ),
            see=str(layout.database),
            command=full_command(
                layout, "query", "select * from ops.drift order by first_seen desc"
            ),
            kind=INFO,
        )


def _checks(layout: Layout) -> Iterator[Alert]:
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
            words=f"{meaning} Wrong of {day}: {count_of(wrong, 'row')}, first: {example}",
            see=str(layout.database),
            command=full_command(layout, "query", "select * from ops.checks where not passed"),
            kind=FAILURE,
        )


def _round_counts(layout: Layout) -> Iterator[Alert]:
    """Yield lists that look like one page of several; once for each list and count."""
    query = "select venue_id, words from findings where kind = 'round_count' order by all"
    for venue, description in _rows(layout, query):
        yield Alert(
            cause=f"round:{venue or ''}:{description}",
            title="a list has a round number of records",
            words=f"{description} {f'Venue: {venue}.' if venue else ''}".strip(),
            see=str(layout.database),
            command=full_command(
                layout, "query", "select * from findings where kind = 'round_count'"
            ),
            kind=INFO,
        )


def _clock(layout: Layout) -> Iterator[Alert]:
    """Yield that the newest nights had to correct this clock; once until one needs it no more."""
    spell: list[tuple[str, int]] = []
    query = "select snapshot_id, clock_skew_ms from ops.snapshots order by snapshot_id desc"
    for snapshot_id, skew in _rows(layout, query):
        if skew is None:
            break
        spell.append((snapshot_id, int(skew)))
    if spell:
        first = snapshot_time(spell[-1][0])
        side = "behind" if spell[0][1] > 0 else "ahead of"
        yield Alert(
            cause=f"clock:{spell[-1][0]}",
            title="this machine's clock is off",
            words=f"It is {abs(spell[0][1])} ms {side} the API's since {first:%Y-%m-%d %H:%M} "
            "UTC. Each run signs and dates by the API's; a night that has another date here is "
            "held.",
            see=full_command(layout, "doctor"),
            command="timedatectl set-ntp true",
        )


def _reconciliation_alerts(layout: Layout) -> Iterator[Alert]:
    """Yield what of the newest reconciliation a person must settle."""
    folder = layout.home / "reconcile"
    try:
        standing = service.status(folder)
    except NotReconciled:
        return
    yield from _breaks(layout, standing, folder)
    yield from _unread(layout, standing, folder)
    if not sum(standing.counts.values()):
        yield Alert(
            cause=f"nothing-compared:{standing.day}",
            title="the ledger was compared with nothing",
            words=f"Book against ledger, {standing.day}: {standing.extent}. What its files cover "
            "has no position in the book. Correct [file] in recon.toml, then run again.",
            see=str(folder / "recon.toml"),
            command=full_command(layout, "reconcile", "run"),
        )
    undelivered = standing.counts.get(Result.NOT_DELIVERED.value, 0)
    if standing.rejected or undelivered:
        yield Alert(
            cause=f"incomplete:{standing.day}",
            title="a part of the ledger could not be compared",
            words=f"Book against ledger, {standing.day}: rows that cannot be read: "
            f"{standing.rejected}; keys of portfolios that the API did not deliver: "
            f"{undelivered}. The others were compared.",
            see=str(folder / "out" / standing.day.isoformat()),
            command=full_command(layout, "reconcile", "status"),
        )


def _unread(layout: Layout, standing: Standing, folder: Path) -> Iterator[Alert]:
    """Tell of files of the inbox that were not used and that nobody decided about."""
    if standing.unread:
        yield Alert(
            cause=f"unread:{standing.day}",
            title="not everything in the inbox was read",
            words="\n".join(
                (f"Book against ledger, {standing.day}:", *first_lines(standing.unread, SHOWN))
            ),
            see=str(folder / "inbox"),
            command=full_command(layout, "reconcile", "status"),
        )


def _breaks(layout: Layout, standing: Standing, folder: Path) -> Iterator[Alert]:
    """Yield open breaks: when new ones came, and once more when those of a day are old."""
    by_day: dict[str, list[Break]] = {}
    for break_ in standing.breaks:
        if break_.is_open:
            by_day.setdefault(break_.first_seen.isoformat(), []).append(break_)
    if not by_day:
        return
    groups = [(max(by_day), "breaks", [break_ for day in sorted(by_day) for break_ in by_day[day]])]
    old = (standing.day - AGED).isoformat()
    groups += [(day, "breaks-old", by_day[day]) for day in sorted(by_day) if day <= old]
    for day, kind, breaks in groups:
        since = "" if kind == "breaks" else f" since {day}"
        lines = list(map(_break_line, breaks))
        yield Alert(
            cause=f"{kind}:{day}",
            title=f"{_count_are(len(breaks), 'break')} open{since}",
            words="\n".join((f"Book against ledger, {standing.day}:", *first_lines(lines, SHOWN))),
            see=str(folder / "out" / standing.day.isoformat()),
            command=full_command(layout, "reconcile", "status"),
        )


def _break_line(break_: Break) -> str:
    return f"{break_.id}: {break_.result_words}, {break_.place}, {break_.difference_words}"


def _count_are(number: int, noun: str) -> str:
    return f"1 {noun} is" if number == 1 else f"{number} {noun}s are"


def _rows(layout: Layout, query: str) -> tuple[tuple[Any, ...], ...]:
    return ask(layout.database, query).rows
