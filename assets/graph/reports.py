"""The assets that leave the machine: reports, workbooks, the shelf and the open tables."""

import dataclasses
from collections.abc import Callable, Sequence
from datetime import date, datetime
from hashlib import sha256

import dagster as dg

from assets.console.invocation import full_command, program_version, spell_commands, user_name
from assets.graph.step import night_step
from assets.graph.warehouse import WAREHOUSE
from assets.home.writer_lock import RunLock
from assets.monitoring.alerts import Alert, store_events
from assets.nightbook import INFO, TOLD, WARNING, Nightbook, Tell
from assets.publishing import publish, shelf
from assets.publishing import shelf as open_tables
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
            morning = load_report(step.layout.database, now, settings.pinned_assets)
            command = full_command(step.layout)
            file = write_page(
                morning, step.layout.reports, program_version=program_version(), command=command
            )
        return dg.MaterializeResult(
            metadata={
                "report": dg.MetadataValue.md(spell_commands(render_markdown(morning), command)),
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


SHELF = dg.AssetKey("shelf")
ICEBERG = dg.AssetKey("iceberg_tables")


def shelf_assets(
    nightbook: Nightbook, partitions: dg.DailyPartitionsDefinition
) -> list[dg.AssetsDefinition]:
    """Return the shelved nights; none of it where nights stay on this machine."""
    if (store := shelf.shelf_of(nightbook)) is None:
        return []
    shelved_nights = _nights_asset(
        SHELF,
        after=WAREHOUSE,
        partitions=partitions,
        kind="objectstore",
        doing="shelving",
        done=f"on the shelf {store.url}",
        bring=shelf.shelve,
        description="The judged night on the object store of NIGHTBOOK_LAKE: bodies, tables, then "
        "the manifest that makes them a night. A store that is down costs this step alone: the "
        "book is published here, and the next run shelves what is missing.",
    )
    if open_tables.catalog_of(nightbook) is None:
        return [shelved_nights]
    iceberg_tables = _nights_asset(
        ICEBERG,
        after=SHELF,
        partitions=partitions,
        kind="iceberg",
        doing="registering",
        done="registered as Iceberg tables",
        bring=open_tables.register,
        description="The shelf's files registered as Iceberg tables, all tables of a date in one "
        "commit, for the engines that read the catalog of NIGHTBOOK_CATALOG. A catalog that is "
        "down costs this step alone; the next run registers what is missing.",
    )
    return [shelved_nights, iceberg_tables]


def _with_alert(nightbook: Nightbook, tell: Tell) -> Tell:
    """Return who tells the log of the run, and once an operator if two machines had decided."""

    def hear(message: str, *, event: str = TOLD, level: str = INFO, snapshot: str = "") -> None:
        tell(message, event=event, level=level, snapshot=snapshot)
        if event == shelf.MERGED and level == WARNING:
            store_events(nightbook, [_merged_alert(nightbook, snapshot, message)])

    return hear


def _merged_alert(nightbook: Nightbook, snapshot_id: str, message: str) -> Alert:
    """Return the alert of a night on which two machines decided."""
    layout = nightbook.layout
    return Alert(
        cause=f"merged:{snapshot_id}:{sha256(message.encode()).hexdigest()[:8]}",
        title=f"two machines decided on the night {snapshot_id}",
        words=message,
        see=str(layout.database),
        command=full_command(layout, "snapshots"),
        happened=True,
    )


def _nights_asset(
    key: dg.AssetKey,
    *,
    after: dg.AssetKey,
    partitions: dg.DailyPartitionsDefinition,
    kind: str,
    doing: str,
    done: str,
    bring: Callable[[Nightbook], Sequence[str]],
    description: str,
) -> dg.AssetsDefinition:
    """Return a step that brings every night that is missing there to another place."""

    @dg.asset(
        key=key,
        deps=[after],
        partitions_def=partitions,
        group_name="published",
        kinds={kind},
        description=description,
    )
    def nights_elsewhere(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> dg.MaterializeResult:
        with night_step(context, nightbook) as step:
            writing.acquire(nightbook, f"{doing} {step.day}", step.tell)
            nights = bring(dataclasses.replace(nightbook, tell=_with_alert(nightbook, step.tell)))
            if nights:
                step.tell(f"{count_of(len(nights), 'night')} {done}", event=doing)
        return dg.MaterializeResult(metadata={"nights": list(nights)})

    return nights_elsewhere
