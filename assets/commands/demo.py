"""`nightbook demo`: three simulated nights through the real job, over real loopback HTTP.

`--next` takes one more, with the ledger that somebody kept for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from time import monotonic

from assets.commands import reconcile
from assets.commands.run import take
from assets.console.invocation import command_for
from assets.home.demo import next_of_demo, the_demo
from assets.nightbook import Nightbook
from pipelines.landing import snapshots
from pipelines.sandbox.application import application
from pipelines.sandbox.server import DEMO_KEY, DEMO_KEYS, DEMO_SECRET, serve
from pipelines.sandbox.world.world import LivingWorld
from warehouse.contract.wording import count_of
from warehouse.query.formats import as_table
from warehouse.query.read import run as ask
from warehouse.reconcile import service
from warehouse.reconcile.record.record import Record
from warehouse.report.build import LATEST
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

NIGHTS = 3
HOUR, MINUTE = 2, 15
HELD = (
    "select asset_id, is_custom_asset, total_text, portfolios, venues "
    "from holdings_by_asset order by accounts desc limit 8"
)
OVER_TIME = (
    "select snapshot_date, exact_sum(amount_text) as btc from history.balances "
    "where asset_id = 'BTC' and not is_custom_asset group by all order by all"
)
QUESTIONS = (
    ("What is held of each asset, over all portfolios", HELD),
    ("What one asset was on each night, to the last digit", OVER_TIME),
)


NEXT = (
    ("tables", "what is in the warehouse, column by column"),
    ("snapshots", "the nights and their states"),
    ("export --format csv", "positions for machines and for people"),
    ("reconcile run", "the book against a ledger in which errors are planted: exit code 3"),
    ("demo --next", "one more night with its ledger: breaks age, close and come back"),
    ("dev", "the same nights in Dagster, in a browser"),
    ("sandbox", "the API itself, to point your own client at"),
)


class SimulatedClock:
    """A clock that can be set to another night, and then runs on."""

    def __init__(self) -> None:
        self._set_at = monotonic()
        self._moment = datetime.now(UTC)

    def set(self, moment: datetime) -> None:
        """Let it be that moment now."""
        self._set_at, self._moment = monotonic(), moment

    def __call__(self) -> datetime:
        """Return the time it is, in UTC."""
        return self._moment + timedelta(seconds=monotonic() - self._set_at)


def run(nightbook: Nightbook, *, is_next: bool) -> int:
    """Take three nights, or one more; then say what to open and what to type next."""
    if is_next:
        return _run_next(nightbook)
    layout = nightbook.layout
    today = nightbook.now().astimezone(nightbook.settings().timezone)
    with the_demo(layout, nightbook.now()):
        code = _take_nights(
            nightbook, [today - timedelta(days=ago) for ago in reversed(range(NIGHTS))], today
        )
        if code:
            return code
        service.init(layout.database, layout.home / "reconcile")
        ledger, planted = service.rehearse(layout.database, layout.home / "reconcile")
    _tell(layout)
    print(f"\nFor finance: {ledger} is that ledger. In it, one line")
    for error in planted:
        print(f"  - {error}")
    return 0


def _run_next(nightbook: Nightbook) -> int:
    """Take the night after the last one, with its ledger, and hold them against each other."""
    layout, settings = nightbook.layout, nightbook.settings()
    folder = layout.home / "reconcile"
    with next_of_demo(layout, nightbook.now()) as days:
        first = days[NIGHTS - 1]
        night = datetime.combine(days[-1] + timedelta(days=1), time(HOUR, MINUTE))
        night = night.replace(tzinfo=settings.timezone)
        morning = _demo_at(nightbook, night + timedelta(hours=6))
        if days[-1] not in Record(folder).days():
            print(f"The ledger of {days[-1]} was not compared yet: that comes first.")
            reconcile.run(_demo_at(nightbook, night), as_of=days[-1], restate="")
        code = _take_nights(nightbook, [night], night)
        if code:
            return code
        ledger, errors = service.rehearse(layout.database, folder, first=first)
        print(f"\nThe ledger of {night.date()}: {ledger}\nIn it, one line")
        for error in errors:
            print(f"  - {error}")
        print()
        reconcile.run(morning, as_of=None, restate="")
    me = command_for(layout)
    print("\nNext: open the workbook, write into its yellow cells, save it, and type")
    print(f"  {me} demo --next            the night after, in which your words come back")
    print(f"  {me} reconcile history ID   all days of one break, and what was said of it")
    print(f"  {me} reconcile close {night:%Y-%m}  lock the month, into one file")
    return 0


def _demo_at(nightbook: Nightbook, moment: datetime) -> Nightbook:
    """Return the demo at a simulated moment."""
    clock = SimulatedClock()
    clock.set(moment.astimezone(UTC))
    return replace(nightbook, now=clock, is_demo=True)


def _take_nights(nightbook: Nightbook, days: Sequence[datetime], latest: datetime) -> int:
    """Serve the sandbox and take nights of it; the exit code of the first that fails."""
    settings = nightbook.settings()
    clock = SimulatedClock()
    app = application(LivingWorld(), DEMO_KEYS, lambda: int(clock().timestamp() * 1000))
    with serve(app) as served:
        access = {
            "NIGHTBOOK_API_URL": served.origin,
            "NIGHTBOOK_API_KEY": DEMO_KEY,
            "NIGHTBOOK_API_SECRET": DEMO_SECRET,
            "NIGHTBOOK_API_SECRET_FILE": "",
            HOME: str(settings.home),
        }
        variables = dict(nightbook.variables()) | access
        demo = Nightbook(lambda: variables, clock, is_demo=True)
        follow = f"{count_of(len(days), 'night')} of its world follow{'s' * (len(days) == 1)}"
        print(f"The sandbox answers at {served.origin}; {follow}.\n")
        for day in days:
            night = day.replace(hour=HOUR, minute=MINUTE, second=0, microsecond=0)
            clock.set(min(night, latest).astimezone(UTC))
            code = take(demo, night.date())
            if code:
                return code
    return 0


def _tell(layout: Layout) -> None:
    me = command_for(layout)
    nights = len(snapshots.books(snapshots.landed_snapshots(layout)))
    print(f"\n{count_of(nights, 'night')} {'is' if nights == 1 else 'are'} in the book.\n\nOpen:")
    print(f"  {layout.database}   (DuckDB CLI, DBeaver, Python: read-only)")
    newest = sorted(layout.exports.glob("*.xlsx"))[-1:]
    for file in [layout.reports / LATEST, *newest]:
        print(f"  {file}")
    for description, sql in QUESTIONS:
        print(f'\n{description}:\n  {me} query "{sql}"\n')
        print(_indent(as_table(ask(layout.database, sql))))
    print("\nNext:")
    for command, description in NEXT:
        print(f"  {me} {command:<20} {description}")


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.rstrip("\n").split("\n"))
