"""A night in order: the list of its steps, and the run that calls them one after the other.

Commands call `run_night`. Dagster's assets call the same functions, one step each.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from assets.home.writer_lock import RunLock
from assets.night import landing, reports, tables, transfers, warehouse
from assets.night.results import AssetCheck, Result
from assets.night.run_log import FAILURE, SUCCESS, RunLog
from assets.night.step import NightStep, StepFailure, explain
from assets.nightbook import EventCallback, Nightbook
from assets.publishing import shelf
from warehouse.query.pandas_blocker import leave_pandas_out

WAREHOUSE = "warehouse"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a night. It runs only if the steps in `after` succeeded."""

    name: str
    run: Callable[[NightStep], Sequence[Result]]
    after: tuple[str, ...] = ()


# A held night also gets a report, because that is when a person needs it most.
STEPS = (
    Step("pull", landing.pull),  # read the API, land the bytes, and finish what killed runs left
    Step("flatten_portfolios", tables.flatten_portfolios, after=("pull",)),
    Step("flatten_venues", tables.flatten_venues, after=("pull",)),
    Step(
        WAREHOUSE,  # the guards judge the night, then a new version is built and swapped in
        warehouse.judge_and_publish,
        after=("flatten_portfolios", "flatten_venues"),
    ),
    Step("tell_checks", warehouse.tell_checks, after=(WAREHOUSE,)),
    Step("workbook", reports.write_workbook, after=(WAREHOUSE, "tell_checks")),
    Step("report", reports.write_report, after=(WAREHOUSE, "tell_checks")),
    Step("reconciliation", reports.reconcile, after=(WAREHOUSE, "tell_checks")),
)
SHELVE = Step("shelf", transfers.shelve, after=(WAREHOUSE, "tell_checks"))
REGISTER = Step("iceberg_tables", transfers.register, after=("shelf",))


class GateFailed(Exception):
    """A check failed that blocks all later steps."""

    def __init__(self, checks: Sequence[AssetCheck]) -> None:
        names = ", ".join(check.check for check in checks)
        super().__init__(
            f"The published book fails {names}, so no file was written from it. See ops.checks."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRun:
    """The result of a night's run. `is_judged` is true if the guards judged the night."""

    is_judged: bool
    failures: tuple[StepFailure, ...]

    @property
    def messages(self) -> list[str]:
        """The messages of the failed steps, each only once."""
        return list(dict.fromkeys(failure.message for failure in self.failures))


def steps_of(nightbook: Nightbook) -> tuple[Step, ...]:
    """Return the steps of a night. A shelf or catalog that is not configured has no step."""
    lakehouse = shelf.shelf_of(nightbook)
    has_catalog = lakehouse is not None and lakehouse.catalog is not None
    return (*STEPS, *[SHELVE] * (lakehouse is not None), *[REGISTER] * has_catalog)


def run_night(nightbook: Nightbook, day: date, run_id: str, *, is_tick: bool = False) -> NightRun:
    """Run the steps of a night in order, and log their results.

    If a step fails, the steps that need it are skipped and all other steps run. `is_tick` is true
    if cron started the run, so another run may follow on the same date.
    """
    leave_pandas_out()
    layout, failed, failures = nightbook.layout, set[str](), list[StepFailure]()
    tell: EventCallback = nightbook.tell or (lambda *_, **__: None)
    with RunLock() as lock, RunLog(nightbook, run_id, day, is_tick=is_tick) as log:
        context = NightStep(nightbook=nightbook, layout=layout, day=day, tell=tell, lock=lock)
        for step in steps_of(nightbook):
            if failed.intersection(step.after):
                failed.add(step.name)
                continue
            try:
                results = step.run(context)
                log.add_results(step.name, results)
                _require_gates(results)
            except Exception as error:  # noqa: BLE001 - the steps that do not need this one still run
                failed.add(step.name)
                failures.append(_failure(nightbook, step.name, error))
                log.add_failure(failures[-1])
        log.end(FAILURE if failures else SUCCESS)
    return NightRun(is_judged=WAREHOUSE not in failed, failures=tuple(failures))


def _require_gates(results: Sequence[Result]) -> None:
    """Raise `GateFailed` if a check failed that blocks all later steps."""
    checks = [result for result in results if isinstance(result, AssetCheck) and result.is_error]
    if failed := [check for check in checks if warehouse.gates(check.check, check.asset)]:
        raise GateFailed(failed)


def _failure(nightbook: Nightbook, step: str, error: Exception) -> StepFailure:
    explained = explain(error, nightbook.layout.home)
    if explained is not None:
        message, command = explained
        return StepFailure(step=step, message=message, command=command)
    reason = f"{type(error).__name__}: {error}".strip()
    return StepFailure(
        step=step,
        message=f"The step {step} failed with an unexpected error ({reason}). The last published "
        "warehouse is unchanged. For the stack trace, use nightbook --debug run.",
        trace="".join(traceback.format_exception(error)),
    )
