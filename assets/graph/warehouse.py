"""The published things: the warehouse that analysts open, and the workbook that finance opens."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import dagster as dg

from assets.console.progress import progress_reporter
from assets.console.version import program_version
from assets.graph.step import night_step
from assets.graph.tables import key_of
from assets.home.writer_lock import RunLock
from assets.nightbook import Nightbook
from assets.publishing import publish
from pipelines.landing import snapshots
from warehouse.contract import states
from warehouse.contract.book import BOOK
from warehouse.export.export import export

WAREHOUSE = dg.AssetKey("warehouse")
WORKBOOK = dg.AssetKey("workbook")
ACCEPTED = "night_is_accepted"


class NoBook(Exception):
    """A workbook was asked for of a night that is no book."""

    def __init__(self, day: date) -> None:
        super().__init__(
            f"{day} has no book, so no workbook was written: see nightbook snapshots. The "
            "workbooks of other nights stand."
        )


def warehouse_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the DuckDB file: judged, built aside, verified, swapped in."""

    @dg.asset(
        key=WAREHOUSE,
        deps=[key_of(table) for table in BOOK],
        partitions_def=partitions,
        group_name="published",
        kinds={"duckdb"},
        check_specs=[
            dg.AssetCheckSpec(
                ACCEPTED,
                asset=WAREHOUSE,
                description="The night passed the guards (or a person accepted it) and is the "
                "book. A held night leaves the last book in place: nightbook snapshots",
            )
        ],
        metadata={"dagster/table_name": "nightbook.main"},
        description="warehouse/current/nightbook.duckdb: the newest book under plain names, all "
        "books in history, what nightbook knows of its nights in ops. Published whole or not at "
        "all; readers are never locked out.",
    )
    def warehouse(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> Iterator[dg.MaterializeResult]:
        with night_step(context, nightbook) as step:
            writing.acquire(nightbook, f"publishing {step.day}", step.tell)
            keeper = replace(nightbook, tell=step.tell)
            outcome = publish.judge_and_publish(keeper, step.manifest())
        snapshot = outcome.snapshot
        reasons = "; ".join(snapshot.decision.reasons) if snapshot.decision else ""
        yield dg.MaterializeResult(
            metadata=_metadata(outcome),
            check_results=[
                dg.AssetCheckResult(
                    check_name=ACCEPTED,
                    passed=snapshot.state == states.ACCEPTED,
                    severity=dg.AssetCheckSeverity.ERROR,
                    description=reasons or snapshot.state,
                    metadata={"snapshot_id": snapshot.snapshot_id, "state": snapshot.state},
                )
            ],
        )

    return warehouse


def _metadata(outcome: publish.PublishedSnapshot) -> dict[str, dg.MetadataValue]:
    published = outcome.published
    return {
        "path": dg.MetadataValue.path(str(published.database)),
        "version": dg.MetadataValue.text(published.version),
        "snapshot_id": dg.MetadataValue.text(outcome.snapshot.snapshot_id),
        "state": dg.MetadataValue.text(outcome.snapshot.state),
        "dates loaded": dg.MetadataValue.int(len(published.loaded)),
        "checks passed": dg.MetadataValue.int(sum(check.is_ok for check in published.checks)),
        "checks failed": dg.MetadataValue.int(sum(not check.is_ok for check in published.checks)),
        "bytes": dg.MetadataValue.int(published.database.stat().st_size),
    }


def workbook_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the positions workbook of the night."""

    @dg.asset(
        key=WORKBOOK,
        deps=[WAREHOUSE],
        partitions_def=partitions,
        group_name="published",
        kinds={"excel"},
        description="Positions per account, holding, asset and venue for spreadsheets: a number "
        "to read and the exact text beside each, totals that tie out, no formula from data.",
    )
    def workbook(
        context: dg.AssetExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            layout = step.layout
            if step.day not in snapshots.books(snapshots.landed_snapshots(layout)):
                raise NoBook(step.day)
            exported = export(
                layout.database,
                layout.exports,
                as_of=step.day,
                formats=("xlsx",),
                program_version=program_version(),
                say=progress_reporter(nightbook, step.tell, "exporting"),
            )
        return dg.MaterializeResult(
            metadata={
                "path": dg.MetadataValue.path(str(exported.files[0])),
                "dagster/row_count": dg.MetadataValue.int(sum(exported.rows.values())),
            }
        )

    return workbook
