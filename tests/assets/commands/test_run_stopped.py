"""Tests of runs that a signal stops: they say so, send no alert and leave no snapshot."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import NoReturn

import pytest

from assets.night.run_log import newest_runs
from assets.night.steps import steps_of
from pipelines.edge.client import EdgeClient
from pipelines.landing import snapshots
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import STOPPED, THIRD


@pytest.fixture(autouse=True)
def plain() -> Iterator[None]:
    """Handle Ctrl-C as a new process does, because in the tests it would end all tests."""
    kept = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, kept)


@pytest.mark.parametrize(
    ("number", "place"),
    [
        (signal.SIGINT, EdgeClient.fetch_all.__code__),
        (signal.SIGTERM, steps_of.__code__),
    ],
    ids=["Ctrl-C in a step", "SIGTERM before the first step"],
)
def test_a_stopped_run_sends_no_alert_and_leaves_no_snapshot(
    watched: Callable[..., Watched], receiver: Receiver, number: signal.Signals, place: CodeType
) -> None:
    """A run that is stopped at any point sends no alert and leaves no snapshot, not even a part."""
    here = watched()
    keeper = here.keeper
    keeper.sandbox.show()
    before = sorted(keeper.layout.landing.rglob("*"))

    def stop(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is place:
            sys.setprofile(None)
            os.kill(os.getpid(), number)

    sys.setprofile(stop)
    with pytest.raises(KeyboardInterrupt) as stopped:  # Keeper raises it to end the tests.
        keeper.run(THIRD)
    [said] = stopped.value.args
    assert (said.code, said.err) == (1, STOPPED)
    assert not next(newest_runs(keeper.layout)).is_dead
    here.look()
    assert receiver.titles == []
    assert sorted(keeper.layout.landing.rglob("*")) == before
    assert snapshots.landed_snapshots(keeper.layout)[-1].snapshot_date < THIRD


def test_sigterm_can_end_a_run_in_the_background(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM can stop a run in a shell's background job, which ignores SIGINT.

    After the run, SIGTERM has its earlier handler again.
    """
    keeper = watched().keeper
    before = signal.getsignal(signal.SIGTERM)
    during = []

    def run(*_: object, **__: object) -> NoReturn:
        during.append(signal.getsignal(signal.SIGTERM))
        raise KeyboardInterrupt

    monkeypatch.setattr("assets.commands.run.run_night", run)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with pytest.raises(KeyboardInterrupt):
        keeper.run(THIRD)
    assert during == [signal.default_int_handler]
    assert signal.getsignal(signal.SIGTERM) is before
