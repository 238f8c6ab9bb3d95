"""Tests of two machines with one shelf: after any history, both machines have the same state.

The histories are random. Nights are taken and decided on both machines, commands are killed at
requests and at writes, the store is sometimes down, and the clocks differ by a minute.
"""

import contextlib
import io
import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from itertools import count
from pathlib import Path
from unittest import mock

import duckdb
import pytest

from assets.cli import main
from assets.console.exit_codes import WRONG_USAGE
from assets.nightbook import Nightbook
from assets.publishing import publish, repair
from pipelines.lake import lessons
from pipelines.lakehouse.addresses import StoreAddress
from pipelines.lakehouse.object_store import open_store
from pipelines.lakehouse.shelf_list import newest_manifests, read_night
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from tests.crash import nights
from tests.support.shelves import Calls, Killed
from warehouse.contract.book import BOOK
from warehouse.contract.states import ACCEPTED, REJECTED
from warehouse.database.ddl import stored_as
from warehouse.storage.layout import Layout

pytestmark = pytest.mark.torture

HISTORIES, PARTS = 200, 8
STEPS = 9
MINUTE = timedelta(minutes=1)
SAME = ("snapshots", "decisions", "reasons", "lessons", "control_totals")


@dataclass(slots=True)
class World:
    """The shelf and the true time, which advances with every event."""

    shelf: Path
    moment: datetime = nights.FIRST

    @property
    def address(self) -> str:
        """The address of the shelf."""
        return f"file://{self.shelf}"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine with its own home, a clock that may be wrong, and a store that may be down."""

    name: str
    home: Path
    world: World
    ahead: timedelta
    store: Calls = field(default_factory=Calls)

    @property
    def layout(self) -> Layout:
        """The layout of the home."""
        return Layout(self.home)

    @property
    def nightbook(self) -> Nightbook:
        """The keeper, with the clock of this machine."""
        variables = {"NIGHTBOOK_HOME": str(self.home), "NIGHTBOOK_LAKE": self.world.address}
        return Nightbook(lambda: variables, lambda: self.world.moment + self.ahead)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run the code of the `with` block as a process of this machine."""
        with (
            mock.patch.object(snapshots, "machine_name", return_value=self.name),
            mock.patch.dict(sys.modules, {"obstore": self.store}),
        ):
            yield

    def __call__(self, *words: str) -> tuple[int, str]:
        """Run a command, and return its exit code and output."""
        said = io.StringIO()
        with (
            self.running(),
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(said),
        ):
            try:
                code = main(words, self.nightbook)
            except SystemExit as stop:
                code = int(stop.code or 0)
        return code, said.getvalue()

    def take(self, kind: str) -> None:
        """Take a night as a run does: land, judge everything that is landed, publish."""
        clock = nights.Clock(self.world.moment + self.ahead)
        with self.running():
            nights.land(self.layout, clock, bodies(clock.moment.date(), kind))
            self.recover()

    def recover(self) -> None:
        """Judge and publish all landed nights, including those of killed runs."""
        with self.running():
            repair.before_night(self.nightbook, lambda *_, **__: None, but="")
            publish.publish_pending(self.nightbook)

    def nights(self) -> list[Snapshot]:
        """Return the nights that are landed here."""
        return snapshots.landed_snapshots(self.layout)

    def knows(self, why: str) -> bool:
        """Return True if a decision with this reason is on disk here."""
        return any(why in one.reasons for night in self.nights() for one in night.decisions)

    def tables(self) -> dict[str, list[tuple[object, ...]]]:
        """Return the rows of every book and of the `ops` tables in `SAME`."""
        names = [stored_as(table) for table in BOOK] + [f"ops.{name}" for name in SAME]
        with duckdb.connect(str(self.layout.database), read_only=True) as connection:
            return {
                name: connection.execute(f"from {name} order by all").fetchall() for name in names
            }


def bodies(day: date, kind: str) -> nights.Answers:
    """Return a good night, a night without portfolios, or a night that seems to be one page.

    The last two are held. If a person accepts the last kind, this teaches a lesson.
    """
    good = nights.answers(day, 0 if kind == "empty" else nights.PORTFOLIOS)
    if kind != "paged":
        return good
    return {
        target: json.dumps(json.loads(body) | {"meta": {"next": "more"}}).encode()
        for target, body in good.items()
    }


@contextlib.contextmanager
def dying(machine: Machine, chance: random.Random) -> Iterator[None]:
    """Kill the work on a machine at a random request or write, if it gets that far."""
    machine.store.at, machine.store.before = 0, chance.random() < 0.5
    at, numbers, fsync = chance.randint(1, 25), count(1), os.fsync

    def die(descriptor: int) -> None:
        if next(numbers) == at:
            raise Killed
        fsync(descriptor)

    with contextlib.suppress(Killed):
        if chance.random() < 0.5:
            machine.store.at = machine.store.count + chance.randint(1, 12)
            yield
        else:
            with mock.patch.object(os, "fsync", die):
                yield
    machine.store.at = 0


