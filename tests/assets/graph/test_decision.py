"""Tests of the Dagster job that decides on a held night and updates all dependent assets."""

import dagster as dg
import pytest

from assets.definitions import assemble
from assets.graph.step import DECIDE, failure_message
from assets.runs.instance import open_instance
from tests.support.operator_home import FOURTH, THIRD, Keeper

FAILED = dg.DagsterRunStatus.FAILURE
HELD = f"{FOURTH:%Y%m%d}T021500Z"


def decided(keeper: Keeper, **config: str) -> dg.ExecuteInProcessResult:
    """Run the decision job as the Launchpad does, with the values that a person filled in."""
    job = assemble(keeper.nightbook).resolve_job_def(DECIDE)
    return job.execute_in_process(
        partition_key=str(FOURTH),
        run_config={"ops": {"decision": {"config": config}}},
        raise_on_error=False,
    )


def state(keeper: Keeper) -> tuple[object, ...]:
    """Return the fourth night's state, decider and reason from the warehouse."""
    [row] = keeper.ask(
        f"select state, decided_by, reason from ops.snapshots where snapshot_id = '{HELD}'"
    )
    return row


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        ({}, "`decision` is neither accept nor reject"),
        ({"decision": "accept"}, "`by` is empty"),
        (
            {"decision": "accept", "by": "ada", "snapshot": "20260303T021500Z"},
            "belongs to 2026-03-03",
        ),
    ],
)
def test_an_incomplete_form_changes_nothing(
    held: Keeper, config: dict[str, str], missing: str
) -> None:
    """A form without a decision or name, or with a different night's snapshot, changes nothing."""
    before = state(held)
    run = decided(held, **config)
    assert not run.success
    [words] = [failure_message(event) for event in run.all_events if event.is_step_failure]
    assert missing in words
    assert state(held) == before


@pytest.mark.parametrize("snapshot", ["nonsense", "20260303T021500Z"])
def test_an_invalid_snapshot_id_cancels_the_run(held: Keeper, snapshot: str) -> None:
    """A run with an invalid snapshot ID is canceled, and the night remains held.

    If the run failed instead, Dagster would show all its views as failed.
    """
    job = assemble(held.nightbook).resolve_job_def(DECIDE)
    config = {"decision": "accept", "by": "ada", "why": "it is right", "snapshot": snapshot}
    with open_instance(held.layout) as instance:
        run = job.execute_in_process(
            partition_key=str(FOURTH),
            run_config={"ops": {"decision": {"config": config}}},
            instance=instance,
            raise_on_error=False,
        )
        stored = instance.get_run_by_id(run.run_id)
        assert stored is not None
        assert stored.status is dg.DagsterRunStatus.CANCELED
        failed = instance.get_runs(dg.RunsFilter(job_name=DECIDE, statuses=[FAILED]))
        assert failed == []
    assert state(held)[0] == "held"


def test_accepting_a_night_updates_all_dependent_assets(held: Keeper) -> None:
    """Accepting a held night makes it the book, and updates all dependent assets and checks."""
    run = decided(held, decision="accept", by="ada", why="the desk was closed")
    assert run.success
    made = {key.to_user_string() for key in map(_key, run.get_asset_materialization_events())}
    assert {"decision", "warehouse", "views/holdings", "workbook", "report"} <= made
    checks = {check.check_name: check.passed for check in run.get_asset_check_evaluations()}
    assert checks["night_is_accepted"]
    assert checks["amounts"]
    assert held.ask("select max(snapshot_date) from ops.snapshots where is_book") == [(FOURTH,)]
    assert state(held)[:2] == ("accepted", "ada")
    assert "the desk was closed" in str(state(held)[2])
    assert list(held.layout.exports.rglob(f"*{FOURTH}*.xlsx"))


def test_rejecting_an_accepted_night_shows_the_previous_book(held: Keeper) -> None:
    """Rejecting the accepted night succeeds without a workbook, and the previous book is shown."""
    run = decided(held, decision="reject", by="ada", why="half was missing")
    assert run.success
    made = {key.to_user_string() for key in map(_key, run.get_asset_materialization_events())}
    assert "workbook" not in made
    assert {"decision", "warehouse", "report"} <= made
    assert held.ask("select max(snapshot_date) from ops.snapshots where is_book") == [(THIRD,)]
    assert held("verify").code == 0


def _key(event: dg.DagsterEvent) -> dg.AssetKey:
    assert event.asset_key is not None
    return event.asset_key
