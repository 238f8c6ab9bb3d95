"""Warehouse checks as Dagster shows them, with their counts, for each night.

The checks already ran before publishing, on the file that was being built. A night that fails a
check is held. This step only shows the results from `ops.checks` and `ops.control_totals`. Because
`ops.checks` only covers the newest book, an older night's book is queried again. A run may select
only the checks for one asset, or only a single check.
"""

# ruff: noqa: S608 - values are quoted by warehouse.contract.model.literal

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg

from assets.graph.step import PARTITION, failing_in_words, night_or_newest_book
from assets.graph.tables import key_of
from assets.graph.warehouse import WAREHOUSE
from assets.nightbook import Nightbook
from pipelines.landing.snapshots import Snapshot
from warehouse.contract import states
from warehouse.contract.book import BOOK
from warehouse.contract.model import literal
from warehouse.query.read import run
from warehouse.sql.catalog import at_day
from warehouse.sql.checks import ERROR, Check, every_check

CONTROL = "control_totals_agree"
CONTROL_MEANING = (
    "Row counts, and exact sums by asset and bucket, are the same in the landed JSON, in Parquet "
    "and in DuckDB."
)
KEYS = {f"{table.name}_key": key_of(table) for table in BOOK}
GATE = {"gates": "publishing: a night that fails this check is held and does not become the book"}
# The drift check does not read a table of the book, so for older nights it needs a different query.
DRIFT_OF = "select * from ops.drift where first_seen = "


def warehouse_checks(partitions: dg.DailyPartitionsDefinition) -> dg.AssetChecksDefinition:
    """Return all warehouse checks, plus a control total check for each table."""
    controls = [Check(CONTROL, CONTROL_MEANING, ERROR, "")]
    specs = [_spec(check, key_of(table), partitions) for check in controls for table in BOOK]
    specs += [_spec(check, _asset_of(check), partitions) for check in every_check()]

    @dg.multi_asset_check(name="tell_checks", specs=specs, can_subset=True)
    def tell_checks(
        context: dg.AssetCheckExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.AssetCheckResult]:
        layout = nightbook.layout
        with failing_in_words(layout.home):
            snapshot = night_or_newest_book(nightbook, context.run.tags.get(PARTITION))
            results = [
                *_controls(layout.database, snapshot.snapshot_id),
                *_results(layout.database, snapshot),
            ]
        for result in results:
            if _key(result) in context.selected_asset_check_keys:
                yield result

    return tell_checks


def _key(result: dg.AssetCheckResult) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(result.asset_key or WAREHOUSE, result.check_name or "")


def _spec(
    check: Check, asset: dg.AssetKey, partitions: dg.DailyPartitionsDefinition
) -> dg.AssetCheckSpec:
    # In Dagster, only checks on the warehouse asset can block later steps. Checks on a table cannot
    # block steps, because their results come from the warehouse step, which runs after the table's
    # step.
    is_gate, is_of_warehouse = check.severity == ERROR, asset == WAREHOUSE
    return dg.AssetCheckSpec(
        check.name,
        asset=asset,
        additional_deps=[] if is_of_warehouse else [WAREHOUSE],
        description=check.meaning,
        blocking=is_gate and is_of_warehouse,
        metadata=GATE if is_gate else None,
        partitions_def=partitions,
    )


def _asset_of(check: Check) -> dg.AssetKey:
    """Return the asset key of the table that a check covers, or of the warehouse."""
    return KEYS.get(check.name, WAREHOUSE)


def _controls(database: Path, snapshot_id: str) -> Iterator[dg.AssetCheckResult]:
    """Yield a check result for each table: how many control totals it has, and how many differ."""
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
        yield dg.AssetCheckResult(
            asset_key=key_of(table),
            check_name=CONTROL,
            passed=bool(measures) and not differing,
            severity=dg.AssetCheckSeverity.ERROR,
            metadata={
                "measures": int(measures),
                "differing": int(differing),
                "rows": int(rows or 0),
                "snapshot_id": snapshot_id,
            },
        )


def _results(database: Path, snapshot: Snapshot) -> Iterator[dg.AssetCheckResult]:
    """Yield the result of each check for a night. A check that did not run counts as failed."""
    day = snapshot.snapshot_date
    query = "select check_name, wrong_rows, example from ops.checks where snapshot_date = "
    results = {str(name): values for name, *values in run(database, query + _date(day)).rows}
    is_book = snapshot.state == states.ACCEPTED
    severities = dg.AssetCheckSeverity
    for check in every_check():
        wrong, example = results.get(check.name, (None, None))
        if wrong is None and is_book:
            wrong = _wrong_rows(database, check, day)
        # If a night has no book, these checks only warn, so that the report is still written. Only
        # the check `night_is_accepted` reports an error.
        is_error = is_book and check.severity == ERROR
        yield dg.AssetCheckResult(
            asset_key=_asset_of(check),
            check_name=check.name,
            passed=wrong == 0,
            severity=severities.ERROR if is_error else severities.WARN,
            description=example
            if wrong is not None
            else f"The check did not run because {day} has no book.",
            metadata={"book of": str(day), "wrong rows": int(wrong or 0)},
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
