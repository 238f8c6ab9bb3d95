"""Assets for the report, the reconciliation, the shelf and the Iceberg tables."""

from collections.abc import Callable, Sequence

import dagster as dg

from assets.graph.step import yielding
from assets.graph.warehouse import WAREHOUSE
from assets.night import reports, transfers
from assets.night.reports import TIES_OUT
from assets.night.results import Result
from assets.night.step import NightStep
from assets.nightbook import Nightbook
from assets.publishing import shelf


def report_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the asset for the morning report.

    A held night also gets a report, because that is when a person needs it most.
    """
    declare = dg.asset(
        key=dg.AssetKey(reports.REPORT),
        deps=[WAREHOUSE],
        partitions_def=partitions,
        group_name="published",
        kinds={"html"},
        description="reports/latest.html: last night's events, changes, findings, holdings, "
        "gaps and freshness, with the query behind every figure.",
    )
    return declare(yielding(reports.write_report))


def reconciliation_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the step that compares the book with any ledgers in the inbox."""
    declare = dg.asset(
        key=dg.AssetKey(reports.RECONCILIATION),
        deps=[WAREHOUSE],
        partitions_def=partitions,
        group_name="published",
        kinds={"excel"},
        check_specs=[
            dg.AssetCheckSpec(
                TIES_OUT,
                asset=dg.AssetKey(reports.RECONCILIATION),
                description="Every key of the book and the ledger matches, or its break is "
                "accepted.",
                partitions_def=partitions,
            )
        ],
        description="The book compared with the ledgers in reconcile/inbox: matches, breaks, ages "
        "and suggested causes, in a workbook. A late "
        "ledger causes a notice, not a failure.",
    )
    return declare(yielding(reports.reconcile))


SHELF, ICEBERG = dg.AssetKey(transfers.SHELF), dg.AssetKey(transfers.ICEBERG)


def shelf_assets(
    nightbook: Nightbook, partitions: dg.DailyPartitionsDefinition
) -> list[dg.AssetsDefinition]:
    """Return the steps that upload nights to the shelf and register them in the catalog.

    A shelf or a catalog that is not configured has no step.
    """
    if (lakehouse := shelf.shelf_of(nightbook)) is None:
        return []
    shelved_nights = _transfer_asset(
        SHELF,
        after=WAREHOUSE,
        partitions=partitions,
        kind="objectstore",
        run=transfers.shelve,
        description="The judged night in the object store at NIGHTBOOK_LAKE. Bodies and tables are "
        "uploaded first, and the manifest last, which makes the night visible. If the "
        "store is down, only this step fails. "
        "The book is published on this machine, and the next run shelves the missing nights.",
    )
    if lakehouse.catalog is None:
        return [shelved_nights]
    iceberg_tables = _transfer_asset(
        ICEBERG,
        after=SHELF,
        partitions=partitions,
        kind="iceberg",
        run=transfers.register,
        description="The files on the shelf, registered as Iceberg tables for engines that read "
        "the catalog at NIGHTBOOK_CATALOG. One commit contains a date's tables. If the catalog is "
        "down, only this step fails, and the next run registers the missing nights.",
    )
    return [shelved_nights, iceberg_tables]


def _transfer_asset(
    key: dg.AssetKey,
    *,
    after: dg.AssetKey,
    partitions: dg.DailyPartitionsDefinition,
    kind: str,
    run: Callable[[NightStep], Sequence[Result]],
    description: str,
) -> dg.AssetsDefinition:
    """Return a step that transfers all missing nights, either to the shelf or to the catalog."""
    declare = dg.asset(
        key=key,
        deps=[after],
        partitions_def=partitions,
        group_name="published",
        kinds={kind},
        description=description,
    )
    return declare(yielding(run))
