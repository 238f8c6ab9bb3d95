"""What an operator should hear of: nights, stale venues, drift, checks, clock, breaks.

Everything is read from what is kept: the landing zone for nights and decisions
(`assets.monitoring.night_conditions`), the published warehouse for the rest. Nothing is remembered
here: a cause has a name that stays the same, and `assets.monitoring.alerts` tells it once.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from assets.console.invocation import full_command
from assets.monitoring.alerts import FAILURE, INFO, Alert
from assets.monitoring.night_conditions import GRACE, night_alerts
from assets.monitoring.switches import Switches, turned_off
from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from warehouse.contract.wording import count_of
from warehouse.query.read import run as ask
from warehouse.reconcile import service
from warehouse.reconcile.comments.annotations import ACCEPTED
from warehouse.reconcile.errors import NotReconciled
from warehouse.reconcile.service import Standing
from warehouse.storage.layout import Layout

AGED = timedelta(days=7)
SHOWN = 5


def concerns(
    nightbook: Nightbook, *, patience: timedelta = GRACE, seen: Switches | None = None
) -> list[Alert]:
    """Everything that is not as it should be, of all nights and of the newest book.

    A run has `patience` to publish what it accepted. `seen` is how the switches stand, where they
    were looked at already.
    """
    layout, now = nightbook.layout, nightbook.now()
    today = now.astimezone(nightbook.settings().timezone).date()
    known = snapshots.landed_snapshots(layout)
    found = [*turned_off(nightbook, seen), *night_alerts(nightbook, known, today, patience)]
    if layout.database.exists():
        found += [*_stale(layout), *_drift(layout), *_checks(layout), *_clock(layout)]
        found += _rounds(layout)
    return [*found, *_reconciliation_alerts(layout)]


def _stale(layout: Layout) -> Iterator[Alert]:
    found = _rows(
        layout,
        "select venue_id, stale_since, count(*), any_value(why.error) from instruments "
        "left join (select venue_id, any_value(error) as error from ops.requests "
        "inner join ops.snapshots using (snapshot_id) where is_book and error is not null "
        "and ops.snapshots.snapshot_date = (select max(snapshot_date) from ops.snapshots "
        "where is_book) group by all) as why using (venue_id) "
        "where stale_since is not null group by all order by all",
    )
    empty = "Its lists came empty, without an error: gone, or our access is."
    for venue, since, count, why in found:
        yield Alert(
            f"stale:{venue}:{since}",
            f"venue {venue} could not be read" if why else f"venue {venue} lists no instruments",
            f"Its {count_of(count, 'instrument')} {'is that' if count == 1 else 'are those'} of "
            f"{since}, carried over since. {why or empty}",
            str(layout.database),
            full_command(
                layout, "query", "select * from findings where kind = 'instruments_stale'"
            ),
        )


def _drift(layout: Layout) -> Iterator[Alert]:
    """What the newest night was the first to have, held or not, all in one message."""
    found = _rows(
        layout,
        "select first_seen, kind, path, word, example, seen from ops.drift where first_seen = "
        "(select max(snapshot_date) from ops.snapshots) order by all",
    )
    if found:
        lines = [
            f"{kind}: {path} {word}, {count_of(seen, 'time')}, for example {str(example)[:80]}"
            for _, kind, path, word, example, seen in found
        ]
        yield Alert(
            f"drift:{found[0][0]}:{len(found)}",
            f"the API sent {count_of(len(found), 'thing')} that "
            f"{'is' if len(found) == 1 else 'are'} not as documented",
            "\n".join((f"First seen {found[0][0]}; every body is kept.", *_some(lines))),
            str(layout.database),
            full_command(layout, "query", "select * from ops.drift order by first_seen desc"),
            kind=INFO,
        )


def _checks(layout: Layout) -> Iterator[Alert]:
    found = _rows(
        layout,
        "select snapshot_date, check_name, meaning, wrong_rows, example from ops.checks "
        "where not passed and check_name <> 'drift' "
        "union all select snapshot_date, table_name || ' control totals', "
        "'JSON, lake and warehouse agree.', count(*), min(in_json || ' / ' || in_lake) "
        "from ops.control_totals where (in_json <> in_lake or in_lake <> in_warehouse) "
        "and snapshot_id = (select max(snapshot_id) from ops.snapshots where is_book) "
        "group by all order by all",
    )
    for day, name, meaning, wrong, example in found:
        yield Alert(
            f"check:{name}:{day}",
            f"check {name} failed",
            f"{meaning} Wrong of {day}: {count_of(wrong, 'row')}, first: {example}",
            str(layout.database),
            full_command(layout, "query", "select * from ops.checks where not passed"),
            kind=FAILURE,
        )


def _rounds(layout: Layout) -> Iterator[Alert]:
    """Lists that look like one page of several; told once for each list and count."""
    query = "select venue_id, words from findings where kind = 'round_count' order by all"
    for venue, words in _rows(layout, query):
        yield Alert(
            f"round:{venue or ''}:{words}",
            "a list has a round number of records",
            f"{words} {f'Venue: {venue}.' if venue else ''}".strip(),
            str(layout.database),
            full_command(layout, "query", "select * from findings where kind = 'round_count'"),
            kind=INFO,
        )


def _clock(layout: Layout) -> Iterator[Alert]:
    """A clock that the newest night had to correct; told once until a night needs it no more."""
    spell: list[tuple[str, int]] = []
    query = "select snapshot_id, clock_skew_ms from ops.snapshots order by snapshot_id desc"
    for snapshot_id, skew in _rows(layout, query):
        if skew is None:
            break
        spell.append((snapshot_id, int(skew)))
    if spell:
        first = datetime.strptime(spell[-1][0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        side = "behind" if spell[0][1] > 0 else "ahead of"
        yield Alert(
            f"clock:{spell[-1][0]}",
            "this machine's clock is off",
            f"It is {abs(spell[0][1])} ms {side} the API's since {first:%Y-%m-%d %H:%M} UTC. Each "
            "run signs and dates by the API's; a night that has another date here is held.",
            full_command(layout, "doctor"),
            "timedatectl set-ntp true",
        )


def _reconciliation_alerts(layout: Layout) -> Iterator[Alert]:
    """What of the newest reconciliation a person must settle."""
    folder = layout.home / "reconcile"
    try:
        standing = service.status(folder)
    except NotReconciled:
        return
    yield from _breaks(layout, standing, folder)
    yield from _unread(layout, standing, folder)
    lost = standing.counts.get("Portfolio not delivered", 0)
    if standing.rejected or lost:
        yield Alert(
            f"incomplete:{standing.day}",
            "a part of the ledger could not be compared",
            f"Book against ledger, {standing.day}: rows that cannot be read: {standing.rejected}; "
            f"keys of portfolios that the API did not deliver: {lost}. The others were compared.",
            str(folder / "out" / standing.day.isoformat()),
            full_command(layout, "reconcile", "status"),
        )


def _unread(layout: Layout, standing: Standing, folder: Path) -> Iterator[Alert]:
    """Tell of files of the inbox that were not used and that nobody decided about."""
    if standing.unread:
        yield Alert(
            f"unread:{standing.day}",
            "not everything in the inbox was read",
            "\n".join((f"Book against ledger, {standing.day}:", *_some(standing.unread))),
            str(folder / "inbox"),
            full_command(layout, "reconcile", "status"),
        )


def _breaks(layout: Layout, standing: Standing, folder: Path) -> Iterator[Alert]:
    """Open breaks: told when new ones came, and once more when those of a day have grown old."""
    by_day: dict[str, list[dict[str, Any]]] = {}
    for break_ in standing.breaks:
        if break_["status"] != ACCEPTED:
            by_day.setdefault(break_["first_seen"], []).append(break_)
    if not by_day:
        return
    told = [(max(by_day), "breaks", [break_ for day in sorted(by_day) for break_ in by_day[day]])]
    old = (standing.day - AGED).isoformat()
    told += [(day, "breaks-old", by_day[day]) for day in sorted(by_day) if day <= old]
    for day, kind, breaks in told:
        since = "" if kind == "breaks" else f" since {day}"
        yield Alert(
            f"{kind}:{day}",
            f"{_count_of(len(breaks), 'break')} open{since}",
            "\n".join((f"Book against ledger, {standing.day}:", *_some(map(_broken, breaks)))),
            str(folder / "out" / standing.day.isoformat()),
            full_command(layout, "reconcile", "status"),
        )


def _broken(break_: dict[str, Any]) -> str:
    where = " / ".join(map(str, break_["names"].values()))
    return f"{break_['id']}: {break_['result']}, {break_['difference'] or 'no amount'}, {where}"


def _count_of(number: int, thing: str) -> str:
    return f"1 {thing} is" if number == 1 else f"{number} {thing}s are"


def _some(lines: Iterable[str]) -> list[str]:
    """The first lines, and how many more there are."""
    every = list(lines)
    more = [f"and {len(every) - SHOWN} more"] if len(every) > SHOWN else []
    return [*every[:SHOWN], *more]


def _rows(layout: Layout, query: str) -> tuple[tuple[Any, ...], ...]:
    return ask(layout.database, query).rows
