"""Everything Dagster is to know, assembled; nothing else."""

import dagster as dg

from assets.automation import nightly_job, nightly_schedule
from assets.checks import told_checks
from assets.landing import api_asset, landed_assets
from assets.logs import CONSOLE, console
from assets.partitions import nights
from assets.publish import warehouse_asset, workbook_asset
from assets.resources import Nightbook
from assets.sensors import sensors
from assets.tables import table_assets
from assets.telling import reconciliation_asset, report_asset
from assets.writing import writing_resource
from warehouse.no_pandas import leave_pandas_out


def assemble(nightbook: Nightbook) -> dg.Definitions:
    """The definitions for one keeper of the book; raises `SettingsWrong`."""
    leave_pandas_out()
    partitions = nights(nightbook)
    job = nightly_job()
    return dg.Definitions(
        assets=[
            api_asset(),
            landed_assets(partitions),
            *table_assets(partitions),
            warehouse_asset(partitions),
            workbook_asset(partitions),
            report_asset(partitions),
            reconciliation_asset(partitions),
        ],
        asset_checks=[told_checks()],
        jobs=[job],
        schedules=[nightly_schedule(nightbook, job)],
        sensors=sensors(nightbook),
        resources={"nightbook": nightbook, "writing": writing_resource},
        loggers={CONSOLE: console},
        executor=dg.in_process_executor,
    )


@dg.definitions
def nightbook() -> dg.Definitions:
    """What Dagster's own processes load; a run of the command line assembles for its own keeper."""
    return assemble(Nightbook())
