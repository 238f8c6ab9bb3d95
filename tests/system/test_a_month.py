"""Tests of a month against a service that limits, goes down and restarts: no date is lost."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from assets.cli import main
from assets.monitoring import switches
from assets.monitoring.alerts import Alert, send_alerts
from assets.monitoring.conditions import find_alerts
from assets.monitoring.failures import FailedRun, failure_alert
from assets.monitoring.switches import next_tick
from assets.nightbook import Nightbook
from assets.publishing import publish
from pipelines import night
from pipelines.edge.client import EdgeClient
from pipelines.edge.errors import EdgeError
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import snapshots
from pipelines.pull import pull
from pipelines.sandbox.options import Choices
from pipelines.sandbox.server import DEMO_KEY, DEMO_SECRET
from tests.support.operator import Receiver
from tests.support.operator_home import Keeper, Sandbox
from tests.support.simulated_service import Simulation, Time

PAGE = 60
NIGHTS = 30
FIRST = datetime.fromisoformat("2026-03-01T00:00:00+00:00")
MINUTE = timedelta(minutes=1)
Span = tuple[datetime, datetime]


@dataclass
class Month:
    """A home whose service is down in some time spans, and the messages to its operator."""

    home: Path
    down: list[Span]
    limit: int = 2
    channel: str = "json://127.0.0.1:9/nobody"
    sent: list[str] = field(default_factory=list)
    tried: list[datetime] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.time = Time(FIRST)
        choices = Choices(requests_per_second=self.limit)
        self.simulation = Simulation(time=self.time, choices=choices, reach=self._reach)
        variables = {
            "NIGHTBOOK_API_URL": "http://127.0.0.1:1",
            "NIGHTBOOK_API_KEY": DEMO_KEY,
            "NIGHTBOOK_API_SECRET": DEMO_SECRET,
            "NIGHTBOOK_HOME": str(self.home),
            "NIGHTBOOK_ALERTS": self.channel,
        }
        self.nightbook = Nightbook(
            lambda: variables,
            self.time.now,
            pause=self.time.sleep,
            connect=self.simulation.connect,
        )

    def _reach(self, _request: httpx.Request) -> httpx.Response | None:
        if any(begins <= self.time.now() < ends for begins, ends in self.down):
            raise httpx.ConnectError("connection refused")
        return None

    def live(self, nights: int) -> None:
        """Simulate these nights, and look for alerts after every failed tick and at noon."""
        settings = self.nightbook.settings()
        last = FIRST + timedelta(days=nights)
        with self.time.running():
            while (tick := next_tick(settings, self.time.now())) < last:
                self.time.set(tick)
                if failed := self._tick(tick.date()):
                    self._look(failed)
                if next_tick(settings, self.time.now()).date() != tick.date():
                    noon = datetime.combine(tick.date(), datetime.min.time(), tick.tzinfo)
                    self.time.set(noon + timedelta(hours=12))
                    self._look([])

    def _tick(self, day: date) -> list[Alert]:
        """Take the night of a date as its run would, and return the alerts if it fails."""
        if switches.night_of(self.nightbook, day) is not None:
            return []
        self.tried.append(self.time.now())
        book = self.nightbook
        settings = book.settings(api=True)
        try:
            connect = book.connect or EdgeClient
            manifest = pull.pull_snapshot(
                settings, book.now, "0", pause=book.pause, connect=connect
            )
        except EdgeError as error:
            name, reason = f"run-{self.time.now()}", str(error)
            run = FailedRun(run_id=name, day=day, failures=(), reason=reason, is_tick=True)
            alert = failure_alert(book, run)
            return [alert] if alert else []
        folder = book.layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
        night.finish(LakeManifests(book.layout), folder, book.now())
        publish.refresh(book)
        return []

    def _look(self, first: list[Alert]) -> None:
        send_alerts(self.nightbook, [*first, *find_alerts(self.nightbook)], self._send)

    def _send(self, _address: str, title: str, body: str, *_: str) -> bool:
        self.sent.append(f"{title}\n{body}\n")
        return True

    @property
    def page(self) -> list[str]:
        """The lines of all messages that were sent."""
        return "\n".join(self.sent).splitlines()

    def missing(self, nights: int) -> list[date]:
        """Return the dates that have no book."""
        books = snapshots.books(snapshots.landed_snapshots(self.nightbook.layout))
        days = [(FIRST + timedelta(days=number)).date() for number in range(nights)]
        return [day for day in days if day not in books]


def troubles(seed: int) -> Iterator[Span]:
    """Yield for each night twenty minutes without a service and two restarts, at random times."""
    draws = random.Random(seed)
    for number in range(NIGHTS):
        tick = FIRST + timedelta(days=number, hours=2, minutes=15)
        begins = tick + draws.uniform(-25, 60) * MINUTE
        yield begins, begins + 20 * MINUTE
        for _ in range(2):
            begins = tick + draws.uniform(0, 3) * MINUTE
            yield begins, begins + draws.uniform(5, 30) * MINUTE / 60


@pytest.mark.torture
def test_a_month_of_trouble_loses_no_date_and_sends_few_alerts(
    tmp_path: Path, sized: Callable[[int, int], int]
) -> None:
    """With limits, outages and restarts, each date has its book, and the alerts fit on one page.

    The service allows 2 requests a second. Each night, it is down for twenty minutes and restarts
    twice.
    """
    month = Month(tmp_path, list(troubles(8)))
    count = sized(5, NIGHTS)
    month.live(count)
    assert month.missing(count) == []
    assert len(month.tried) <= count + 3
    assert month.simulation.statuses(0) > count  # the service was indeed down
    assert month.simulation.statuses(429) > count  # and limited
    assert len(month.page) <= PAGE, "\n".join(month.page)


OUTAGES: list[tuple[str, tuple[int, int], list[str], int]] = [
    ("until the third tick", (2, 6), ["trying"], 3),
    ("the whole night", (2, 8), ["trying", "failed"], 3),
]


@pytest.mark.torture
@pytest.mark.parametrize(("name", "hours", "told", "tries"), OUTAGES, ids=[o[0] for o in OUTAGES])
def test_a_night_sends_a_second_alert_if_its_last_tick_fails(
    name: str, hours: tuple[int, int], told: list[str], tries: int, tmp_path: Path
) -> None:
    """The first message names the next attempt. A second message follows if the last tick fails."""
    begins, ends = (FIRST + timedelta(days=1, hours=hour) for hour in hours)
    month = Month(tmp_path, [(begins, ends)], limit=100)
    month.live(2)
    of_day = [moment for moment in month.tried if moment.date() == begins.date()]
    assert len(of_day) == tries, name
    titles = [one.partition("\n")[0] for one in month.sent]
    words = {"trying": "will be retried", "failed": "the run of 2026-03-02 failed"}
    assert [next(k for k, v in words.items() if v in title) for title in titles] == told
    assert "The next attempt is at 04:15 (UTC)." in month.sent[0]
    assert (month.missing(2) == []) == (told == ["trying"])


def test_a_failed_run_by_a_person_is_reported_at_once(tmp_path: Path) -> None:
    """If a person starts a run, its failure is reported immediately, because nothing retries it."""
    month = Month(tmp_path, [])
    run = FailedRun(run_id="r", day=FIRST.date(), failures=(), reason="It is down.")
    alert = failure_alert(month.nightbook, run)
    assert alert is not None
    assert alert.cause == "failed:r"


@pytest.mark.torture
def test_run_unless_taken_skips_a_date_with_a_night(shown: Sandbox, tmp_path: Path) -> None:
    """If a date already has its night, `run --unless-taken` reads nothing and names that night."""
    shown.show()
    keeper = Keeper(tmp_path / "home", shown)
    day = FIRST.date()
    assert keeper.run(day, "--unless-taken").code == 0
    [taken] = snapshots.landed_snapshots(keeper.layout)
    again = keeper.run(day, "--unless-taken", hour=4)
    assert again.code == 0
    assert (
        f"{day} already has a night: {taken.snapshot_id} is accepted. Nothing was read."
        in again.out
    )
    assert snapshots.landed_snapshots(keeper.layout) == [taken]


@pytest.mark.torture
def test_a_month_of_cron_runs_loses_no_date(receiver: Receiver, tmp_path: Path) -> None:
    """The command that cron calls loses no date either, with the real job and a real channel."""
    month = Month(tmp_path, list(troubles(9)), channel=receiver.channel)
    settings = month.nightbook.settings()
    with month.time.running():
        while (tick := next_tick(settings, month.time.now())) < FIRST + timedelta(days=NIGHTS):
            month.time.set(tick)
            assert main(("run", "--unless-taken"), month.nightbook) in (0, 1)
    assert month.missing(NIGHTS) == []
    page = [line for title, words in receiver.alerts for line in (title, *words.splitlines(), "")]
    assert len(page) <= PAGE, "\n".join(page)
