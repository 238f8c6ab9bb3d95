"""The steps that write the night's files: workbook, report and reconciliation."""

import importlib
from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from assets.console.invocation import full_command, program_version, spell_commands, user_name
from assets.console.terminal import progress_reporter
from assets.night.results import ERROR, WARN, AssetCheck, AssetResult, Markdown, Result
from assets.night.step import NightStep
from assets.nightbook import Nightbook
from assets.publishing import publish
from assets.publishing.latest import renew_latest
from warehouse.contract.states import HELD
from warehouse.export.export import export
from warehouse.reconcile.model import TIED
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import Ambiguous, DayClosed, LateError, NotReconciled
from warehouse.report.build import load_report, write_page
from warehouse.report.render import render_markdown

if TYPE_CHECKING:
    from warehouse.reconcile.run import RunFiles

WORKBOOK, REPORT, RECONCILIATION = ("workbook",), ("report",), ("reconciliation",)
TIES_OUT = "ledger_ties_out"


class NoBook(Exception):
    """A workbook was requested for a date that has no book."""

    def __init__(self, day: date) -> None:
        super().__init__(
            f"{day} has no book, so no workbook was written: see nightbook snapshots. The "
            "workbooks for other nights are unchanged."
        )


def write_workbook(step: NightStep) -> Sequence[AssetResult]:
    """Write the positions workbook of the date's book, unless its night is held.

    Raises `NoBook` if the date has no book for another reason, and no person has just decided so.
    """
    if not step.has_book():
        if step.is_decision or step.snapshot().state == HELD:
            step.tell(f"{step.day} has no book, so it has no workbook")
            renew_latest(step.nightbook)
            return []
        raise NoBook(step.day)
    exported = export(
        step.layout.database,
        step.layout.exports,
        as_of=step.day,
        formats=("xlsx",),
        program_version=program_version(),
        workbook_rows=step.nightbook.settings().workbook_rows,
        renews_latest=True,
        say=progress_reporter(step.nightbook, step.tell, "exporting"),
    )
    rows = sum(exported.rows.values())
    return [
        AssetResult(asset=WORKBOOK, metadata={"path": exported.files[0], "dagster/row_count": rows})
    ]


def write_report(step: NightStep) -> Sequence[AssetResult]:
    """Write the morning report, which always shows the newest night."""
    settings = step.nightbook.settings()
    now = step.nightbook.now().astimezone(settings.timezone)
    step.manifest()  # `manifest` raises an error if the night was never landed.
    morning = load_report(step.layout.database, now, settings.pinned_assets)
    command = full_command(step.layout)
    file = write_page(
        morning, step.layout.reports, program_version=program_version(), command=command
    )
    return [
        AssetResult(
            asset=REPORT,
            metadata={
                "report": Markdown(spell_commands(render_markdown(morning), command)),
                "written at": f"{now:%Y-%m-%d %H:%M}, for the newest night",
                "path": file,
                "bytes": file.stat().st_size,
            },
        )
    ]


def reconcile(step: NightStep) -> Sequence[Result]:
    """Compare the book with the ledgers in the inbox. A late ledger is a notice, not a failure."""
    day, now = step.day, step.nightbook.now()
    step.manifest()
    if not step.has_book():
        return _reconciliation(
            passed=False, message=f"{day} has no book, so there is nothing to compare"
        )
    record = Record(step.layout.home / "reconcile")
    record.make()
    if not any(path.is_file() for path in record.root.rglob("*")):
        # Nobody reconciles in this home, so do not load the reconciliation (0.15 CPU s).
        return _reconciliation(passed=True, message=f"the inbox has no ledger for {day}")
    try:
        step.acquire_lock(f"reconciling {day}")
        summary = _reconcile(step.nightbook, day, now)
    except (LateError, DayClosed) as error:
        # The day's ledger has not arrived yet, or the run is a rerun of a day in a closed month. In
        # both cases, the check does not pass, but no alert is sent.
        return _reconciliation(passed=False, message=str(error))
    except (Ambiguous, NotReconciled) as error:
        return _reconciliation(passed=False, message=str(error), severity=ERROR)
    passed = summary.exit_code == TIED
    # If files arrived but none of them could be read, the check reports an error. If the ledger is
    # late, the check only warns.
    is_unread = not passed and not summary.run_id
    return _reconciliation(
        passed=passed,
        message=summary.message,
        files=[str(file) for file in summary.files],
        severity=ERROR if is_unread else WARN,
    )


def _reconcile(nightbook: Nightbook, day: date, now: datetime) -> "RunFiles":
    layout = nightbook.layout
    service = importlib.import_module("warehouse.reconcile.service")
    summary: RunFiles = service.run(
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
        renew_latest(nightbook)
    return summary


def _reconciliation(
    *, passed: bool, message: str, files: Sequence[str] = (), severity: str = WARN
) -> Sequence[Result]:
    """Return a result with its check. `severity` applies if the check does not pass."""
    # A failed check does not fail the run, because the book is valid in any case.
    return [
        AssetResult(asset=RECONCILIATION, metadata={"result": message, "files": list(files)}),
        AssetCheck(
            asset=RECONCILIATION,
            check=TIES_OUT,
            passed=passed,
            severity=severity,
            description=message,
        ),
    ]
