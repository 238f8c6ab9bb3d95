"""When the book is taken: the nightly job, its schedule, and the job that decides."""

import dagster as dg

from assets.graph.log import run_config
from assets.graph.published.decision import TO_FILL_IN
from assets.graph.published.warehouse import DECISION
from assets.graph.step import DECIDE
from assets.home.demo import is_demo
from assets.monitoring.due import night_of
from assets.nightbook import Nightbook

NIGHTLY = "nightly"
LONGEST_RUN = 2 * 3600
LOGGED = run_config("INFO")


# Every step in one process: one of its own would cost seconds.
NIGHTLY_JOB = dg.define_asset_job(
    NIGHTLY,
    selection=dg.AssetSelection.all() - dg.AssetSelection.assets(DECISION),
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": str(LONGEST_RUN)},
    config=LOGGED,
    description="Take tonight's book: pull, land, flatten, judge, publish, tell.",
)
DECIDE_JOB = dg.define_asset_job(
    DECIDE,
    selection=dg.AssetSelection.groups("published", "views") | dg.AssetSelection.all_asset_checks(),
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": str(LONGEST_RUN)},
    config=LOGGED | {"ops": {DECISION.path[0]: {"config": TO_FILL_IN}}},
    description="Accept or reject a held night, say who and why, and make what follows from it: "
    "warehouse, workbook, report, reconciliation, checks. Choose the night as partition.",
)


def nightly_schedule(nightbook: Nightbook) -> dg.ScheduleDefinition:
    """Return `NIGHTBOOK_SCHEDULE` in `NIGHTBOOK_TIMEZONE`; it runs unless somebody turns it off."""
    # A missed tick is not made up for: the API tells only what is held now. The later ticks of a
    # night take it where the earlier ones could not, and else do nothing.
    settings = nightbook.settings()

    @dg.schedule(
        job=NIGHTLY_JOB,
        cron_schedule=settings.schedule,
        execution_timezone=str(settings.timezone),
        default_status=dg.DefaultScheduleStatus.STOPPED
        if is_demo(nightbook.layout)
        else dg.DefaultScheduleStatus.RUNNING,
        description="Takes the book of the date on which it ticks, unless that night is taken.",
    )
    def nightly_schedule(
        context: dg.ScheduleEvaluationContext,
    ) -> dg.RunRequest | dg.SkipReason:
        tick = context.scheduled_execution_time.astimezone(settings.timezone)
        if (snapshot := night_of(nightbook, tick.date())) is not None:
            words = f"The night is taken: {snapshot.snapshot_id} is {snapshot.state}."
            return dg.SkipReason(words)
        return dg.RunRequest(
            run_key=tick.isoformat(), partition_key=tick.date().isoformat(), run_config=LOGGED
        )

    return nightly_schedule
