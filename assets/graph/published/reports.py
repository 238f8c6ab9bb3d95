"""What follows publishing: the morning report, and the reconciliation with a ledger."""

from datetime import date, datetime

import dagster as dg

from assets.console.invocation import full_command, spell_commands
from assets.console.user import user_name
from assets.console.version import program_version
from assets.graph.published.warehouse import WAREHOUSE
from assets.graph.step import night_step
from assets.home.writer_lock import RunLock
from assets.nightbook import Nightbook
from assets.publishing import publish
from pipelines.landing import snapshots
from warehouse.reconcile import service
from warehouse.reconcile.model import TIED
from warehouse.reconcile.run import RunSummary
from warehouse.reconcile.terms import Ambiguous, DayClosed, Late, NotReconciled
from warehouse.report.build import ask_all, write

REPORT = dg.AssetKey("report")
RECONCILIATION = dg.AssetKey("reconciliation")
TIES_OUT = "ledger_ties_out"


def report_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the morning report: also of a held night, which is when it is needed most."""

    @dg.asset(
        key=REPORT,
        deps=[WAREHOUSE],
        partitions_def=partitions,
        group_name="published",
        kinds={"html"},
        description="reports/latest.html: what happened last night, what changed, findings, "
        "holdings, gaps and freshness, with the query behind every figure.",
    )
    def morning_report(
        context: dg.AssetExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            settings = nightbook.settings()
            now = nightbook.now().astimezone(settings.timezone)
            step.manifest()  # a night that was never landed has no report
            morning = ask_all(step.layout.database, now, settings.pinned_assets)
            command = full_command(step.layout)
            file = write(
                morning, step.layout.reports, program_version=program_version(), command=command
            )
        return dg.MaterializeResult(
            metadata={
                "report": dg.MetadataValue.md(spell_commands(morning.markdown, command)),
                "told as of": f"{now:%Y-%m-%d %H:%M}, of the newest night",
                "path": file,
                "bytes": file.stat().st_size,
            }
        )

    return morning_report


def reconciliation_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the comparison with the ledgers in the inbox; without one it says so."""

    @dg.asset(
        key=RECONCILIATION,
        deps=[WAREHOUSE],
        partitions_def=partitions,
        group_name="published",
        kinds={"excel"},
        check_specs=[
            dg.AssetCheckSpec(
                TIES_OUT,
                asset=RECONCILIATION,
                description="Every key of book and ledger matches, or its break is accepted.",
            )
        ],
        description="The book against the ledgers in reconcile/inbox: matches, breaks, ages and "
        "suggested causes, in a workbook. A ledger that is late is a notice, not a failure.",
    )
    def reconciliation(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            day, now = step.day, nightbook.now()
            step.manifest()
            if day not in snapshots.books(snapshots.landed_snapshots(step.layout)):
                return _reconciliation_result(
                    passed=False, message=f"{day} has no book, so there is nothing to hold against"
                )
            try:
                writing.acquire(nightbook, f"reconciling {day}", step.tell)
                summary = _reconcile(nightbook, day, now)
            except (Late, DayClosed) as error:
                # The ledger of the day is still to come, on most nights, or the day of a closed
                # month is taken again: no alert, no success.
                return _reconciliation_result(passed=False, message=str(error))
            except (Ambiguous, NotReconciled) as error:
                return _reconciliation_result(
                    passed=False, message=str(error), severity=dg.AssetCheckSeverity.ERROR
                )
        files = [str(file) for file in summary.files]
        passed = summary.exit_code == TIED
        # Files lie there and none could be read: that is no late ledger, it is one that is missed.
        is_unread = not passed and not summary.run_id
        severity = dg.AssetCheckSeverity.ERROR if is_unread else dg.AssetCheckSeverity.WARN
        return _reconciliation_result(
            passed=passed, message=summary.words, files=files, severity=severity
        )

    return reconciliation


def _reconcile(nightbook: Nightbook, day: date, now: datetime) -> RunSummary:
    layout = nightbook.layout
    summary = service.run(
        layout.database,
        layout.home / "reconcile",
        as_of=day,
        program_version=program_version(),
        now=now,
        by=user_name(),
    )
    if summary.run_id:
        # A second version of the night: the first, checked, is what was read here, and
        # the book waits for no ledger (0.2 CPU s for what the breaks come to).
        publish.refresh(nightbook)
    return summary


def _reconciliation_result(
    *,
    passed: bool,
    message: str,
    files: list[str] | None = None,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
) -> dg.MaterializeResult:
    """Return the result with its check: open breaks warn, no result is an error."""
    # Neither fails the run: the book stands.
    return dg.MaterializeResult(
        metadata={"result": message, "files": files or []},
        check_results=[
            dg.AssetCheckResult(
                check_name=TIES_OUT,
                passed=passed,
                severity=severity,
                description=message,
            )
        ],
    )
