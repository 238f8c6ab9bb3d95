"""A test of a night that waits for a different command: it lands, and an alert is sent."""

from collections.abc import Callable

from pipelines.landing import snapshots
from pipelines.landing.lock import hold_writer_lock
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import THIRD


def test_a_run_that_stops_waiting_sends_an_alert(
    watched: Callable[..., Watched], receiver: Receiver
) -> None:
    """If a run stops waiting, an alert names the lock's holder and says that the night landed."""
    keeper = watched().keeper
    keeper.sandbox.show()
    with hold_writer_lock(keeper.layout, "backing up", keeper.sandbox.clock()):
        assert keeper.run(THIRD).code == 1
    words = "\n".join(f"{title}\n{message}" for title, message in receiver.alerts)
    assert str(THIRD) in words
    assert "backing up, process" in words
    assert "has landed completely" in words
    assert snapshots.landed_snapshots(keeper.layout)[-1].snapshot_date == THIRD
