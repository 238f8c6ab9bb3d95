"""Tests of a year of simulated nights: ticks, partitions, gaps, alerts, retention and disk use.

Only two things differ from production: nobody waits for the clock, and the responses of the API
are landed from memory. The ticks are Dagster's own, and its schedule decides at each tick.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import duckdb
import pytest
from dagster._utils.schedules import schedule_execution_time_iterator

from assets.cli import main
from assets.definitions import assemble
from assets.graph.step import nights
from assets.monitoring.inspection import look
from assets.nightbook import Nightbook
from assets.publishing import publish
from pipelines import night
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.landing.night_folders import MANIFEST
from pipelines.landing.snapshots import DECISION
from pipelines.sandbox.world.world import LivingWorld
from tests.support.nights import Book, land
from warehouse.contract.states import ACCEPTED, HELD, PRUNED
from warehouse.storage.layout import Layout

KEEP = 20
VERSIONS = 5
LINES = 16 * 1024
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Span:
    """Some weeks or a year of a home in one time zone, which ticks twice a night.

    `changes` are the nights in which the local time of the first tick is skipped or repeated, with
    the one UTC time at which it ticks.
    """

    zone: str
    schedule: str
    first: date
    days: int
    changes: dict[date, str]

    @property
    def dates(self) -> list[date]:
        """All dates of the span."""
        return [self.first + n * DAY for n in range(self.days)]

    def at(self, share: float) -> date:
        """Return the date after that share of the span."""
        return self.dates[int(self.days * share)]

    @property
    def down(self) -> list[date]:
        """Three dates on which the API fails at both ticks."""
        return [self.at(0.25), self.at(0.25) + DAY, self.at(0.8)]

    @property
    def late(self) -> date:
        """A date on which the API fails at the first tick only."""
        return self.at(0.4)

    @property
    def held(self) -> list[date]:
        """Two dates with an empty list of portfolios. One is accepted and the other is rejected."""
        return [self.at(0.5), self.at(0.7)]


FOUR_WEEKS = Span(
    "Europe/Zurich",
    "30 2,4 * * *",
    date(2026, 3, 8),
    28,
    {date(2026, 3, 29): "01:00"},
)
SPANS = [
    FOUR_WEEKS,
    pytest.param(
        Span(
            "Europe/Zurich",
            "30 2,4 * * *",
            date(2026, 1, 1),
            365,
            {date(2026, 3, 29): "01:00", date(2026, 10, 25): "01:30"},
        ),
        marks=pytest.mark.torture,
    ),
    pytest.param(
        Span(
            "America/Santiago",
            "30 0,4 * * *",
            date(2026, 1, 1),
            365,
            {date(2026, 9, 6): "04:30"},
        ),
        marks=pytest.mark.torture,
    ),
]


@dataclass(slots=True)
class Year:
    """A home that goes through a span, with its alerts and the start times of its runs."""

    home: Path
    span: Span
    moment: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    told: list[str] = field(default_factory=list)
    runs: dict[date, list[datetime]] = field(default_factory=dict)
    waiting: list[tuple[date, str]] = field(default_factory=list)

    @property
    def layout(self) -> Layout:
        """The layout of the home."""
        return Layout(self.home)

    @property
    def keeper(self) -> Nightbook:
        """The keeper of the home."""
        variables = {
            "NIGHTBOOK_HOME": str(self.home),
            "NIGHTBOOK_TIMEZONE": self.span.zone,
            "NIGHTBOOK_SCHEDULE": self.span.schedule,
            "NIGHTBOOK_ALERTS": "json://127.0.0.1:9/nobody",
        }
        return Nightbook(lambda: variables, lambda: self.moment)

    def ticks(self) -> Iterator[datetime]:
        """Yield every tick of the span, as Dagster's daemon calculates them."""
        zone = ZoneInfo(self.span.zone)
        begin = datetime.combine(self.span.first, time(), zone)
        end = datetime.combine(self.span.dates[-1] + DAY, time(), zone)
        for tick in schedule_execution_time_iterator(
            begin.timestamp(), self.span.schedule, self.span.zone, ascending=True
        ):
            if tick >= end:
                return
            yield tick

    def live(self, book: Book) -> None:
        """Run the span: each tick asks the schedule, each run takes its night, people decide."""
        self.moment = next(self.ticks()).astimezone(UTC)
        definitions = assemble(self.keeper)
        schedule = definitions.resolve_schedule_def("nightly_schedule")
        repository = definitions.get_repository_def()
        with dg.DagsterInstance.ephemeral() as instance:
            for tick in self.ticks():
                if self.waiting and tick.date() > self.waiting[0][0]:
                    self.decide(self.moment + timedelta(hours=3))
                self.moment = tick.astimezone(UTC)
                context = dg.build_schedule_context(instance, tick, repository_def=repository)
                for request in schedule.evaluate_tick(context).run_requests or []:
                    assert request.partition_key is not None
                    self.run(date.fromisoformat(request.partition_key), tick, book)
        self.moment += timedelta(hours=12)
        self.look()

    def run(self, day: date, tick: datetime, book: Book) -> None:
        """Run the night of a day, which fails, is held or is accepted."""
        self.runs.setdefault(day, []).append(tick)
        is_second = len(self.runs[day]) > 1
        if day in self.span.down or (day == self.span.late and not is_second):
            return
        given = Book([], book.venues) if day in self.span.held else book
        manifest = land(self.layout, given, self.moment, self.span.zone)
        assert manifest.snapshot_date == day
        folder = self.layout.snapshot(day, manifest.snapshot_id)
        taken = night.finish(LakeManifests(self.layout), folder, self.moment)
        assert taken.state == (HELD if day in self.span.held else ACCEPTED)
        is_looked_at = day in self.span.held or day - DAY in self.span.down
        publish.refresh(self.keeper)  # otherwise the next tick reads the night again
        if is_looked_at:
            self.look()
        if day in self.span.held:
            self.waiting.append((day, manifest.snapshot_id))

    def decide(self, morning: datetime) -> None:
        """Decide on the held nights, some hours after the last tick of the night."""
        self.moment = morning
        for day, snapshot_id in self.waiting:
            verb = ("accept", "reject")[self.span.held.index(day)]
            assert self.command(verb, snapshot_id, "--why", "a person looked") == 0
        self.waiting.clear()

    def command(self, *words: str) -> int:
        """Run a command an hour later, and return its exit code."""
        self.moment += timedelta(hours=1)
        return main(words, self.keeper)

    def look(self) -> None:
        """Look for alerts as a sensor does, and record the title of each message."""

        def send(_: str, title: str, __: str, ___: str) -> bool:
            self.told.append(title)
            return True

        look(self.keeper, self.told.append, send=send)

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return rows of the warehouse."""
        with duckdb.connect(str(self.layout.database), read_only=True) as connection:
            return connection.execute(query).fetchall()

    def sizes(self) -> dict[str, int]:
        """Return the size of each snapshot's files in the landing folder and in the lake."""
        found = {one.snapshot_id: 0 for one in snapshots.landed_snapshots(self.layout)}
        for path, size in disk(self.layout).items():
            [of] = {Path(path).stem, Path(path).parent.name} & found.keys()
            found[of] += size
        return found