@dataclass(slots=True)
class History:
    """The events on two machines, and the reasons of all decisions that people made."""

    one: Machine
    two: Machine
    chance: random.Random
    whys: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, two_nights: Path, folder: Path, seed: int) -> "History":
        """Create a history that begins with two good nights, which both machines have."""
        chance, world = random.Random(seed), World(folder / "shelf")
        ahead = chance.choice([MINUTE, -MINUTE])
        history = cls(
            Machine("one", folder / "one", world, timedelta()),
            Machine("two", folder / "two", world, ahead),
            chance,
        )
        shutil.copytree(two_nights, history.one.home, symlinks=True)
        history.pass_time(timedelta(days=2))
        history.shelve(history.one)
        history.publish(history.two)
        return history

    @property
    def machines(self) -> tuple[Machine, Machine]:
        """Both machines."""
        return self.one, self.two

    def pass_time(self, span: timedelta = timedelta()) -> None:
        """Advance the time by a span and some seconds."""
        self.one.world.moment += span + timedelta(seconds=self.chance.randint(1, 90))

    def step(self) -> None:
        """Do one random thing, which may be killed."""
        machine = self.chance.choice(self.machines)
        happens = self.chance.choices(
            (self.take, self.decide, self.take_back, self.shelve, self.publish, self.turn_store),
            weights=(3, 8, 1, 3, 3, 2),
        )[0]
        self.pass_time(
            self.chance.choice([timedelta(hours=1), timedelta(days=1)]) * (happens == self.take)
        )
        if self.chance.random() < 0.3:
            with dying(machine, self.chance):
                happens(machine)
        else:
            happens(machine)

    def take(self, machine: Machine) -> None:
        """Take a night, and shelve it if the store is up."""
        machine.take(self.chance.choices(("good", "empty", "paged"), weights=(2, 3, 2))[0])
        self.shelve(machine)

    def decide(self, machine: Machine) -> None:
        """Decide on one of the newest nights."""
        night = self.chance.choice(machine.nights()[-4:])
        self.type(machine, self.chance.choice(("accept", "reject")), night.snapshot_id)

    def take_back(self, machine: Machine) -> None:
        """Take back a lesson, if there is one."""
        for lesson in lessons.all_lessons(machine.nights()):
            if lesson.taken_back is None:
                self.type(machine, "reject", lesson.name)
                return

    def type(self, machine: Machine, verb: str, name: str) -> None:
        """Make one decision with a unique reason, and check that it is done or clearly refused."""
        why = f"why-{len(self.whys)}"
        self.whys.append(why)
        code, said = machine(verb, name, "--why", why)
        assert code in (0, WRONG_USAGE) or "is held" in said, said
        if code == WRONG_USAGE:
            assert "cannot be" in said or "no lesson" in said, said

    def shelve(self, machine: Machine) -> None:
        """Shelve the waiting nights, which fails only if the store is down."""
        code, said = machine("shelve")
        assert code == int(machine.store.is_down), said

    def publish(self, machine: Machine) -> None:
        """Refresh the book from the shelf, which fails only if the store is down."""
        code, said = machine("publish")
        assert code == int(machine.store.is_down), said

    def turn_store(self, machine: Machine) -> None:
        """Turn the store of a machine off or on."""
        machine.store.is_down = not machine.store.is_down

    def agree(self) -> None:
        """Turn the stores on, then recover, shelve and publish on each machine twice."""
        for machine in self.machines * 2:
            machine.store.is_down = False
            machine.recover()
            self.shelve(machine)
            self.publish(machine)

    def require_one_state(self) -> None:
        """Check that homes and shelf have the same state, with each recorded decision."""
        here, there = (
            {night.snapshot_id: (night.state, night.decisions) for night in machine.nights()}
            for machine in self.machines
        )
        assert here == there
        store = open_store(StoreAddress(self.one.world.address))
        shelved = {name: read_night(store, key) for name, key in newest_manifests(store).items()}
        assert {name: (night.state, night.decisions) for name, night in shelved.items()} == here
        tables = self.one.tables()
        assert tables == self.two.tables()
        assert len(tables["ops.decisions"]) == sum(len(decided) for _, decided in here.values())

    def require_recorded(self, recorded: set[str]) -> None:
        """Check that each of these decisions is recorded exactly once."""
        reasons = [row[6] for row in self.one.tables()["ops.decisions"]]
        for why in recorded:
            assert sum(why in str(reason).split("; ") for reason in reasons) == 1, why

    def require_free_commands(self) -> None:
        """Check that no command of either machine is blocked."""
        for machine in self.machines:
            for words in (
                ("shelve",),
                ("publish",),
                ("prune", "--keep", "4000"),
                ("verify",),
                ("verify", "--shelf"),
            ):
                code, said = machine(*words)
                assert code == 0, (words, said)
            assert "shelf" not in machine("status")[1]


def run_history(two_nights: Path, folder: Path, seed: int) -> None:
    """Run one history, and check that it ends well."""
    history = History.of(two_nights, folder, seed)
    recorded: set[str] = set()
    for _ in range(STEPS):
        history.step()
        recorded |= {w for w in history.whys if any(m.knows(w) for m in history.machines)}
    history.agree()
    history.require_one_state()
    history.require_recorded(recorded)
    slower = min(history.machines, key=lambda machine: machine.ahead)
    night = slower.nights()[-1]
    verb, state = ("reject", REJECTED) if night.state == ACCEPTED else ("accept", ACCEPTED)
    history.pass_time()
    assert slower(verb, night.snapshot_id, "--why", "the last word")[0] == 0
    history.agree()
    history.require_one_state()
    assert slower.nights()[-1].state == state
    history.require_free_commands()


@pytest.mark.parametrize("part", range(PARTS))
def test_two_machines_end_in_the_same_state(part: int, two_nights: Path, tmp_path: Path) -> None:
    """Both have the same nights, decisions, books and totals, and the shelf has every decision."""
    for number in range(HISTORIES // PARTS):
        run_history(two_nights, tmp_path / f"{number}", seed=part * 1000 + number)
