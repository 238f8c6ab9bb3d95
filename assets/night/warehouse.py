"""The steps that judge a night, publish the warehouse, and repeat the results of its checks.

The checks run before publishing, on the file that is being built. A night that fails a check is
held. A held night looks the same everywhere: it is a warning and not a failure, because the run did
all its work and a person must decide. So none of its checks reports an error.

The step `tell_checks` only repeats the results of `ops.checks` and `ops.control_totals` for
Dagster. Because `ops.checks` only covers the newest book, an older night's book is queried again.
"""

# ruff: noqa: S608 - values are quoted by warehouse.contract.model.literal

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from assets.night.results import ERROR, WARN, AssetCheck, AssetResult, Result, Value
from assets.night.step import NightStep
from assets.publishing import publish
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.book import BOOK
from warehouse.contract.model import literal
from warehouse.query.read import keep_open, run
from warehouse.sql.catalog import MATERIALIZED, at_day, ops_views, views
from warehouse.sql.checks import ERROR as CHECK_ERROR
from warehouse.sql.checks import Check, every_check

WAREHOUSE, DECISION = ("warehouse",), ("decision",)
ACCEPTED = "night_is_accepted"
CONTROL = "control_totals_agree"
KEY_CHECKS = {f"{table.name}_key": ("lake", table.name) for table in BOOK}
# The drift check does not read a table of the book, so for older nights it needs a different query.
DRIFT_OF = "select * from ops.drift where first_seen = "


def judge_and_publish(step: NightStep) -> Sequence[Result]:
    """Judge the night, then publish a new version of the warehouse, also if the night is held."""
    step.acquire_lock(f"publishing {step.day}")
    nightbook = replace(step.nightbook, tell=step.tell)
    manifest = step.manifest()
    # If a person has already decided about this night, skip the guards.
    if step.is_decision:
        decided = snapshots.find(step.layout, manifest.snapshot_id)
        outcome = publish.PublishedSnapshot(decided, publish.refresh(nightbook))
        judged: list[Result] = []
    else:
        outcome = publish.judge_and_publish(nightbook, manifest)
        # The guards' decision is a result too. Otherwise, Dagster's backfill dialog would list the
        # decision as missing.
        judged = [AssetResult(asset=DECISION, metadata=decision_metadata(outcome.snapshot))]
    return [*judged, *_publications(outcome, step.day), acceptance(outcome.snapshot)]


def decision_metadata(snapshot: Snapshot) -> dict[str, Value]:
    """Return a snapshot's ID and state, the user who decided, and the reasons."""
    decision = snapshot.decision
    return {
        "snapshot_id": snapshot.snapshot_id,
        "state": snapshot.state,
        "by": decision.by if decision else "",
        "why": "; ".join(decision.reasons) if decision else "",
    }


def acceptance(snapshot: Snapshot) -> AssetCheck:
    """Return the result of the check that a night is accepted."""
    reasons = decision_metadata(snapshot)["why"]
    return AssetCheck(
        asset=WAREHOUSE,
        check=ACCEPTED,
        passed=snapshot.state == states.ACCEPTED,
        severity=ERROR if snapshot.state == states.COMPLETE else WARN,
        description=str(reasons or snapshot.state),
        metadata={"snapshot_id": snapshot.snapshot_id, "state": snapshot.state},
    )


def tell_checks(step: NightStep) -> Sequence[AssetCheck]:
    """Return the results of all checks of the date's night."""
    return check_results(step.layout.database, step.snapshot())


def check_results(database: Path, snapshot: Snapshot) -> list[AssetCheck]:
    """Return the results of all checks of a night, from the published warehouse."""
    with keep_open(database):
        return [*_controls(database, snapshot), *_results(database, snapshot)]


def asset_of_check(check: Check) -> tuple[str, ...]:
    """Return the key of the table that a check covers, or of the warehouse."""
    return KEY_CHECKS.get(check.name, WAREHOUSE)


def gates(check: str, asset: tuple[str, ...]) -> bool:
    """Return whether no later step may run if this check fails with an error."""
    # In Dagster, only checks on the warehouse asset can block later steps. Checks on a table cannot
    # block steps, because their results come from the warehouse step, which runs after the table's
    # step.
    return asset == WAREHOUSE and any(
        known.name == check and known.severity == CHECK_ERROR for known in every_check()
    )


