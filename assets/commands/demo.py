"""`nightbook demo`: simulated nights on this machine, without an API key."""

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from time import monotonic

import click

from assets.commands import reconcile
from assets.commands.run import take
from assets.console.command import HomeCommand
from assets.console.invocation import command_for
from assets.console.parameters import flag
from assets.console.rows import print_lines
from assets.home.demo import (
    FIRST_NIGHTS,
    drop_tables,
    drop_transactions,
    next_of_demo,
    the_demo,
)
from assets.nightbook import FixedVariables, Nightbook
from pipelines.landing import snapshots
from pipelines.sandbox.server import DEMO_KEY, DEMO_KEYS, DEMO_SECRET, application, serve
from pipelines.sandbox.world.world import LivingWorld
from warehouse.contract.model import count_of
from warehouse.query.formats import as_table
from warehouse.query.read import run as ask
from warehouse.reconcile import service
from warehouse.reconcile.record.record import Record
from warehouse.report.build import LATEST
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

HOUR, MINUTE = 2, 15
HELD = (
    "select asset_id, is_custom_asset, total_text, portfolios, venues "
    "from holdings_by_asset order by accounts desc limit 8"
)
OVER_TIME = (
    "select snapshot_date, exact_sum(amount_text) as btc from history.balances "
    "where asset_id = 'BTC' and not is_custom_asset group by all order by all"
)
VALUE = (
    "select snapshot_date, value_text as usd, assets, unpriced_assets, stale_assets "
    "from value_by_night('USD') order by all"
)
MOVED = (
    "select state, count(*) as positions from movement_between("
    "(select max(snapshot_date) - 1 from portfolios), (select max(snapshot_date) from portfolios)) "
    "group by all order by all"
)
QUESTIONS = (
    ("Each asset's total across all portfolios", HELD),
    ("The exact total of one asset on each night", OVER_TIME),
    ("The value of the book, with the prices in reference/prices/", VALUE),
    ("Whether the transactions explain the last night", MOVED),
)
NEXT = (
    ("tables", "list the warehouse's tables and their columns"),
    ("snapshots", "list the nights and their states"),
    ("export --format csv", "export the positions"),
    ("reconcile run", "compare the book with a ledger that has errors (exits with code 3)"),
    ("reconcile run --movements", "prove which changes the transactions explain (also code 3)"),
    ("demo --next", "simulate one more night: breaks age, close and reopen"),
    ("dev", "show the same nights in Dagster, in a browser"),
    ("sandbox", "serve the simulated API for your own client"),
)


class SimulatedClock:
    """A clock that can be set to any time and then keeps running."""

    def __init__(self) -> None:
        self._set_at = monotonic()
        self._time = datetime.now(UTC)

    def set(self, time: datetime) -> None:
        """Set the clock to a time. It then continues to run."""
        self._set_at, self._time = monotonic(), time

    def __call__(self) -> datetime:
        """Return the simulated time in UTC."""
        return self._time + timedelta(seconds=monotonic() - self._set_at)


@click.command(cls=HomeCommand, needs_home=False, writes=True)
@flag("--next", "is_next", help="Simulate one more night and its ledger")
def demo_command(nightbook: Nightbook, *, is_next: bool) -> int:
    """Simulate three nights in a built-in sandbox, without an API key."""
    if is_next:
        return _run_next(nightbook)
    layout = nightbook.layout
    today = nightbook.now().astimezone(nightbook.settings().timezone)
    with the_demo(layout, nightbook.now()):
        code = _take_nights(
            nightbook, [today - timedelta(days=ago) for ago in reversed(range(FIRST_NIGHTS))], today
        )
        if code:
            return code
        service.init(layout.database, layout.home / "reconcile")
        ledger, planted = service.rehearse(layout.database, layout.home / "reconcile")
    _print_result(layout)
    print(f"\nFor finance: the ledger is {ledger}. It contains these errors:")
    print_lines(planted, "  - ")
    return 0


