"""A random test of a home against a model: run, crash, corrupt, decide, prune, rebuild.

After every step, people see exactly the contents of the model, to the last digit.
"""

import contextlib
import io
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from pathlib import Path
from typing import ClassVar

import duckdb
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from assets.cli import main
from assets.nightbook import Nightbook
from assets.publishing import publish, repair
from pipelines import night
from pipelines.lake import lessons
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import lock, night_folders, snapshots
from pipelines.landing.damage import CHANGED, MISSING
from pipelines.maintenance.verify import LAKE, verify
from tests.crash import nights
from tests.fuzz.dying import dies
from tests.fuzz.remembered import (
    ACCEPTED,
    COMPLETE,
    DIGITS,
    HELD,
    PRUNED,
    REJECTED,
    VENUE,
    Night,
    Place,
    Remembered,
    Row,
    World,
    listed,
    sums,
)
from tests.support import nights as landed
from warehouse.contract.book import BOOK
from warehouse.storage.layout import Layout

FIRST = datetime(2026, 10, 30, 2, 15, tzinfo=UTC)
KINDS = (("trading", "free"), ("trading", "locked"), ("margin", "locked"), ("invented", "earned"))
PORTFOLIOS = ("p1", "p2", "p3", "=p4")
PLACE = ("p1", "BTC", "main", "margin", "locked")
PLACES = st.tuples(
    st.sampled_from(PORTFOLIOS),
    st.sampled_from(["BTC", "ETH", "ünï"]),
    st.sampled_from(["main", "cold"]),
    st.sampled_from(KINDS),
).map(lambda four: (*four[:3], *four[3]))
# Amounts above zero with up to forty digits, including amounts too long for DECIMAL(38,18).
AMOUNTS = st.builds(
    lambda units, places: format(Decimal(units).scaleb(-places), "f"),
    st.integers(1, 10**12) | st.integers(1, 10**40),
    st.integers(0, 24),
)
# Events that must happen at least once in a full run of the test.
EVERYTHING = {
    *("run", "accepted", "held", "accept", "reject", "prune", "rebuild", "restore", "death"),
    *("corrupt landing", "corrupt lake", "corrupt warehouse"),
}
Said = tuple[list[Row], list[Row]]
QUERY = """
select snapshot_date, portfolio_id, asset_id, account_name, bucket, state, amount_text
from {}.balances order by all
"""


def times(text: str, factor: str) -> str:
    """Return a part of an amount, to the last digit."""
    with localcontext(prec=DIGITS):
        return format(Decimal(text) * Decimal(factor), "f")


