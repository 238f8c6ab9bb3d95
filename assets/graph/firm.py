"""A firm's graph: its nights, partitioned by date and shard, with one run per shard.

Organisations are neither assets nor partitions, because their number depends on firm.toml. The run
of a shard pulls the nights of the shard's organisations.
"""

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

import dagster as dg

from assets.graph.step import CONSOLE, console, failing_in_words, log_teller, nights, run_config
from assets.home.source_nights import find_problems, sources_of, take_nights
from assets.home.writer_lock import RunLock
from assets.nightbook import Nightbook
from assets.publishing import firm
from pipelines import night
from warehouse.contract.states import ACCEPTED, HELD
from warehouse.query.firm_state import FirmNight, FirmState, read_state
from warehouse.storage.firm import Firm, read_firm
from warehouse.storage.layout import Layout

NIGHT = "firm_night"
DATE, SHARD = "date", "shard"
IN_BOOK = "organisations_are_in_the_book"
LONGEST_RUN = 6 * 3600
FIRM_JOB = dg.define_asset_job(
    NIGHT,
    selection=dg.AssetSelection.assets(NIGHT),
    executor_def=dg.in_process_executor,
    tags={"dagster/max_runtime": str(LONGEST_RUN)},
    config=run_config("INFO"),
    description="Pull the nights of all organisations in a shard, then publish the firm's book.",
)


def firm_definitions(nightbook: Nightbook) -> dg.Definitions:
    """Build the definitions of a firm's home. Raises `FirmWrong` and `InvalidSettings`."""
    settings = read_firm(nightbook.layout.home)
    shards = dg.StaticPartitionsDefinition([str(number + 1) for number in range(settings.shards)])
    return dg.Definitions(
        assets=[_night(dg.MultiPartitionsDefinition({DATE: nights(nightbook), SHARD: shards}))],
        jobs=[FIRM_JOB],
        schedules=[_schedule(nightbook, settings)],
        resources={"nightbook": nightbook},
        loggers={CONSOLE: console},
        executor=dg.in_process_executor,
    )


def _night(partitions: dg.MultiPartitionsDefinition) -> dg.AssetsDefinition:
    @dg.asset(
        name=NIGHT,
        partitions_def=partitions,
        group_name="published",
        kinds={"duckdb"},
        check_specs=[
            dg.AssetCheckSpec(
                IN_BOOK,
                asset=NIGHT,
                description="The firm's book for the date contains every organisation in the "
                "shard, and firm.toml names the owner of each portfolio that several "
                "organisations can see.",
            )
        ],
        description="The firm's book with all its organisations. It is published again when the "
        "organisations in a shard have pulled their nights. Each organisation runs in a separate "
        "process with its own settings.",
    )
    def firm_night(
        context: dg.AssetExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        key = partitions.get_partition_key_from_str(context.partition_key).keys_by_dimension
        day, shard = date.fromisoformat(key[DATE]), key[SHARD]
        with failing_in_words(nightbook.layout.home):
            tell = nightbook.tell or log_teller(context.log)
            settings = read_firm(nightbook.layout.home)
            sources = sources_of(settings, int(shard))
            today = night.business_date(nightbook.settings(), nightbook.now())
            problems = find_problems(nightbook.layout, settings)
            finished = take_nights(
                sources,
                settings.at_once,
                day=None if day == today else day,
                unless_taken=day == today,
                tell=tell,
                problems=problems,
            )
            with RunLock() as lock:
                lock.acquire(nightbook, f"publishing the firm's book of {day}", tell)
                notes = {
                    source_night.source: source_night.words
                    for source_night in finished
                    if source_night.code
                }
                book = firm.publish(nightbook, day=day, notes=notes)
                files = firm.write_files(nightbook, book)
        own = {source.name for source in sources}
        rows = [source_night for source_night in book.nights if source_night.source in own]
        yield dg.MaterializeResult(metadata=_facts(rows, [book.database, *files]))
        problems |= book.state.problems
        own_problems = {name: reason for name, reason in problems.items() if name in own}
        yield _check(rows, own_problems, book.state)

    return firm_night


def _check(
    rows: list[FirmNight], problems: Mapping[str, str], state: FirmState
) -> dg.AssetCheckResult:
    """Return the result of the check that the firm's book contains all organisations.

    A problem with an organisation's home is an error. Otherwise, a failure is only a warning.
    """
    wrong = {
        source_night.source: f"{source_night.state}: {source_night.reason}"
        for source_night in rows
        if not source_night.is_in_book
    }
    wrong |= {portfolio.portfolio_id: str(portfolio) for portfolio in state.unsettled_portfolios}
    return dg.AssetCheckResult(
        check_name=IN_BOOK,
        passed=not wrong and not problems,
        severity=dg.AssetCheckSeverity.ERROR if problems else dg.AssetCheckSeverity.WARN,
        metadata=wrong | dict(problems),
    )


def _facts(rows: list[FirmNight], files: list[object]) -> dict[str, Any]:
    within = sum(source_night.is_in_book for source_night in rows)
    return {
        "organisations in the book": f"{within} of {len(rows)}",
        "files": [str(file) for file in files],
    }


def _schedule(nightbook: Nightbook, firm_settings: Firm) -> dg.ScheduleDefinition:
    settings = nightbook.settings()

    @dg.schedule(
        name="firm_schedule",
        job=FIRM_JOB,
        cron_schedule=settings.schedule,
        execution_timezone=str(settings.timezone),
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="Pulls the nights of the current date, with one run for each shard that has an "
        "organisation without a night.",
    )
    def firm_schedule(
        context: dg.ScheduleEvaluationContext,
    ) -> list[dg.RunRequest] | dg.SkipReason:
        tick = context.scheduled_execution_time.astimezone(settings.timezone)
        done_sources = _sources_with_night(nightbook.layout, tick.date())
        shards = [
            number
            for number in range(1, firm_settings.shards + 1)
            if {source.name for source in sources_of(firm_settings, number)} - done_sources
        ]
        if not shards:
            return dg.SkipReason("Every organisation already has its night.")
        return [
            dg.RunRequest(
                run_key=f"{tick.isoformat()} {number}",
                partition_key=dg.MultiPartitionKey(
                    {DATE: tick.date().isoformat(), SHARD: str(number)}
                ),
            )
            for number in shards
        ]

    return firm_schedule


def _sources_with_night(layout: Layout, day: date) -> set[str]:
    """Return the organisations with an accepted or held night for a date."""
    if not layout.database.exists():
        return set()
    rows = read_state(layout.database).nights
    return {
        source_night.source
        for source_night in rows
        if source_night.snapshot_date == day and source_night.state in (ACCEPTED, HELD)
    }
