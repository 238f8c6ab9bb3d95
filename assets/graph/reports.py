"""Assets for the report, the reconciliation, the shelf and the Iceberg tables."""

import dataclasses
from collections.abc import Callable, Sequence
from datetime import date, datetime

import dagster as dg

from assets.console.invocation import full_command, program_version, spell_commands, user_name
from assets.graph.step import night_step
from assets.graph.warehouse import WAREHOUSE
from assets.home.writer_lock import RunLock
from assets.monitoring.alerts import Alert, store_events
from assets.nightbook import DEFAULT_EVENT, INFO, WARNING, EventCallback, Nightbook
from assets.publishing import publish, shelf
from pipelines.landing import snapshots
from warehouse.contract.model import count_of
from warehouse.reconcile import service
from warehouse.reconcile.model import TIED
from warehouse.reconcile.run import RunFiles
from warehouse.reconcile.terms import Ambiguous, DayClosed, Late, NotReconciled
from warehouse.report.build import load_report, write_page
from warehouse.report.render import render_markdown

REPORT = dg.AssetKey("report")
RECONCILIATION = dg.AssetKey("reconciliation")
TIES_OUT = "ledger_ties_out"


def report_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the asset for the morning report.

    A held night also gets a report, because that is when a person needs it most.
    """

    @dg.asset(
        key=REPORT,
        deps=[WAREHOUSE],
        partitions_def=partitions,
        group_name="published",
        kinds={"html"},
        description="reports/latest.html: last night's events, changes, findings, holdings, "
        "gaps and freshness, with the query behind every figure.",
    )
    def morning_report(
        context: dg.AssetExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            settings = nightbook.settings()
            now = nightbook.now().astimezone(settings.timezone)
            step.manifest()  # `manifest` raises an error if the night was never landed.
            morning = load_report(step.layout.database, now, settings.pinned_assets)
            command = full_command(step.layout)
            file = write_page(
                morning, step.layout.reports, program_version=program_version(), command=command
            )
        return dg.MaterializeResult(
            metadata={
                "report": dg.MetadataValue.md(spell_commands(render_markdown(morning), command)),
                "written at": f"{now:%Y-%m-%d %H:%M}, for the newest night",
                "path": file,
                "bytes": file.stat().st_size,
            }
        )

    return morning_report


def reconciliation_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the step that compares the book with any ledgers in the inbox."""

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
                description="Every key of the book and the ledger matches, or its break is "
                "accepted.",
            )
        ],
        description="The book compared with the ledgers in reconcile/inbox: matches, breaks, ages "
        "and suggested causes, in a workbook. A late "
        "ledger causes a notice, not a failure.",
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
                    passed=False, message=f"{day} has no book, so there is nothing to compare"
                )
            try:
                writing.acquire(nightbook, f"reconciling {day}", step.tell)
                summary = _reconcile(nightbook, day, now)
            except (Late, DayClosed) as error:
                # The day's ledger has not arrived yet, or the run is a rerun of a day in a closed
                # month. In both cases, the check does not pass, but no alert is sent.
                return _reconciliation_result(passed=False, message=str(error))
            except (Ambiguous, NotReconciled) as error:
                return _reconciliation_result(
                    passed=False, message=str(error), severity=dg.AssetCheckSeverity.ERROR
                )
        files = [str(file) for file in summary.files]
        passed = summary.exit_code == TIED
        # If files arrived but none of them could be read, the check reports an error. If the ledger
        # is late, the check only warns.
        is_unread = not passed and not summary.run_id
        severity = dg.AssetCheckSeverity.ERROR if is_unread else dg.AssetCheckSeverity.WARN
        return _reconciliation_result(
            passed=passed, message=summary.message, files=files, severity=severity
        )

    return reconciliation


def _reconcile(nightbook: Nightbook, day: date, now: datetime) -> RunFiles:
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
        # Publish the night a second time, now with the results of the reconciliation (0.2 CPU s).
        # The reconciliation needs the published book, and the book should not wait for a ledger.
        publish.refresh(nightbook)
    return summary