def lived(home: Path, span: Span) -> Year:
    """Create a home that has gone through a span of small nights with equal content."""
    world = LivingWorld().at(span.first)
    book = Book(list(world.portfolios)[2:4], [dict(one) for one in world.venues[:3]])
    year = Year(home, span)
    year.live(book)
    return year


@pytest.mark.torture
@pytest.mark.parametrize("span", SPANS, ids=lambda span: f"{span.zone}, {span.days} days")
def test_a_year_of_nights(span: Span, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each date ticks once, gaps are reported and listed, and retention and disk use are right."""
    year = lived(tmp_path / "home", span)
    every_date_has_its_tick(year)
    holes_are_told_and_listed(year)
    the_disk_grows_by_the_night(year)
    retention_keeps_what_it_says(year, capsys)


def every_date_has_its_tick(year: Year) -> None:
    """Check that each date runs once at its hour, and again only if the first run failed."""
    span = year.span
    assert sorted(year.runs) == span.dates
    twice = {*span.down, span.late}
    assert {day for day, ticks in year.runs.items() if len(ticks) > 1} == twice
    minute, hour = span.schedule.partition(",")[0].split()
    for day, (first, *_) in year.runs.items():
        local = datetime.combine(day, time(int(hour), int(minute)), ZoneInfo(span.zone))
        due = (
            f"{day}T{span.changes[day]}"
            if day in span.changes
            else f"{local.astimezone(UTC):%FT%R}"
        )
        assert f"{first.astimezone(UTC):%FT%R}" == due
    keys = nights(year.keeper).get_partition_keys(current_time=year.moment)
    assert keys == [day.isoformat() for day in span.dates]


def holes_are_told_and_listed(year: Year) -> None:
    """Check the gaps: three missing nights, one rejected night, and one message per cause."""
    span = year.span
    gaps = {(day, "no snapshot") for day in span.down} | {(span.held[1], "rejected")}
    assert set(year.ask("select snapshot_date, reason from ops.gaps")) == gaps
    books = {day for (day,) in year.ask("select snapshot_date from ops.snapshots where is_book")}
    assert books == {*span.dates} - {day for day, _ in gaps}
    assert {
        day for (day,) in year.ask("select distinct snapshot_date from history.venues")
    } == books
    wanted = [f"nightbook: {day} was not read" for day in span.down]
    wanted += [f"nightbook: the night of {day} is held" for day in span.held]
    assert sorted(year.told) == sorted(wanted)


def the_disk_grows_by_the_night(year: Year) -> None:
    """Check that all nights use about the same disk space, and that five versions are kept."""
    known = snapshots.landed_snapshots(year.layout)
    sizes = year.sizes()
    alike = [sizes[one.snapshot_id] for one in known if one.snapshot_date not in year.span.held]
    assert max(alike) <= 1.05 * min(alike)
    assert sum(disk(year.layout).values()) == sum(sizes.values())
    assert len(list((year.layout.warehouse / "versions").iterdir())) == VERSIONS


def retention_keeps_what_it_says(year: Year, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that pruning by age and by size keeps exactly the nights that the rule promises."""
    span, layout = year.span, year.layout
    books = {day for (day,) in year.ask("select snapshot_date from ops.snapshots where is_book")}
    ends = {max(one for one in books if (one.year, one.month) == month) for month in months(books)}
    young = {day for day in span.dates if day > span.dates[-1] - KEEP * DAY}
    capsys.readouterr()
    before = disk(layout)
    assert year.command("prune", "--keep", str(KEEP), "--dry-run") == 0
    announced = capsys.readouterr().out
    assert disk(layout) == before
    assert year.command("prune", "--keep", str(KEEP)) == 0
    assert capsys.readouterr().out == announced.replace("to delete", "deleted")
    rejected = {span.held[1]} & young
    assert kept(year) == ((books & young) | ends | rejected)
    reasons = dict(year.ask("select reason, count(*) from ops.gaps group by all"))
    assert reasons.get("pruned", 0) == len((books | {span.held[1]}) - young - ends)
    only_lines_are_left(year)
    assert year.command("verify") == 0
    by_space(year, ends)


def by_space(year: Year, ends: set[date]) -> None:
    """Prune to half the size: the oldest nights first, month ends last, the newest book never."""
    known = [one for one in snapshots.landed_snapshots(year.layout) if one.state != PRUNED]
    sizes = year.sizes()
    most = sum(sizes[one.snapshot_id] for one in known) // 2
    assert year.command("prune", "--max-gb", f"{most / 10**9:.9f}") == 0
    assert sum(year.sizes()[one] for one in alive(year)) <= most + LINES * len(known)
    assert ends <= kept(year)
    others = sorted({one.snapshot_date for one in known} - ends)
    stayed = sorted(kept(year) - ends)
    assert others[-len(stayed) :] == stayed
    assert year.command("prune", "--max-gb", "0.000000001") == 3
    assert kept(year) == {year.span.dates[-1]}
    assert year.command("verify") == 0


def months(days: set[date]) -> set[tuple[int, int]]:
    """Return the months of some dates."""
    return {(day.year, day.month) for day in days}


def kept(year: Year) -> set[date]:
    """Return the dates whose bodies still exist."""
    return {
        one.snapshot_date for one in snapshots.landed_snapshots(year.layout) if one.state != PRUNED
    }


def alive(year: Year) -> set[str]:
    """Return the IDs of the snapshots whose bodies still exist."""
    known = snapshots.landed_snapshots(year.layout)
    return {one.snapshot_id for one in known if one.state != PRUNED}


def disk(layout: Layout) -> dict[str, int]:
    """Return the size of every file in the landing folder and in the lake."""
    there = (*layout.landing.rglob("*"), *layout.lake.rglob("*"))
    return {str(path): path.stat().st_size for path in there if path.is_file()}


def only_lines_are_left(year: Year) -> None:
    """Check that pruned nights consist of only their manifest and their decisions."""
    gone = [one for one in snapshots.landed_snapshots(year.layout) if one.state == PRUNED]
    assert gone
    sizes = year.sizes()
    for one in gone:
        assert {path.name for path in one.folder.iterdir()} == {MANIFEST, DECISION}
        assert sizes[one.snapshot_id] < LINES
