"""What is interrupted: each scenario is a home to start from, an action, and the run after it."""

import contextlib
import hashlib
import io
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb

from assets.commands import nights, prune
from assets.publishing import publish
from pipelines import night
from pipelines.lake.lake_manifest import LakeManifests
from pipelines.landing import lock, snapshots
from pipelines.landing.manifest import load_manifest
from pipelines.landing.snapshots import DecisionNotAllowed
from pipelines.maintenance.verify import CHANGED, MISSING, verify
from tests.crash.nights import Clock, answers, at, land, nightbook, run
from warehouse.contract.book import BOOK
from warehouse.contract.states import HELD
from warehouse.database.ddl import stored_as
from warehouse.storage.layout import Layout

LATER = timedelta(hours=1)
_LEFT = re.compile(r"\..+\.(aside|pulling)|\.tmp-.+|\.current")
Act = Callable[[Path, datetime], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A home is made by `prepare`; `act` is interrupted; `again` is what runs next.

    `otherwise` are other ways in which it may end whole, where a disk failed. Where `unmakes` is
    set, files of the lake may be missing right after an interruption, or nobody's. Who `makes_room`
    lets the lake's tables of a night go before it has room to say so, on a disk that is full.
    """

    name: str
    moment: datetime
    prepare: Callable[[Path], None]
    act: Act
    again: Act
    otherwise: tuple[Act, ...] = ()
    unmakes: bool = False
    makes_room: bool = False

    def is_unmade(self, mode: str) -> bool:
        """Whether files of the lake may be missing, or nobody's, after such an interruption."""
        return self.unmakes or (self.makes_room and mode == "full")


def view(home: Path) -> str | None:
    """A digest of all that readers see, or None where nothing was ever published."""
    if not (home / "warehouse" / "current").is_symlink():
        return None
    told = hashlib.sha256()
    queries = [f"select * from {stored_as(table)} order by all" for table in BOOK]
    queries += ["select snapshot_id, state, is_book from ops.snapshots order by all"]
    queries += ["select * exclude (sent_at, received_at) from ops.requests order by all"]
    with duckdb.connect(str(Layout(home).database), read_only=True) as connection:
        for query in queries:
            told.update(repr(connection.execute(query).fetchall()).encode())
    return told.hexdigest()


def books(home: Path) -> dict[str, str]:
    """What must be equal however the run was interrupted: every book in the warehouse."""
    found = {}
    with duckdb.connect(str(Layout(home).database), read_only=True) as connection:
        for table in BOOK:
            rows = connection.execute(f"select * from {stored_as(table)} order by all").fetchall()
            found[table.name] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return found


def lake(home: Path) -> dict[str, str]:
    """And every book in the lake, byte for byte."""
    found = {}
    layout = Layout(home)
    for table in BOOK:
        for path in (layout.lake / table.name).rglob("*.parquet"):
            place = str(path.parent.relative_to(layout.lake))
            found[place] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def decided(home: Path) -> dict[str, str]:
    """Every decision that was made of a night, when it was made left out."""
    return {
        one.snapshot_id: repr([(each.state, each.by, each.reasons) for each in one.decisions])
        for one in snapshots.landed_snapshots(Layout(home))
        if one.decisions
    }


def damage(home: Path, *, is_unmade: bool = False) -> list[str]:
    """What `verify` finds right after an interruption, but for what was not made yet."""
    layout = Layout(home)
    unmade = {layout.database}
    return [
        str(one)
        for one in verify(layout)
        if not (one.what == MISSING and one.file in unmade)
        and not (is_unmade and one.what != CHANGED and layout.lake in one.file.parents)
    ]


def left_over(home: Path) -> list[str]:
    """Half-made files that nobody cleared."""
    return [str(path.relative_to(home)) for path in home.rglob(".*") if _LEFT.fullmatch(path.name)]


def _nights(count: int) -> Callable[[Path], None]:
    def prepare(home: Path) -> None:
        home.mkdir(parents=True)
        for number in range(count):
            run(home, at(number))

    return prepare


def _night(number: int, of: date | None = None) -> Act:
    def act(home: Path, moment: datetime) -> None:
        run(home, moment, answers(of or at(number).date()))

    return act


def _held(home: Path) -> None:
    _nights(1)(home)
    if run(home, at(1), answers(at(1).date(), portfolios=1)).state != HELD:
        raise AssertionError("the guards did not hold a night that lost portfolios")


def _accept(home: Path, moment: datetime) -> None:
    """`nightbook accept ID`; where that was decided already, it says so."""
    held = snapshots.landed_snapshots(Layout(home))[-1].snapshot_id
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(DecisionNotAllowed):
        nights.accept(nightbook(home, Clock(moment)), snapshot_id=held, why="known")


def _prune(home: Path, moment: datetime) -> None:
    """`nightbook prune --keep 1 --no-month-ends`."""
    with contextlib.redirect_stdout(io.StringIO()):
        keeper = nightbook(home, Clock(moment))
        prune.run(
            keeper, keep_days=1, max_gb=None, no_month_ends=True, is_shelf=False, dry_run=False
        )


def _remake(home: Path, moment: datetime) -> None:
    """`nightbook run --date` of a night that is published already."""
    layout, clock = Layout(home), Clock(moment)
    lock.sweep(layout)
    manifest = load_manifest(snapshots.landed_snapshots(layout)[-1].folder)
    night.finish(
        LakeManifests(layout),
        layout.snapshot(manifest.snapshot_date, manifest.snapshot_id),
        clock(),
    )
    publish.refresh(nightbook(home, clock))


def _decided(home: Path) -> None:
    """Two books, one of them by a person's decision."""
    _held(home)
    _accept(home, at(1) + LATER)


def _rebuild(*, from_landing: bool) -> Act:
    """`nightbook rebuild`, or with `--from-landing`."""

    def act(home: Path, moment: datetime) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            nights.rebuild_nights(nightbook(home, Clock(moment)), from_landing=from_landing)

    return act


def _half_landed(home: Path) -> None:
    """A night landed, half of the next version built, and a pull that was cut: three deaths."""
    _nights(1)(home)
    layout = Layout(home)
    manifest = land(layout, Clock(at(1)), answers(at(1).date()))
    night.stage_portfolios(layout, manifest)
    versions = layout.warehouse / "versions"
    shutil.copytree(layout.database.parent.resolve(), versions / ".tmp-dead")
    (layout.warehouse / ".current").symlink_to("versions/.tmp-dead")
    pulling = layout.landing / "2026-11-20" / ".20261120T011500Z.pulling"
    pulling.mkdir(parents=True)
    (pulling / "0001-portfolios.json.zst").write_bytes(b"cut")


def _unmade(home: Path, moment: datetime) -> None:
    """Tonight goes on where a left-over night cannot be flattened; that one stays a gap."""
    _failing(night, "stage_portfolios", lambda _layout, manifest: manifest.snapshot_id)
    run(home, moment, answers(at(2).date()))


def _undecided(home: Path, moment: datetime) -> None:
    """The same where its decision cannot be written."""
    _failing(snapshots, "decide", lambda snapshot, *_: snapshot.snapshot_id)
    run(home, moment, answers(at(2).date()))


def _failing(module: Any, step: str, snapshot_id: Callable[..., str]) -> None:
    """Let a step fail for every snapshot before tonight's."""
    done: Callable[..., Any] = getattr(module, step)

    def failing(*given: Any, **named: Any) -> Any:
        if snapshot_id(*given) < f"{at(2):%Y%m%d}":
            raise OSError("the disk failed")
        return done(*given, **named)

    setattr(module, step, failing)


REBUILD, RELAND = _rebuild(from_landing=False), _rebuild(from_landing=True)
SCENARIOS = {
    one.name: one
    for one in (
        Scenario("first", at(0), _nights(0), _night(0), _night(0)),
        Scenario("next", at(1), _nights(1), _night(1), _night(1)),
        Scenario(
            "again",
            at(1) + 4 * LATER,
            _nights(2),
            _night(1, at(2).date()),
            _night(1, at(2).date()),
        ),
        Scenario("remade", at(1) + 4 * LATER, _nights(2), _remake, _remake),
        Scenario("accept", at(1) + 4 * LATER, _held, _accept, _accept),
        Scenario("prune", at(2), _nights(2), _prune, _prune, makes_room=True),
        Scenario("rebuild", at(2), _decided, REBUILD, REBUILD),
        Scenario("from landing", at(2), _decided, RELAND, RELAND, unmakes=True),
        Scenario("half rebuilt", at(2), _decided, RELAND, _night(2), unmakes=True),
        Scenario("recovery", at(2), _half_landed, _night(2), _night(2), (_unmade, _undecided)),
    )
}