def _reconciliation_result(
    *,
    passed: bool,
    message: str,
    files: list[str] | None = None,
    severity: dg.AssetCheckSeverity = dg.AssetCheckSeverity.WARN,
) -> dg.MaterializeResult:
    """Return a result with its check. `severity` applies if the check does not pass."""
    # A failed check does not fail the run, because the book is valid in any case.
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


SHELF = dg.AssetKey("shelf")
ICEBERG = dg.AssetKey("iceberg_tables")


def shelf_assets(
    nightbook: Nightbook, partitions: dg.DailyPartitionsDefinition
) -> list[dg.AssetsDefinition]:
    """Return the steps that upload nights to the shelf and register them in the catalog.

    A shelf or a catalog that is not configured has no step.
    """
    if (store := shelf.shelf_of(nightbook)) is None:
        return []
    shelved_nights = _transfer_asset(
        SHELF,
        after=WAREHOUSE,
        partitions=partitions,
        kind="objectstore",
        doing="shelving",
        done=f"on the shelf {store.url}",
        transfer=shelf.shelve,
        description="The judged night in the object store at NIGHTBOOK_LAKE. Bodies and tables are "
        "uploaded first, and the manifest last, which makes the night visible. If the "
        "store is down, only this step fails. "
        "The book is published on this machine, and the next run shelves the missing nights.",
    )
    if shelf.catalog_of(nightbook) is None:
        return [shelved_nights]
    iceberg_tables = _transfer_asset(
        ICEBERG,
        after=SHELF,
        partitions=partitions,
        kind="iceberg",
        doing="registering",
        done="registered as Iceberg tables",
        transfer=shelf.register,
        description="The files on the shelf, registered as Iceberg tables for engines that read "
        "the catalog at NIGHTBOOK_CATALOG. One commit contains a date's tables. If the catalog is "
        "down, only this step fails, and the next run registers the missing nights.",
    )
    return [shelved_nights, iceberg_tables]


def _with_alert(nightbook: Nightbook, tell: EventCallback) -> EventCallback:
    """Wrap a callback so that it also stores an alert if two machines decided on the same night."""

    def log(
        message: str, *, event: str = DEFAULT_EVENT, level: str = INFO, snapshot: str = ""
    ) -> None:
        tell(message, event=event, level=level, snapshot=snapshot)
        if event == shelf.MERGED and level == WARNING:
            store_events(nightbook, [_merged_alert(nightbook, snapshot, message)])

    return log


def _merged_alert(nightbook: Nightbook, snapshot_id: str, message: str) -> Alert:
    """Return the alert about a night on which two machines made decisions."""
    layout = nightbook.layout
    decision = snapshots.find(layout, snapshot_id).decision
    return Alert(
        cause=f"merged:{snapshot_id}:{decision.token[:8] if decision else ''}",
        title=f"two machines made decisions on night {snapshot_id}",
        words=message,
        see=str(layout.database),
        command=full_command(layout, "snapshots"),
        happened=True,
    )


def _transfer_asset(
    key: dg.AssetKey,
    *,
    after: dg.AssetKey,
    partitions: dg.DailyPartitionsDefinition,
    kind: str,
    doing: str,
    done: str,
    transfer: Callable[[Nightbook], Sequence[str]],
    description: str,
) -> dg.AssetsDefinition:
    """Return a step that transfers all missing nights, either to the shelf or to the catalog."""

    @dg.asset(
        key=key,
        deps=[after],
        partitions_def=partitions,
        group_name="published",
        kinds={kind},
        description=description,
    )
    def transferred_nights(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            writing.acquire(nightbook, f"{doing} {step.day}", step.tell)
            tell = _with_alert(nightbook, step.tell)
            nights = transfer(dataclasses.replace(nightbook, tell=tell))
            if nights:
                step.tell(f"{count_of(len(nights), 'night')} {done}", event=doing)
        return dg.MaterializeResult(metadata={"nights": list(nights)})

    return transferred_nights
