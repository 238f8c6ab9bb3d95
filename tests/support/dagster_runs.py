"""Runs of Dagster's daemon in this process, and the sensors after them."""

from datetime import date
from typing import cast

import dagster as dg

from assets.definitions import assemble
from assets.graph.sensors import LOGGED, NIGHTLY, sensors
from assets.runs.instance import open_instance
from tests.support.created_home import created_home
from tests.support.operator_home import Keeper

ENDED = {
    dg.DagsterRunStatus.SUCCESS: (1, dg.DagsterEventType.RUN_SUCCESS),
    dg.DagsterRunStatus.FAILURE: (0, dg.DagsterEventType.RUN_FAILURE),
}


def scheduled(
    keeper: Keeper, day: date, *, is_created_first: bool = True
) -> dg.ExecuteInProcessResult:
    """Run the night of a date at its time, as the schedule does."""
    keeper.sandbox.clock.night(day)
    return launched(keeper, day, is_created_first=is_created_first)


def launched(
    keeper: Keeper, day: date, *, is_created_first: bool = True
) -> dg.ExecuteInProcessResult:
    """Run the nightly job for a date now, as a backfill does."""
    if is_created_first:
        created_home(keeper.home)
    job = assemble(keeper.nightbook).resolve_job_def(NIGHTLY)
    with open_instance(keeper.layout) as instance:
        return job.execute_in_process(
            partition_key=str(day), instance=instance, run_config=LOGGED, raise_on_error=False
        )


def ended(keeper: Keeper) -> None:
    """Run the sensor that matches the status of the newest run, as the daemon does."""
    with open_instance(keeper.layout) as instance:
        run = instance.get_runs(limit=1)[0]
        which, kind = ENDED[run.status]
        events = [log.dagster_event for log in instance.all_logs(run.run_id, of_type=kind)]
        context = dg.build_run_status_sensor_context(
            "tested", cast("dg.DagsterEvent", events[0]), instance, run
        )
        sensor = sensors(keeper.nightbook)[which]
        sensor(context.for_run_failure() if which == 0 else context)


def watching(keeper: Keeper) -> None:
    """Run one tick of the `watch` sensor, which looks for problems outside a run."""
    with open_instance(keeper.layout) as instance:
        sensors(keeper.nightbook)[2](dg.build_sensor_context(instance))
