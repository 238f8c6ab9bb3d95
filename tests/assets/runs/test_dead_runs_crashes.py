"""Tests of runs that crash or overlap: later nights are pulled, and readers see correct data."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

import dagster as dg
import pytest

from assets.night.run_log import newest_runs
from assets.publishing import publish
from assets.runs.instance import UNFINISHED, close_dead_runs
from pipelines.flatten.flatten import flatten_portfolios
from pipelines.flatten.parts import Part
from pipelines.landing import lock, snapshots
from pipelines.landing.lock import WriterBusy, hold_pull_lock, hold_writer_lock
from pipelines.landing.manifest import Manifest, load_manifest
from tests.support.operator_home import THIRD, Keeper, amounts_of
from warehouse.contract import states
from warehouse.contract.book import BOOK
from warehouse.progress import ProgressCallback
from warehouse.storage.layout import Layout

ROOT = Path(__file__).parents[3]
FIRST_DAY, SECOND_DAY, THIRD_DAY, NEXT = (THIRD + timedelta(days=n) for n in range(1, 5))
START = """
import json, os, signal, sys
from datetime import datetime
variables, moment = json.loads(sys.argv[1])
now = lambda: datetime.fromisoformat(moment)
def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)
"""
BY_HAND = f"""{START}
from pipelines import night, settings
from pipelines.pull import pull
from warehouse.storage.layout import Layout
from warehouse.contract.book import BOOK
chosen = settings.read(variables, api=True)
manifest = pull.pull_snapshot(chosen, now, "0")
if sys.argv[2] == "flattened":
    night.stage_portfolios(Layout(chosen.home), manifest)
    night.stage_venues(Layout(chosen.home), manifest)
die()
"""
WHOLE = f"""{START}
from assets.publishing import publish
from assets.cli import main
from assets.nightbook import Nightbook
publish.refresh = die
main(["run"], Nightbook(lambda: variables, now))
"""


def killed(keeper: Keeper, day: date, script: str, *words: str) -> None:
    """Run a night in a separate process that kills itself before the night is complete."""
    keeper.sandbox.clock.night(day)
    given = json.dumps([keeper.variables, keeper.sandbox.clock.moment.isoformat()])
    done = subprocess.run(
        [sys.executable, "-c", script, given, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.torture
def test_the_next_run_publishes_the_nights_of_dead_runs(copied: Keeper) -> None:
    """The next run pulls its own night, and publishes the landed nights of dead runs too."""
    shown = copied.history()
    killed(copied, FIRST_DAY, WHOLE)
    killed(copied, SECOND_DAY, BY_HAND, "landed")
    killed(copied, THIRD_DAY, BY_HAND, "flattened")
    assert copied.history() == shown
    said = copied.run(NEXT)
    assert (said.code, said.err) == (0, "")
    assert said.out.count("from a run that died") == 2
    for day in (SECOND_DAY, THIRD_DAY, FIRST_DAY, NEXT):
        rows = copied.ask(
            "select portfolio_id, asset_id, venue_id, account_name, bucket, state, amount_text "
            f"from history.balances where snapshot_date = '{day}'"
        )
        assert sorted(rows) == amounts_of(day)
    assert copied.ask("from ops.gaps") == []
    assert [run.is_dead for run in newest_runs(copied.layout)] == [False, False, False]


@pytest.mark.torture
def test_a_damaged_night_of_a_dead_run_remains_a_gap(copied: Keeper) -> None:
    """If a dead run's landed night is damaged, it remains a gap, and tonight's run succeeds."""
    killed(copied, FIRST_DAY, BY_HAND, "landed")
    [body] = copied.layout.landing.glob(f"{FIRST_DAY}/*/0001-portfolios.json.zst")
    body.chmod(0o640)
    body.write_bytes(b"not what was landed")
    said = copied.run(SECOND_DAY)
    assert (said.code, said.err) == (0, "")
    assert "from a run that died could not be judged" in said.out
    assert copied.ask("select snapshot_date, reason from ops.gaps") == [(FIRST_DAY, "complete")]
    assert copied.ask("select distinct snapshot_date from balances") == [(SECOND_DAY,)]


def test_a_command_waits_briefly_for_a_run_and_names_it(copied: Keeper) -> None:
    """While a run writes, a command waits briefly, names that run, fails and changes nothing."""
    before = sorted(copied.home.rglob("*"))
    with hold_writer_lock(copied.layout, "publishing 2026-03-05", copied.sandbox.clock()):
        for words in (
            ("rebuild",),
            ("reject", "20260305T021500Z", "--why", "a test"),
            ("prune", "--keep", "1"),
        ):
            said = copied(*words)
            assert said.code == 1
            holder = f"publishing 2026-03-05, process {os.getpid()}, since 2026-03-05"
            assert f"waiting for: {holder}" in said.out + said.err
            assert holder in said.err
            assert "This run wrote nothing" in said.err
    assert sorted(copied.home.rglob("*")) == before


@pytest.mark.torture
def test_a_run_lands_its_night_even_if_the_home_is_locked(copied: Keeper) -> None:
    """If a command holds the writer's lock, a run still lands its night, and `rebuild` judges it.

    The run fails with a message that the night has landed, not that nothing was written.
    """
    with hold_writer_lock(copied.layout, "backing up", copied.sandbox.clock()):
        said = copied.run(FIRST_DAY)
    assert said.code == 1
    assert f"waiting for: backing up, process {os.getpid()}" in said.out
    assert f"of {FIRST_DAY} has landed completely" in said.err
    assert "wrote nothing" not in said.out + said.err
    assert snapshots.landed_snapshots(copied.layout)[-1].state == states.COMPLETE
    assert copied("rebuild").code == 0
    assert snapshots.landed_snapshots(copied.layout)[-1].state == states.ACCEPTED
    rows = copied.ask(
        "select portfolio_id, asset_id, venue_id, account_name, bucket, state, amount_text "
        f"from history.balances where snapshot_date = '{FIRST_DAY}'"
    )
    assert sorted(rows) == amounts_of(FIRST_DAY)


@pytest.mark.torture
def test_a_run_keeps_the_lock_of_the_writer_until_it_ends(
    copied: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run holds the writer's lock until it ends, and the lock names the night being made."""
    told: list[str] = []

    def flatten(layout: Layout, manifest: Manifest, say: ProgressCallback) -> Part:
        try:
            with hold_writer_lock(layout, "sneaking in", copied.sandbox.clock()):
                told.append("nobody held it")
        except WriterBusy as busy:
            told.append(busy.holder)
        return flatten_portfolios(layout, manifest, say)

    monkeypatch.setattr("pipelines.flatten.flatten.flatten_portfolios", flatten)
    assert copied.run(FIRST_DAY).code == 0
    assert [words.partition(",")[0] for words in told] == [f"flattening {FIRST_DAY}"]
    with hold_writer_lock(copied.layout, "working on", copied.sandbox.clock()):
        """The lock is free, because the run has ended."""


