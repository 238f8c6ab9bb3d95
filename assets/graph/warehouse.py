"""Assets for the published warehouse and the workbook."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

import dagster as dg

from assets.graph.record import event_of, to_check
from assets.graph.step import (
    PARTITION,
    STATE,
    failing_in_words,
    night_or_newest_book,
    night_step,
    selection_of,
    yielding,
)
from assets.graph.tables import key_of
from assets.graph.views import view_specs
from assets.home.writer_lock import RunLock
from assets.monitoring.staleness import GRACE
from assets.night import warehouse as night_warehouse
from assets.night.reports import WORKBOOK, write_workbook
from assets.night.warehouse import ACCEPTED, acceptance, judge_and_publish
from assets.nightbook import Nightbook
from pipelines.schedule import last_tick
from pipelines.settings import Settings
from warehouse.contract.book import BOOK

WAREHOUSE = dg.AssetKey(night_warehouse.WAREHOUSE)
DECISION = dg.AssetKey(night_warehouse.DECISION)


def warehouse_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the step that judges the night, then builds, verifies and swaps in the DuckDB file."""

    @dg.multi_asset(
        name=WAREHOUSE.path[0],
        specs=[_warehouse_spec(), *view_specs(WAREHOUSE)],
        partitions_def=partitions,
        can_subset=True,
        check_specs=[
            dg.AssetCheckSpec(
                ACCEPTED,
                asset=WAREHOUSE,
                description="The night passed the guards, or a person accepted it, so it is the "
                "book. If the night is held, the last book stays in place. Decide in the "
                "decide_night job, or with `nightbook accept ID` or `nightbook reject ID`.",
                partitions_def=partitions,
            )
        ],
    )
    def warehouse(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        if not context.selected_asset_keys:
            # A run that was started only for checks must not publish.
            with failing_in_words(nightbook.layout.home):
                partition = context.run.tags.get(PARTITION)
                yield to_check(acceptance(night_or_newest_book(nightbook, partition)))
            return
        with night_step(context, nightbook, writing) as step:
            results = judge_and_publish(step)
            state = str(results[-1].metadata["state"])  # the last result is the acceptance
            context.instance.add_run_tags(context.run.run_id, {STATE: state})
            for result in results:
                if (
                    WAREHOUSE in context.selected_asset_keys
                    and result.asset == night_warehouse.DECISION
                ):
                    context.log_event(event_of(result, context.partition_key))
        yield from selection_of(context, results)

    return warehouse


def _warehouse_spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        WAREHOUSE,
        deps=[*(key_of(table) for table in BOOK), DECISION],
        group_name="published",
        kinds={"duckdb"},
        metadata={"dagster/table_name": "nightbook.main"},
        description="warehouse/current/nightbook.duckdb: the newest book under plain names, all "
        "books in the history schema, and the record of all nights in the ops schema. It is "
        "published completely or not at all, and readers are never locked out.",
    )


def workbook_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the asset for the night's positions workbook."""
    declare = dg.asset(
        key=dg.AssetKey(WORKBOOK),
        deps=[WAREHOUSE],
        partitions_def=partitions,
        output_required=False,
        group_name="published",
        kinds={"excel"},
        description="Positions by account, holding, asset and venue for spreadsheets. Each amount "
        "is a number with its exact text next to it, the totals tie out, and text from the data "
        "never becomes a formula.",
    )
    return declare(yielding(write_workbook))


# Owners and readers by asset group. The assets in `FOR_FINANCE` are owned and read by finance,
# whatever their group.
OWNERS = {"source": "operator", "landing": "operator", "lake": "operator", "published": "operator"}
READERS = {"source": "operator", "landing": "operator", "lake": "analyst", "views": "analyst"}
FOR_FINANCE = ("workbook", "reconciliation")
LAST_MINUTE = 24 * 60 - 1


def in_catalog(
    nightbook: Nightbook, assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]
) -> Sequence[dg.AssetsDefinition | dg.AssetSpec]:
    """Return copies of the assets with owners, tags and freshness deadlines."""
    policy = _freshness(nightbook.settings())

    def describe(spec: dg.AssetSpec) -> dg.AssetSpec:
        group, name = spec.group_name or "", spec.key.path[0]
        is_finance = name in FOR_FINANCE
        owner = "finance" if is_finance else OWNERS.get(group, "analyst")
        reader = "finance" if is_finance else READERS.get(group, "everybody")
        has_deadline = group != "source" and name not in ("decision", "reconciliation")
        return spec.replace_attributes(
            owners=[f"team:{owner}"],
            tags={"nightbook/reader": reader},
            freshness_policy=policy if has_deadline else None,
        )

    return dg.map_asset_specs(describe, assets)


def _freshness(settings: Settings) -> dg.FreshnessPolicy:
    """Return the deadline after which Dagster shows a scheduled night as late."""
    # The deadline must be on the scheduled day, so the latest possible time is one minute before
    # midnight.
    last = last_tick(settings.schedule)
    ready = timedelta(hours=last.hour, minutes=last.minute, seconds=settings.deadline) + GRACE
    minutes = min(int(ready / timedelta(minutes=1)), LAST_MINUTE)
    days = " ".join(settings.schedule.split()[2:])
    return dg.FreshnessPolicy.cron(
        deadline_cron=f"{minutes % 60} {minutes // 60} {days}",
        lower_bound_delta=timedelta(minutes=minutes),
        timezone=str(settings.timezone),
    )
