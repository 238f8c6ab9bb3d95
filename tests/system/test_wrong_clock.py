"""A test of a machine with a wrong clock: the date of its night, and the output of its run."""

from collections.abc import Callable

import pytest

from pipelines.landing import snapshots
from pipelines.landing.manifest import load_manifest
from tests.support.operator_home import FIRST, SECOND, Keeper
from warehouse.contract import states

TWENTY_HOURS = 72_000_331


@pytest.mark.torture
def test_a_night_with_a_wrong_clock_is_held(
    empty: Callable[..., Keeper],
) -> None:
    """With a clock twenty hours ahead, the night has the API's date and is held as uncertain."""
    keeper = empty()
    assert keeper.run(FIRST).code == 0
    keeper.sandbox.show(skew_ms=-TWENTY_HOURS)
    said = keeper.run(SECOND)
    assert said.code == 3, said.err
    assert "the date is uncertain" in said.err
    first, wrong = snapshots.landed_snapshots(keeper.layout)
    assert wrong.snapshot_id in said.out + said.err, said
    assert {one.snapshot_date for one in (first, wrong)} == {FIRST}
    assert (first.state, wrong.state) == (states.ACCEPTED, states.HELD)
    manifest = load_manifest(wrong.folder)
    assert manifest.is_date_doubtful
    assert (manifest.machine_date, manifest.snapshot_date) == (SECOND, FIRST)
    # After the clock is corrected, the night of the second date is taken normally.
    keeper.sandbox.show()
    assert keeper.run(SECOND).code == 0
    newest = snapshots.landed_snapshots(keeper.layout)[-1]
    assert (newest.snapshot_date, newest.state) == (SECOND, states.ACCEPTED)
    assert newest.snapshot_id > wrong.snapshot_id
