"""Scenarios to interrupt: each has a home to start from, an action, and the next run."""

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
from pipelines.landing.damage import CHANGED, MISSING
from pipelines.landing.manifest import load_manifest
from pipelines.landing.snapshots import DecisionNotAllowed
from pipelines.maintenance.verify import verify
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
    """An action to interrupt: `prepare` makes the home, `act` is interrupted, `again` runs next.

    `otherwise` has other actions. If a disk failed, the views that they leave are valid too. If
    `unmakes` is set, files of the lake may be missing or surplus right after an interruption. If
    `makes_room` is set, the action may delete a night's lake tables on a full disk, before it has
    room to record that.
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
        """Return True if lake files may be missing or surplus after such an interruption."""
        return self.unmakes or (self.makes_room and mode == "full")


def view(home: Path) -> str | None:
    """Return a digest of everything that readers see, or None if nothing was ever published."""
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
    """Return digests of all books in the warehouse, which an interruption must not change."""
    found = {}
    with duckdb.connect(str(Layout(home).database), read_only=True) as connection:
        for table in BOOK:
            rows = connection.execute(f"select * from {stored_as(table)} order by all").fetchall()
            found[table.name] = hashlib.sha256(repr(rows).encode()).hexdigest()
    return found


def lake(home: Path) -> dict[str, str]:
    """Return digests of all books in the lake, which must be equal byte for byte."""
    found = {}
    layout = Layout(home)
    for table in BOOK:
        for path in (layout.lake / table.name).rglob("*.parquet"):
            place = str(path.parent.relative_to(layout.lake))
            found[place] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def decided(home: Path) -> dict[str, str]:
    """Return all decisions on each night, without their times."""
    return {
        one.snapshot_id: repr([(each.state, each.by, each.reasons) for each in one.decisions])
        for one in snapshots.landed_snapshots(Layout(home))
        if one.decisions
    }


def damage(home: Path, *, is_unmade: bool = False) -> list[str]:
    """Return the damage that `verify` finds, except for a warehouse that does not exist yet.

    With `is_unmade`, it omits missing and surplus files of the lake too.
    """
    layout = Layout(home)
    unmade = {layout.database}
    return [
        str(one)
        for one in verify(layout)
        if not (one.what == MISSING and one.file in unmade)
        and not (is_unmade and one.what != CHANGED and layout.lake in one.file.parents)
    ]


def left_over(home: Path) -> list[str]:
    """Return the half-made files that no run has deleted."""
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
    """Run `nightbook accept ID`. Ignore the refusal if the night was already decided on."""
    held = snapshots.landed_snapshots(Layout(home))[-1].snapshot_id
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(DecisionNotAllowed):
        nights.accept_command.callback(
            nightbook(home, Clock(moment)),
            snapshot_id=held,
            why="known",
            dry_run=False,
            output_format=None,
        )


def _prune(home: Path, moment: datetime) -> None:
    """Run `nightbook prune --keep 1 --no-month-ends`."""
    with contextlib.redirect_stdout(io.StringIO()):
        keeper = nightbook(home, Clock(moment))
        prune.prune_command.callback(
            keeper, keep_days=1, max_gb=None, no_month_ends=True, is_shelf=False, dry_run=False
        )


def _remake(home: Path, moment: datetime) -> None:
    """Run `nightbook run --date` for a night that is already published."""
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
    """Make a home with two books, one of which a person accepted."""
    _held(home)
    _accept(home, at(1) + LATER)


def _rebuild(*, from_landing: bool) -> Act:
    """Return an action that runs `nightbook rebuild`, with or without `--from-landing`."""

    def act(home: Path, moment: datetime) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            nights.rebuild_command.callback(
                nightbook(home, Clock(moment)),
                from_landing=from_landing,
                engine=None,
                dry_run=False,
                output_format=None,
            )

    return act


def _half_landed(home: Path) -> None:
    """Make a home that three killed runs left behind.

    The first one had landed a night, the second had built half of a version, and the third was
    pulling a night.
    """
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
    """Run tonight's night although a left-over night cannot be flattened and remains a gap."""
    _failing(night, "stage_portfolios", lambda _layout, manifest: manifest.snapshot_id)
    run(home, moment, answers(at(2).date()))


def _undecided(home: Path, moment: datetime) -> None:
    """Run tonight's night although the decision on a left-over night cannot be written."""
    _failing(snapshots, "decide", lambda snapshot, *_: snapshot.snapshot_id)
    run(home, moment, answers(at(2).date()))


def _failing(module: Any, step: str, snapshot_id: Callable[..., str]) -> None:
    """Make a step fail for every snapshot before tonight's."""
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
