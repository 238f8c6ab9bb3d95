"""Tests of a held night in Dagster: it looks the same whether or not there is an earlier book."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from assets.graph.step import STATE
from assets.runs.instance import open_instance
from tests.support.dagster_runs import ended, scheduled
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import THIRD, Keeper

Make = Callable[..., Watched]
States = dict[tuple[str, str], tuple[bool, str]]


@pytest.fixture(params=["first", "later"])
def keeper(request: pytest.FixtureRequest, watched: Make, tmp_path: Path) -> Keeper:
    """Return a home without a night, and a home with two good nights."""
    later = watched().keeper
    return later if request.param == "later" else Keeper(tmp_path / "new", later.sandbox)


def states_of(run: dg.ExecuteInProcessResult) -> States:
    """Return the result and the severity of each check of a run."""
    return {
        (check.asset_key.to_user_string(), check.check_name): (check.passed, check.severity.value)
        for check in run.get_asset_check_evaluations()
    }


def test_a_held_night_is_a_warning_and_not_a_failure(keeper: Keeper) -> None:
    """The run of a held night succeeds and is tagged as held. Its checks warn with the reasons.

    The reasons are the same ones, in the same order, as in `ops.snapshots`.
    """
    keeper.sandbox.show("portfolios-empty")
    run = scheduled(keeper, THIRD)
    assert run.success
    with open_instance(keeper.layout) as instance:
        assert instance.get_runs(limit=1)[0].tags[STATE] == "held"
    [(reason,)] = keeper.ask(f"select reason from ops.snapshots where snapshot_date = '{THIRD}'")
    checks = {check.check_name: check for check in run.get_asset_check_evaluations()}
    assert checks["night_is_accepted"].description == reason
    expected = f"Not checked, because the night of {THIRD} is held: {reason}"
    assert checks["amounts"].description == checks["balances_key"].description == expected
    states = states_of(run)
    assert {severity for _, severity in states.values()} == {"WARN"}
    passed = {name for (_, name), (is_passed, _) in states.items() if is_passed}
    assert passed == {"control_totals_agree"}


def test_a_failure_of_a_held_night_is_not_hidden(watched: Make, receiver: Receiver) -> None:
    """If a step of a held night fails, the run fails, and an alert says so next to the hold."""
    keeper = watched().keeper
    keeper.sandbox.show("portfolios-empty")
    keeper.layout.reports.mkdir(exist_ok=True)
    (keeper.layout.reports / "latest.html").mkdir()
    assert not scheduled(keeper, THIRD).success
    ended(keeper)
    assert receiver.titles == [f"the run of {THIRD} failed", f"the night of {THIRD} is held"]
    said = keeper("run", "--date", str(THIRD))
    assert said.code == 3
    assert said.err.startswith("Held: ")
    assert "The step report failed" in said.err