def _run_next(nightbook: Nightbook) -> int:
    """Simulate one more night and its ledger, then compare the book with the ledger."""
    layout, settings = nightbook.layout, nightbook.settings()
    folder = layout.home / "reconcile"
    with next_of_demo(layout, nightbook.now()) as days:
        first = days[FIRST_NIGHTS - 1]
        night = datetime.combine(days[-1] + timedelta(days=1), time(HOUR, MINUTE))
        night = night.replace(tzinfo=settings.timezone)
        morning = _demo_at(nightbook, night + timedelta(hours=6))
        if days[-1] not in Record(folder).days():
            print(f"The ledger for {days[-1]} has not been compared yet, so this is done first.")
            reconcile.compare(_demo_at(nightbook, night), folder, as_of=days[-1])
        code = _take_nights(nightbook, [night], night)
        if code:
            return code
        ledger, errors = service.rehearse(layout.database, folder, first=first)
        print(f"\nThe ledger for {night.date()}: {ledger}\nIt contains these errors:")
        print_lines(errors, "  - ")
        print()
        reconcile.compare(morning, folder)
    me = command_for(layout)
    print("\nNext: open the workbook, fill in its yellow cells, save it, and type")
    print(f"  {me} demo --next            simulate the next night (your entries are kept)")
    print(f"  {me} reconcile history ID   show the history of one break")
    print(f"  {me} reconcile close {night:%Y-%m}  lock the month and write it to a single file")
    return 0


def _demo_at(nightbook: Nightbook, moment: datetime) -> Nightbook:
    """Return the context for a demo command that runs at a simulated time."""
    clock = SimulatedClock()
    clock.set(moment.astimezone(UTC))
    return replace(nightbook, now=clock, is_demo=True)


def _take_nights(nightbook: Nightbook, days: Sequence[datetime], latest: datetime) -> int:
    """Serve the sandbox, and pull a night for each date until a run fails. Return the exit code."""
    settings = nightbook.settings()
    clock = SimulatedClock()
    errors: tuple[str, ...] = ()
    app = application(LivingWorld(), DEMO_KEYS, lambda: int(clock().timestamp() * 1000))
    with serve(app) as served:
        access = {
            "NIGHTBOOK_API_URL": served.origin,
            "NIGHTBOOK_API_KEY": DEMO_KEY,
            "NIGHTBOOK_API_SECRET": DEMO_SECRET,
            "NIGHTBOOK_API_SECRET_FILE": "",
            HOME: str(settings.home),
        }
        demo = Nightbook(FixedVariables(dict(nightbook.variables()) | access), clock, is_demo=True)
        nights = f"{count_of(len(days), 'simulated night')} follow{'s' * (len(days) == 1)}"
        print(f"The sandbox is serving the API at {served.origin}; {nights}.\n")
        for day in days:
            night = min(day.replace(hour=HOUR, minute=MINUTE, second=0, microsecond=0), latest)
            if day == latest:
                drop_tables(nightbook.layout)
                errors = drop_transactions(nightbook.layout, night - timedelta(days=1), night)
            clock.set(night.astimezone(UTC))
            code = take(demo, night.date())
            if code:
                return code
    print("\nThe transactions since the night before, in reference/transactions/, have errors:")
    print_lines(errors, "  - ")
    return 0


def _print_result(layout: Layout) -> None:
    me = command_for(layout)
    nights = len(snapshots.books(snapshots.landed_snapshots(layout)))
    print(f"\n{count_of(nights, 'night')} {'is' if nights == 1 else 'are'} in the book.\n\nOpen:")
    print(f"  {layout.database}   (open it read-only in the DuckDB CLI, DBeaver or Python)")
    print_lines([layout.reports / LATEST, *sorted(layout.exports.glob("*.xlsx"))[-1:]])
    for description, sql in QUESTIONS:
        print(f'\n{description}:\n  {me} query "{sql}"\n')
        print(textwrap.indent(as_table(ask(layout.database, sql)).rstrip("\n"), "  "))
    print("\nNext:")
    print_lines(f"{me} {command:<26} {description}" for command, description in NEXT)