class Keeping(RuleBasedStateMachine):
    """A home, the API's world, and the model."""

    done: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="nightbook-model-"))
        self.layout = Layout(self.folder / "home")
        self.clock = nights.Clock(FIRST)
        self.model = Remembered()
        self.world: World = {}
        self.seen: Said = ([], [])  # the contents that were last shown
        self.decided: Said = ([], [])  # the model's contents before the current step
        self.has_moved = False
        self.is_fresh = False  # a step has run since the last rebuild
        self.is_half_made = False  # a death interrupted a rebuild of the lake

    def teardown(self) -> None:
        """Delete the folder of the home."""
        shutil.rmtree(self.folder, ignore_errors=True)

    # Events at the API.

    @initialize(places=st.dictionaries(PLACES, AMOUNTS, min_size=3, max_size=8))
    def begin(self, places: dict[Place, str]) -> None:
        """Fill the world and run the first night."""
        for place, text in places.items():
            self.put_money(place, text)
        self.take()

    def comes(self, chance: random.Random) -> None:
        """Add an amount to the world."""
        place, text = chance.choice(sorted(self.world) or [PLACE]), str(chance.randint(1, 10**20))
        self.put_money((chance.choice(PORTFOLIOS), *place[1:]), f"{text}e-{chance.randint(0, 24)}")

    def goes(self, chance: random.Random) -> None:
        """Reduce an amount by a fifth, which is not unusual."""
        place = chance.choice(sorted(self.world) or [PLACE])
        self.world[place] = times(self.world.get(place, "1"), "0.8")

    def vanishes(self, chance: random.Random) -> None:
        """Remove a portfolio from the world."""
        gone, *_ = chance.choice(sorted(self.world) or [PLACE])
        self.world = {place: text for place, text in self.world.items() if place[0] != gone}

    def collapses(self, chance: random.Random) -> None:
        """Remove nine tenths of an asset."""
        _, gone, *_ = chance.choice(sorted(self.world) or [PLACE])
        for place in [one for one in self.world if one[1] == gone]:
            self.world[place] = times(self.world[place], "0.1")

    def returns(self, _chance: random.Random) -> None:
        """Restore the world of the newest book."""
        books = self.model.books()
        self.world = dict(books[max(books)].world) if books else self.world

    # Steps of the operator.

    @rule(
        days=st.sampled_from([0, 1, 1, 1, 3]),
        event=st.sampled_from(["comes", "goes", "vanishes", "collapses", "returns"]),
        chance=st.randoms(),
        change=st.none() | st.none() | st.integers(1, 160),
    )
    def runs(self, days: int, event: str, chance: random.Random, change: int | None) -> None:
        """Run a night, which may die. If `days` is 0, it has the same date as the night before."""
        getattr(self, event)(chance)
        self.pass_time(days)
        self.take(change)

    @rule(chance=st.randoms(), change=st.none() | st.integers(1, 80))
    @precondition(lambda self: self.model.of(HELD))
    def decides(self, chance: random.Random, change: int | None) -> None:
        """Accept or reject a held night. The command may die before its end."""
        snapshot_id = chance.choice(self.model.of(HELD))
        word, state = chance.choice([("accept", ACCEPTED), ("reject", REJECTED)])
        died = self.says(change, word, snapshot_id, "--why", "checked")
        night = self.model.nights[snapshot_id]
        found = snapshots.find(self.layout, snapshot_id)
        assert found.state in ({state, HELD} if died else {state})
        if found.state == state:
            assert found.decision is not None
            night.state = state
            night.decided_by_hand = datetime.fromisoformat(found.decision.at)
            self.model.has_taught |= state == ACCEPTED
            self.done[word] += 1
        self.let_through()
        self.after(died=died)

    @rule(days=st.integers(1, 5), change=st.none() | st.integers(1, 80))
    @precondition(lambda self: self.model.books())
    def prunes(self, days: int, change: int | None) -> None:
        """Prune old nights. Nights that wait for a decision and the newest book remain."""
        books = self.model.books()
        young = max(books) - timedelta(days=days)
        may_go = [
            one for one in self.model.of(ACCEPTED, REJECTED) if self.model.nights[one].day <= young
        ]
        died = self.says(change, "prune", "--keep", str(days), "--no-month-ends")
        gone = [one for one in may_go if snapshots.find(self.layout, one).state == PRUNED]
        assert died or gone == may_go
        for one in gone:
            self.model.nights[one].state = PRUNED
        self.done["prune"] += bool(gone)
        self.after(died=died)

    @precondition(lambda self: self.is_fresh)
    @rule(words=st.sampled_from([(), ("--from-landing",)]), change=st.none() | st.integers(1, 160))
    def rebuilds(self, words: tuple[str, ...], change: int | None) -> None:
        """Rebuild the warehouse, or the lake and the warehouse."""
        died = self.says(change, "rebuild", *words)
        self.is_half_made |= died and bool(words)
        self.judge_left_over()
        self.after(died=died)
        self.done["rebuild"] += not died
        self.is_fresh = died

    @rule(chance=st.randoms())
    @precondition(lambda self: self.is_fresh and self.seen[1])
    def corrupts(self, chance: random.Random) -> None:
        """Flip one bit. `verify` names the file, and the file is repaired from undamaged data."""
        version = self.layout.database.parent.resolve()
        roots = (self.layout.landing, self.layout.lake, version)
        files = {
            root: [p for p in root.rglob("*") if p.is_file() and not self.is_left(p)]
            for root in roots
        }
        root = chance.choice([root for root in roots if files[root]])
        path = chance.choice(sorted(files[root]))
        whole, mode = path.read_bytes(), path.stat().st_mode
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        self.put(path, bytes(changed), mode)
        assert (path, CHANGED) in [(one.file, one.what) for one in verify(self.layout)]
        if root == self.layout.landing:
            assert self.code("rebuild", "--from-landing") == 1
            self.put(path, whole, mode)  # from the backup
        else:
            words = ("--from-landing",) if root == self.layout.lake else ()
            assert self.code("rebuild", *words) == 0
            self.judge_left_over()
            assert version.exists() == (root != version)
            self.after(died=False)
        self.is_fresh = False
        self.done[f"corrupt {root.name if root != version else 'warehouse'}"] += 1

    @rule()
    @precondition(lambda self: len(self.model.nights) > 1 and not self.has_moved)
    def moves(self) -> None:
        """Delete the home and restore it from a backup."""
        target = self.folder / "backup.tar"
        target.unlink(missing_ok=True)
        assert self.code("backup", str(target)) == 0
        shutil.rmtree(self.layout.home)
        assert self.code("restore", str(target)) == 0
        self.judge_left_over()
        self.after(died=False)
        self.has_moved = True
        self.done["restore"] += 1

    # Invariants.

    @invariant()
    def shows_what_is_remembered(self) -> None:
        """Main, history and sums match the model, and the book contains no other dates."""
        if not self.layout.database.exists():
            assert self.seen == ([], [])
            return
        newest, history = self.read()
        assert (newest, history) == self.seen
        # If a person accepted a night without a portfolio, it has only the rows of its venue.
        empty = {night.day for night in self.model.nights.values() if not night.world}
        assert self.dates() <= {row[0] for row in history} | empty
        books = self.model.books()
        if newest == (sorted(books[max(books)].rows()) if books else []):
            assert self.totals() == (sums(books[max(books)].world) if books else {})

    @invariant()
    def is_whole(self) -> None:
        """`verify` finds nothing, except files that an interrupted rebuild has not written yet."""
        found = [one for one in verify(self.layout) if one.file != self.layout.database]
        if self.is_half_made:  # files not rebuilt yet are missing, but no file is changed
            found = [one for one in found if (one.what, one.remedy) != (MISSING, LAKE)]
        assert found == []
        assert self.layout.database.exists() or not self.seen[1]

    # Helpers.

    def put_money(self, place: Place, text: str) -> None:
        """Add an amount at a place. A trading balance always has both states."""
        with localcontext(prec=DIGITS):
            total = Decimal(self.world.get(place, "0")) + Decimal(text)
        self.world[place] = format(total, "f")
        for bucket, state in KINDS:
            if bucket == place[3]:
                self.world.setdefault((*place[:4], state), "0")

    def pass_time(self, days: int) -> None:
        """Advance the clock by some days, or by a minute if `days` is 0."""
        moment = self.clock.moment
        later = moment.replace(hour=2, minute=15) + timedelta(days=days)
        self.clock.moment = later if days else moment + timedelta(minutes=1)

    def keeper(self) -> Nightbook:
        """Return the keeper of the home."""
        return nights.nightbook(self.layout.home, self.clock)

    def night(self, started: datetime) -> None:
        """Run the steps of a night, in the order of the nightly job."""
        lock.sweep(self.layout)
        manifest = landed.land(self.layout, landed.Book(listed(self.world), [VENUE]), started)
        repair.before_night(self.keeper(), lambda *_, **__: None, but=manifest.snapshot_id)
        folder = self.layout.snapshot(manifest.snapshot_date, manifest.snapshot_id)
        night.finish(LakeManifests(self.layout), folder, self.clock())
        publish.refresh(self.keeper())

    def take(self, change: int | None = None) -> None:
        """Run a whole night, or one that dies before disk change number `change`."""
        started, self.decided = self.clock(), self.model.shown()
        died = change is not None and self.dies(lambda: self.night(started), change)
        if change is None:
            self.night(started)
        self.landed(started)
        self.after(died=died)
        self.done["run"] += not died

    def landed(self, started: datetime) -> None:
        """Add a night to the model if it was landed, and update the states of all nights."""
        snapshot_id = started.strftime("%Y%m%dT%H%M%SZ")
        if self.layout.snapshot(started.date(), snapshot_id).exists():
            taken = started.replace(microsecond=0)
            self.model.nights[snapshot_id] = Night(snapshot_id, taken, dict(self.world))
        self.judge_left_over()

    def judge_left_over(self) -> None:
        """Update the states of nights that were not judged before, and check them by the model."""
        for snapshot_id in self.model.of(COMPLETE):
            night = self.model.nights[snapshot_id]
            found = snapshots.find(self.layout, snapshot_id)
            state, decision = found.state, found.decision
            # Lessons are not in the model. If lessons cover all causes, the night may be accepted.
            causes = decision.causes if decision else ()
            is_known = bool(causes) and all(cause.is_known for cause in causes)
            if not (is_known and state == ACCEPTED and self.model.has_taught):
                may_be = {COMPLETE, *self.model.judged(night)}
                assert state in may_be, (night, self.model.before(night), decision)
            night.state = state
            self.done[state] += 1

    def let_through(self) -> None:
        """Update the states of held nights that a new lesson has accepted."""
        for snapshot_id in self.model.of(HELD):
            decision = snapshots.find(self.layout, snapshot_id).decision
            if decision and decision.by == lessons.BY:
                assert self.model.has_taught
                night = self.model.nights[snapshot_id]
                night.state = decision.state
                night.decided_by_hand = datetime.fromisoformat(decision.at)

    def after(self, *, died: bool) -> None:
        """Expect the contents of the model to be shown after a step.

        After a death, the contents from before the step are also valid. A command first publishes
        the decisions of an earlier command that died, so their result is valid too.
        """
        now, self.is_fresh = self.model.shown(), True
        if died:
            self.done["death"] += 1
            shown = self.read() if self.layout.database.exists() else ([], [])
            assert shown in (self.seen, self.decided, now)
            self.seen = shown
        else:
            self.seen = now
            self.is_half_made = False

    def says(self, change: int | None, *words: str) -> bool:
        """Run a command, which dies before disk change number `change`. Return True if it died."""
        self.decided = self.model.shown()
        if change is None:
            self.must(*words)
            return False
        return self.dies(lambda: self.must(*words), change)

    def dies(self, work: Callable[[], None], change: int) -> bool:
        """Run work in a child process, and advance our clock too. Return True if the child died."""
        died = dies(work, change)
        self.clock.moment += timedelta(seconds=10)
        return died

    def must(self, *words: str) -> None:
        """Run a command that must succeed."""
        assert self.code(*words) == 0, words

    def code(self, *words: str) -> int:
        """Run a command and return its exit code. Its messages are printed."""
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()) as said,
        ):
            code = main(words, self.keeper())
        print(said.getvalue())
        return code

    def read(self) -> Said:
        """Return the rows that a reader of the warehouse sees."""
        with duckdb.connect(str(self.layout.database), read_only=True) as connection:
            newest, history = (
                connection.execute(QUERY.format(schema)).fetchall()
                for schema in ("main", "history")
            )
        return sorted(newest), sorted(history)

    def dates(self) -> set[date]:
        """Return the dates of all rows in the tables of the book."""
        query = " union ".join(f"select snapshot_date from history.{one.name}" for one in BOOK)
        with duckdb.connect(str(self.layout.database), read_only=True) as connection:
            return {day for (day,) in connection.execute(query).fetchall()}

    def totals(self) -> dict[str, Decimal]:
        """Return the sums that the warehouse reports."""
        with duckdb.connect(str(self.layout.database), read_only=True) as connection:
            told = connection.execute("select asset_id, total_text from holdings_by_asset")
            return {asset: Decimal(text) for asset, text in told.fetchall()}

    @staticmethod
    def put(path: Path, content: bytes, mode: int) -> None:
        """Write a file, whatever its mode."""
        path.chmod(0o640)
        path.write_bytes(content)
        path.chmod(mode)

    def is_left(self, path: Path) -> bool:
        """Return True if a dead run left the file: hidden, half pruned, or in a partial lake."""
        if any(part.startswith(".") for part in path.parts):
            return True
        known = {one.snapshot_id: one.state for one in snapshots.landed_snapshots(self.layout)}
        night = path.stem if path.stem in known else path.parent.name
        if night not in known:
            return False
        is_of_lake = path.is_relative_to(self.layout.lake)
        is_unmade = is_of_lake and not self.layout.manifest(night).exists()
        is_for_ever = path.name in {night_folders.MANIFEST, snapshots.DECISION}
        return is_unmade or (known[night] == PRUNED and not is_for_ever)


@pytest.mark.torture
def test_people_see_exactly_the_accepted_data_after_any_steps(
    record_property: Callable[[str, object], None],
) -> None:
    """People see exactly the accepted data after steps in any order.

    The steps are runs, deaths, flipped bits, restores, decisions, prunings and rebuilds.
    """
    Keeping.done.clear()
    run_state_machine_as_test(
        Keeping,
        settings=settings(
            max_examples=20,
            stateful_step_count=30,
            deadline=None,
            derandomize=True,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    record_property("torture", ("model", dict(sorted(Keeping.done.items()))))
    assert Keeping.done.keys() >= EVERYTHING