def _publications(outcome: publish.PublishedSnapshot, day: date) -> Iterator[AssetResult]:
    """Yield the published assets: the warehouse file and, if the night is accepted, its views."""
    snapshot, published = outcome.snapshot, outcome.published
    yield AssetResult(
        asset=WAREHOUSE,
        metadata={
            "path": published.database,
            "version": published.version,
            "snapshot_id": snapshot.snapshot_id,
            "state": snapshot.state,
            "dates loaded": len(published.loaded),
            "checks passed": sum(check.is_ok for check in published.checks),
            "checks failed": sum(not check.is_ok for check in published.checks),
            "bytes": published.database.stat().st_size,
        },
    )
    if snapshot.state != states.ACCEPTED:
        return
    counts = " union all ".join(
        f"select {literal(name)}, count(*) from history.{name} where snapshot_date = '{day}'"
        for name in MATERIALIZED
    )
    rows = {str(name): int(count) for name, count in run(published.database, counts).rows}
    for view in (*views(), *ops_views()):
        metadata: dict[str, Value] = {"snapshot_id": snapshot.snapshot_id}
        if view.name in rows:
            metadata["dagster/partition_row_count"] = rows[view.name]
        yield AssetResult(asset=("views", view.name), metadata=metadata)


def _controls(database: Path, snapshot: Snapshot) -> Iterator[AssetCheck]:
    """Yield a check result for each table: how many control totals it has, and how many differ."""
    snapshot_id = snapshot.snapshot_id
    totals = run(
        database,
        "select table_name, count(*), "
        "count(*) filter (in_json <> in_lake or in_lake <> in_warehouse), "
        "any_value(in_lake) filter (measure = 'rows') from ops.control_totals "
        f"where snapshot_id = {literal(snapshot_id)} group by table_name",
    )
    measured = {str(name): numbers for name, *numbers in totals.rows}
    for table in BOOK:
        measures, differing, rows = measured.get(table.name, (0, 0, 0))
        yield AssetCheck(
            asset=("lake", table.name),
            check=CONTROL,
            passed=bool(measures) and not differing,
            severity=ERROR if snapshot.state == states.ACCEPTED else WARN,
            metadata={
                "measures": int(measures),
                "differing": int(differing),
                "rows": int(rows or 0),
                "snapshot_id": snapshot_id,
            },
        )


def _results(database: Path, snapshot: Snapshot) -> Iterator[AssetCheck]:
    """Yield the result of each check for a night. A check that did not run does not pass."""
    day = snapshot.snapshot_date
    query = "select check_name, wrong_rows, example from ops.checks where snapshot_date = "
    results = {str(name): values for name, *values in run(database, query + _date(day)).rows}
    is_book, reasons = snapshot.state == states.ACCEPTED, decision_metadata(snapshot)["why"]
    for check in every_check():
        wrong, example = results.get(check.name, (None, None))
        if wrong is None and is_book:
            wrong = _wrong_rows(database, check, day)
        is_error = is_book and check.severity == CHECK_ERROR
        yield AssetCheck(
            asset=asset_of_check(check),
            check=check.name,
            passed=wrong == 0,
            severity=ERROR if is_error else WARN,
            description=example
            if wrong is not None
            else f"Not checked, because the night of {day} is {snapshot.state}: {reasons}",
            metadata={"book of": str(day)} | ({} if wrong is None else {"wrong rows": int(wrong)}),
        )


def _wrong_rows(database: Path, check: Check, day: date) -> int:
    """Count the wrong rows that a check finds in an older book."""
    date_literal = _date(day)
    # Remove the quotes, because `at_day` finds only unquoted table names. No table of the book
    # needs quotes.
    unquoted = check.sql.replace('"', "")
    sql = DRIFT_OF + date_literal if "ops.drift" in unquoted else at_day(unquoted, date_literal)
    [(wrong,)] = run(database, f"select count(*) from ({sql})").rows
    return int(wrong)


def _date(day: date) -> str:
    return f"date {literal(day.isoformat())}"
