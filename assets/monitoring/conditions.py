"""What an operator should hear of: nights, stale venues, drift, checks, clock, breaks.

Everything is read from what is kept: the landing zone for nights and decisions
(`assets.monitoring.night_conditions`), the published warehouse for the rest. Nothing is remembered
here: a cause has a name that stays the same, and `assets.monitoring.alerts` tells it once.
"""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from assets.console.invocation import full_command
from assets.monitoring.alerts import FAILURE, INFO, Alert
from assets.monitoring.night_conditions import night_alerts
from assets.monitoring.staleness import GRACE
from assets.monitoring.switches import Switches, switch_alerts
from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from pipelines.landing.night_folders import snapshot_time
from warehouse.contract.wording import count_of, first_lines
from warehouse.query.read import keep_open
from warehouse.query.read import run as ask
from warehouse.reconcile import service
from warehouse.reconcile.model import Break, Result
from warehouse.reconcile.service import Standing
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import Layout

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
