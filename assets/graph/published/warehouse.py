"""The published things: the warehouse that analysts open, and the workbook that finance opens."""

# ruff: noqa: S608 - names are ours; what is asked for is a date

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import dagster as dg

from assets.console.progress import progress_reporter
from assets.console.version import program_version
from assets.graph.partitions import PARTITION
from assets.graph.published.views import key_of_view, view_specs
from assets.graph.step import failing_in_words, night_or_newest_book, night_step
from assets.graph.tables import key_of
from assets.home.writer_lock import RunLock
from assets.nightbook import Nightbook
from assets.publishing import publish
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.book import BOOK
from warehouse.contract.model import literal
from warehouse.export.export import export
from warehouse.query.read import run
from warehouse.sql.catalog import MATERIALIZED, ops_views, views

WAREHOUSE = dg.AssetKey("warehouse")
WORKBOOK = dg.AssetKey("workbook")
DECISION = dg.AssetKey("decision")
ACCEPTED = "night_is_accepted"


class NoBook(Exception):
    """A workbook was asked for of a night that is no book."""

    def __init__(self, day: date) -> None:
        super().__init__(
            f"{day} has no book, so no workbook was written: see nightbook snapshots. The "
            "workbooks of other nights stand."
        )


def warehouse_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the DuckDB file with its views: judged, built aside, verified, swapped in."""

    @dg.multi_asset(
        name=WAREHOUSE.path[0],
        specs=[_spec(), *view_specs(WAREHOUSE)],
        partitions_def=partitions,
        can_subset=True,
        check_specs=[
            dg.AssetCheckSpec(
                ACCEPTED,
                asset=WAREHOUSE,
                description="The night passed the guards (or a person accepted it) and is the "
                "book. A held night leaves the last book in place: decide in the job decide_night, "
                "or by `nightbook accept ID` and `nightbook reject ID`.",
                partitions_def=partitions,
            )
        ],
    )
    def warehouse(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        if not context.selected_asset_keys:  # the check alone: a run of checks publishes nothing
            with failing_in_words(nightbook.layout.home):
                partition = context.run.tags.get(PARTITION)
                yield _acceptance(night_or_newest_book(nightbook, partition))
            return
        with night_step(context, nightbook) as step:
            writing.acquire(nightbook, f"publishing {step.day}", step.tell)
            keeper = replace(nightbook, tell=step.tell)
            manifest = step.manifest()
            if step.is_decision:  # it is judged: by the person
                decided = snapshots.find(step.layout, manifest.snapshot_id)
                outcome = publish.PublishedSnapshot(decided, publish.refresh(keeper))
            else:
                outcome = publish.judge_and_publish(keeper, manifest)
                if WAREHOUSE in context.selected_asset_keys:
                    context.log_event(_decision(outcome.snapshot, context.partition_key))
            results = [*_publications(outcome, step.day)]
        chosen = context.selected_asset_keys
        yield from (result for result in results if result.asset_key in chosen)
        if context.selected_asset_check_keys:
            yield _acceptance(outcome.snapshot)

    return warehouse


def _spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        WAREHOUSE,
        deps=[*(key_of(table) for table in BOOK), DECISION],
        group_name="published",
        kinds={"duckdb"},
        metadata={"dagster/table_name": "nightbook.main"},
        description="warehouse/current/nightbook.duckdb: the newest book under plain names, all "
        "books in history, what nightbook knows of its nights in ops. Published whole or not at "
        "all; readers are never locked out.",
    )


def _publications(outcome: publish.PublishedSnapshot, day: date) -> Iterator[dg.MaterializeResult]:
    """Yield what was published of a night: the file always, the views where it is the book."""
    yield dg.MaterializeResult(asset_key=WAREHOUSE, metadata=_metadata(outcome))
    if outcome.snapshot.state != states.ACCEPTED:
        return
    counts = " union all ".join(
        f"select {literal(name)}, count(*) from history.{name} where snapshot_date = '{day}'"
        for name in MATERIALIZED
    )
    rows = {str(name): int(count) for name, count in run(outcome.published.database, counts).rows}
    for view in (*views(), *ops_views()):
        metadata: dict[str, int | str] = {"snapshot_id": outcome.snapshot.snapshot_id}
        if view.name in rows:
            metadata["dagster/partition_row_count"] = rows[view.name]
        yield dg.MaterializeResult(asset_key=key_of_view(view.name), metadata=metadata)


def _decision(snapshot: Snapshot, partition: str) -> dg.AssetMaterialization:
    """Return what the guards decided. Who starts a backfill is asked about what has no record."""
    metadata = decision_metadata(snapshot)
    return dg.AssetMaterialization(DECISION, partition=partition, metadata=metadata)


def decision_metadata(snapshot: Snapshot) -> dict[str, str]:
    """Return what was decided on a night, by whom and why."""
    decided = {"snapshot_id": snapshot.snapshot_id, "state": snapshot.state, "by": "", "why": ""}
    if snapshot.decision:
        decided |= {"by": snapshot.decision.by, "why": "; ".join(snapshot.decision.reasons)}
    return decided


def _acceptance(snapshot: Snapshot) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=WAREHOUSE,
        check_name=ACCEPTED,
        passed=snapshot.state == states.ACCEPTED,
        severity=dg.AssetCheckSeverity.ERROR,
        description=decision_metadata(snapshot)["why"] or snapshot.state,
        metadata={"snapshot_id": snapshot.snapshot_id, "state": snapshot.state},
    )


def _metadata(outcome: publish.PublishedSnapshot) -> dict[str, Any]:
    published = outcome.published
    return {
        "path": published.database,
        "version": published.version,
        "snapshot_id": outcome.snapshot.snapshot_id,
        "state": outcome.snapshot.state,
        "dates loaded": len(published.loaded),
        "checks passed": sum(check.is_ok for check in published.checks),
        "checks failed": sum(not check.is_ok for check in published.checks),
        "bytes": published.database.stat().st_size,
    }


def workbook_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the positions workbook of the night."""

    @dg.asset(
        key=WORKBOOK,
        deps=[WAREHOUSE],
        partitions_def=partitions,
        output_required=False,
        group_name="published",
        kinds={"excel"},
        description="Positions per account, holding, asset and venue for spreadsheets: a number "
        "to read and the exact text beside each, totals that tie out, no formula from data.",
    )
    def workbook(
        context: dg.AssetExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.MaterializeResult]:
        with night_step(context, nightbook) as step:
            layout = step.layout
            if step.day not in snapshots.books(snapshots.landed_snapshots(layout)):
                if step.is_decision:
                    step.tell(f"{step.day} has no book, so there is no workbook of it")
                    return
                raise NoBook(step.day)
            exported = export(
                layout.database,
                layout.exports,
                as_of=step.day,
                formats=("xlsx",),
                program_version=program_version(),
                say=progress_reporter(nightbook, step.tell, "exporting"),
            )
        yield dg.MaterializeResult(
            metadata={
                "path": exported.files[0],
                "dagster/row_count": sum(exported.rows.values()),
            }
        )

    return workbook
