"""The checks of the warehouse as Dagster shows them, with their numbers.

They ran before publishing, in the file that was being built; here they are only told, from
`ops.checks` and `ops.control_totals`. Those of one asset, or one alone, are told alone.
"""

# ruff: noqa: S608 - values are quoted by warehouse.contract.model.literal

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg

from assets.graph.partitions import PARTITION
from assets.graph.step import failing_in_words
from assets.graph.tables import key_of
from assets.graph.warehouse import WAREHOUSE
from assets.nightbook import Nightbook
from pipelines import night
from pipelines.landing import snapshots
from warehouse.contract.book import BOOK
from warehouse.contract.model import literal
from warehouse.query.read import run
from warehouse.sql.checks import ERROR, Check, every_check

CONTROL = "control_totals_agree"
CONTROL_MEANING = (
    "Rows, and exact sums per asset and bucket, are the same in the landed JSON, in Parquet and in "
    "DuckDB."
)


KEYS = {f"{table.name}_key": key_of(table) for table in BOOK}


def warehouse_checks() -> dg.AssetChecksDefinition:
    """Return every check of the warehouse on its table, and the control totals of each."""
    specs = [_spec(CONTROL, key_of(table), CONTROL_MEANING) for table in BOOK]
    specs += [_spec(check.name, _asset_of(check), check.meaning) for check in every_check()]

    @dg.multi_asset_check(name="tell_checks", specs=specs, can_subset=True)
    def tell_checks(
        context: dg.AssetCheckExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.AssetCheckResult]:
        layout = nightbook.layout
        with failing_in_words(layout.home):
            snapshot_id = _snapshot(nightbook, context.run.tags.get(PARTITION))
            results = [*_controls(layout.database, snapshot_id), *_results(layout.database)]
        for result in results:
            if _key(result) in context.selected_asset_check_keys:
                yield result

    return tell_checks


def _key(result: dg.AssetCheckResult) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(result.asset_key or WAREHOUSE, result.check_name or "")


def _spec(name: str, asset: dg.AssetKey, description: str) -> dg.AssetCheckSpec:
    deps = [] if asset == WAREHOUSE else [WAREHOUSE]
    return dg.AssetCheckSpec(name, asset=asset, additional_deps=deps, description=description)


def _asset_of(check: Check) -> dg.AssetKey:
    """Return the table that a check is about, or the warehouse as a whole."""
    return KEYS.get(check.name, WAREHOUSE)


def _snapshot(nightbook: Nightbook, partition: str | None) -> str:
    """Return the snapshot of the partition, or the newest book; raises `NeverLanded`."""
    if partition is not None:
        day = date.fromisoformat(partition)
        return night.landed_for(nightbook.settings(), nightbook.now(), day).snapshot_id
    books = list(snapshots.books(snapshots.landed_snapshots(nightbook.layout)).values())
    if not books:
        raise dg.Failure(
            description="No night has a book yet, so there is nothing to check.",
            allow_retries=False,
        )
    return books[-1].snapshot_id


def _controls(database: Path, snapshot_id: str) -> Iterator[dg.AssetCheckResult]:
    """Return for every table how many control totals there are, and how many differ."""
    answer = run(
        database,
        "select table_name, count(*), "
        "count(*) filter (in_json <> in_lake or in_lake <> in_warehouse), "
        "any_value(in_lake) filter (measure = 'rows') from ops.control_totals "
        f"where snapshot_id = {literal(snapshot_id)} group by table_name",
    )
    measured = {str(name): numbers for name, *numbers in answer.rows}
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


def _results(database: Path) -> Iterator[dg.AssetCheckResult]:
    """Yield the results in the newest book; a check that did not run has not passed."""
    query = "select check_name, snapshot_date, wrong_rows, example from ops.checks"
    results = {str(name): values for name, *values in run(database, query).rows}
    severities = dg.AssetCheckSeverity
    for check in every_check():
        day, wrong, example = results.get(check.name, (None, None, "It did not run."))
        yield dg.AssetCheckResult(
            asset_key=_asset_of(check),
            check_name=check.name,
            passed=wrong == 0,
            severity=severities.ERROR if check.severity == ERROR else severities.WARN,
            description=example,
            metadata={"book of": str(day), "wrong rows": int(wrong or 0)} if day else {},
        )