def test_the_files_of_a_running_pull_are_kept(copied: Keeper) -> None:
    """The files of a running pull are kept, and the partial files of a dead pull are deleted."""
    layout, now = copied.layout, copied.sandbox.clock()
    half = layout.landing / str(FIRST_DAY) / ".20260306T021500Z.pulling"
    half.mkdir(parents=True)
    with hold_pull_lock(layout, f"taking the snapshot of {FIRST_DAY}", now):
        assert copied("rebuild").code == 0
        assert half.is_dir()
    lock.sweep(layout)
    assert not half.exists()


@pytest.mark.torture
@pytest.mark.parametrize("left", [0, 1, len(BOOK)])
def test_publishing_can_be_repeated_after_a_dead_run(copied: Keeper, left: int) -> None:
    """If a run died while it moved a judged night into place, publishing can be repeated.

    `left` is the number of tables that were still staged. No table is flattened a second time, and
    the night is not judged a second time.
    """
    layout, before = copied.layout, copied.everything()
    newest = snapshots.landed_snapshots(layout)[-1]
    for table in BOOK[:left]:
        placed = layout.parquet(table.name, newest.snapshot_date, newest.snapshot_id)
        placed.rename(layout.staged_file(table.name, newest.snapshot_id))
    copied.sandbox.clock.night(newest.snapshot_date, hour=3)
    outcome = publish.judge_and_publish(copied.nightbook, load_manifest(newest.folder))
    assert outcome.snapshot.state == states.ACCEPTED
    assert copied.everything().keys() == before.keys()
    assert copied.history() == {name: before[f"history.{name}"] for name in copied.history()}
    assert copied("verify").code == 0


def test_a_starting_daemon_closes_its_dead_runs(tmp_path: Path) -> None:
    """A starting daemon closes the runs that an earlier daemon left, but not the finished ones."""

    @dg.job
    def nothing() -> None:
        """Do nothing."""

    finished = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED]
    with dg.DagsterInstance.ephemeral() as instance:
        for status in (*UNFINISHED, *finished):
            instance.create_run_for_job(nothing, status=status)
        assert len(close_dead_runs(instance)) == len(UNFINISHED)
        failed = [dg.DagsterRunStatus.FAILURE] * len(UNFINISHED)
        assert [run.status for run in instance.get_runs()] == [*reversed(finished), *failed]
        assert close_dead_runs(instance) == []


def test_a_failed_pull_leaves_a_gap(empty: Callable[..., Keeper]) -> None:
    """A night that cannot be pulled ends with code 1 and the API's error, and lands nothing."""
    keeper = empty()
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    said = keeper("run")
    assert said.code == 1
    assert "ACCESS_DENIED" in said.err
    assert "Traceback" not in said.err
    assert list(keeper.layout.landing.glob("*/*")) == []
    assert not keeper.layout.database.exists()


def test_an_unexpected_error_is_reported_with_its_cause(
    copied: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error in a step is reported with its cause, and --debug adds the traceback."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("pipelines.flatten.flatten.flatten_venues", broken)
    said = copied("--debug", "run", "--date", str(THIRD))
    assert said.code == 1
    assert "The step flatten_venues failed" in said.err
    assert "ZeroDivisionError: a defect" in said.err
    assert "test_dead_runs_crashes.py" in said.err
