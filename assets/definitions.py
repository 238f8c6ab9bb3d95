"""The Dagster definitions of one home: assets, checks, jobs, schedule and sensors."""

import warnings
from collections.abc import Iterator

import dagster as dg

from assets.graph.checks import warehouse_checks
from assets.graph.decision import decision_asset
from assets.graph.landing import api_asset, landed_assets
from assets.graph.reports import reconciliation_asset, report_asset, shelf_assets
from assets.graph.sensors import DECIDE_JOB, NIGHTLY_JOB, nightly_schedule, sensors
from assets.graph.step import CONSOLE, console, nights
from assets.graph.tables import table_assets
from assets.graph.warehouse import in_catalog, warehouse_asset, workbook_asset
from assets.home.writer_lock import RunLock
from assets.nightbook import Nightbook
from warehouse.query.pandas_blocker import leave_pandas_out


@dg.resource(
    description="A run's write lock, held from the first step that writes until the run ends."
)
def writing_resource(_context: dg.InitResourceContext) -> Iterator[RunLock]:
    """Yield a run's write lock, which all steps of the run share."""
    with RunLock() as lock:
        yield lock


def assemble(nightbook: Nightbook) -> dg.Definitions:
    """Build the Dagster definitions of a home. Raises `InvalidSettings`."""
    leave_pandas_out()
    with warnings.catch_warnings():
        # Partitioned checks are a preview feature in Dagster. Our tests fail if an upgrade breaks
        # them.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return _assemble(nightbook)


def _assemble(nightbook: Nightbook) -> dg.Definitions:
    partitions = nights(nightbook)
    return dg.Definitions(
        assets=in_catalog(
            nightbook,
            [
                api_asset(),
                landed_assets(partitions),
                *table_assets(partitions),
                decision_asset(partitions),
                warehouse_asset(partitions),
                workbook_asset(partitions),
                report_asset(partitions),
                reconciliation_asset(partitions),
                *shelf_assets(nightbook, partitions),
            ],
        ),
        asset_checks=[warehouse_checks(partitions)],
        jobs=[NIGHTLY_JOB, DECIDE_JOB],
        schedules=[nightly_schedule(nightbook)],
        sensors=sensors(nightbook),
        resources={"nightbook": nightbook, "writing": writing_resource},
        loggers={CONSOLE: console},
        executor=dg.in_process_executor,
    )


@dg.definitions
def nightbook() -> dg.Definitions:
    """Build the definitions that Dagster loads."""
    return assemble(Nightbook())
