"""Tests of a night's steps: which steps run after a failure, and how the failure is reported."""

from collections.abc import Callable

import pytest

from assets.night import steps
from assets.night.results import ERROR, WARN, AssetCheck, AssetResult, Result
from assets.night.run_log import newest_runs
from assets.night.step import NightStep, StepFailure
from assets.night.steps import STEPS, Step, run_night
from assets.night.warehouse import ACCEPTED, WAREHOUSE
from pipelines.night import NeverLanded
from tests.support.operator_home import THIRD, Keeper

ALL = {step.name for step in STEPS}
FILES = {"workbook", "report", "reconciliation"}
Outcome = Exception | AssetCheck
Run = Callable[..., tuple[set[str], tuple[StepFailure, ...]]]


def check(name: str, severity: str = ERROR, asset: tuple[str, ...] = WAREHOUSE) -> AssetCheck:
    """Return the result of a check that did not pass."""
    return AssetCheck(asset=asset, check=name, passed=False, severity=severity)


@pytest.fixture
def ran(empty: Callable[..., Keeper], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a night in which chosen steps raise an error or fail a check.

    It returns the steps whose assets are in the log, and the failures.
    """

    def step(name: str, outcome: Outcome | None) -> Callable[[NightStep], list[Result]]:
        def act(_: NightStep) -> list[Result]:
            if isinstance(outcome, Exception):
                raise outcome
            return [AssetResult(asset=(name,)), *([outcome] if outcome else [])]

        return act

    def run(**outcomes: Outcome) -> tuple[set[str], tuple[StepFailure, ...]]:
        keeper = empty()
        chosen = [
            Step(one.name, step(one.name, outcomes.get(one.name)), one.after) for one in STEPS
        ]
        monkeypatch.setattr(steps, "steps_of", lambda _: chosen)
        failures = run_night(keeper.nightbook, THIRD, "ours").failures
        [logged] = newest_runs(keeper.layout)
        assert logged.is_ended
        return {
            result.asset[0] for result in logged.results if isinstance(result, AssetResult)
        }, failures

    return run


def test_each_step_runs_after_the_steps_that_it_needs() -> None:
    """Each step is listed after the steps that it needs."""
    names = [step.name for step in STEPS]
    assert all(names.index(one) < names.index(step.name) for step in STEPS for one in step.after)


def test_steps_that_need_a_failed_step_are_skipped(ran: Run) -> None:
    """If a step fails, the steps that need it are skipped, and all other steps run."""
    assert ran() == (ALL, ())
    done, [failure] = ran(flatten_venues=NeverLanded(THIRD, THIRD, []))
    assert done == {"pull", "flatten_portfolios"}
    assert (failure.step, failure.trace) == ("flatten_venues", "")
    assert failure.message.startswith(f"{THIRD} has not been pulled yet")
    done, [failure] = ran(report=ZeroDivisionError("a defect"))
    assert done == ALL - {"report"}
    assert "The step report failed with an unexpected error" in failure.message
    assert "ZeroDivisionError: a defect" in failure.message
    assert "Traceback" in failure.trace


def test_only_a_blocking_check_stops_the_night(ran: Run) -> None:
    """After a blocking check fails, no file is written. Other checks stop no step.

    A check on a table, a warning, and the check that the night is accepted do not block.
    """
    done, [failure] = ran(tell_checks=check("amounts"))
    assert done == ALL - FILES
    assert "The published book fails amounts, so no file was written" in failure.message
    for harmless in (check("amounts", WARN), check("venues_key", asset=("lake", "venues"))):
        assert ran(tell_checks=harmless) == (ALL, ())
    assert ran(warehouse=check(ACCEPTED)) == (ALL, ())
