"""Tests of runs that a signal stops: they say so, send no alert and leave no snapshot."""

import os
import signal
import sys
from collections.abc import Callable
from types import CodeType, FrameType

import pytest
from dagster import DagsterEvent

from pipelines.edge.client import EdgeClient
from pipelines.landing import snapshots
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import STOPPED, THIRD


@pytest.mark.parametrize(
    ("number", "place"),
    [
        (signal.SIGINT, EdgeClient.fetch_all.__code__),
        (signal.SIGTERM, DagsterEvent.job_start.__code__),
    ],
    ids=["Ctrl-C in a step", "SIGTERM between steps"],
)
def test_a_stopped_run_sends_no_alert_and_leaves_no_snapshot(
    watched: Callable[..., Watched], receiver: Receiver, number: signal.Signals, place: CodeType
) -> None:
    """A run that is stopped at any point sends no alert and leaves no snapshot, not even a part."""
    keeper = watched().keeper
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
    assert receiver.titles == []
    assert sorted(keeper.layout.landing.rglob("*")) == before
    assert snapshots.landed_snapshots(keeper.layout)[-1].snapshot_date < THIRD


def test_sigterm_can_end_a_run_in_the_background(
    watched: Callable[..., Watched],
) -> None:
    """A shell's background job keeps its SIGTERM handler, so that SIGTERM can still end it.

    Such a job ignores SIGINT, and Dagster would use the handler of SIGINT for SIGTERM.
    """
    keeper = watched().keeper
    before = signal.getsignal(signal.SIGTERM)
    kept = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        keeper.sandbox.show("access-denied-400,path=/portfolios")
        assert keeper.run(THIRD).code == 1
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGINT, kept)
