"""The checks of the warehouse as Dagster shows them, with their numbers.

They ran before publishing, in the file that was being built; here they are only told, from
`ops.checks` and `ops.control_totals`. Those of one asset, or one alone, are told alone.
"""

# ruff: noqa: S608 - values are quoted by warehouse.contract.model.literal

from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class NewestCheckResult:
    """What a check found in the newest book, of which date that is, and the first wrong row."""

    day: date
    wrong_rows: int
    example: str | None


KEYS = {f"{table.name}_key": key_of(table) for table in BOOK}


def warehouse_checks() -> dg.AssetChecksDefinition:
    """Return every check of the warehouse on its table, and the control totals of each."""
    specs = [
        dg.AssetCheckSpec(
            name,
            asset=asset,
            additional_deps=[] if asset == WAREHOUSE else [WAREHOUSE],
            description=description,
        )
        for name, asset, description in _declared_checks()
    ]

    @dg.multi_asset_check(name="tell_checks", specs=specs, can_subset=True)
    def tell_checks(
        context: dg.AssetCheckExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.AssetCheckResult]:
        layout = nightbook.layout
        with failing_in_words(nightbook.layout.home):
            snapshot_id = _snapshot(nightbook, context.run.tags.get(PARTITION))
            results = [*_controls(layout.database, snapshot_id), *_results(layout.database)]
        for result in results:
            if _key(result) in context.selected_asset_check_keys:
                yield result

    return tell_checks


def _key(result: dg.AssetCheckResult) -> dg.AssetCheckKey:
    return dg.AssetCheckKey(result.asset_key or WAREHOUSE, result.check_name or "")


def _declared_checks() -> Iterator[tuple[str, dg.AssetKey, str]]:
    for table in BOOK:
        yield CONTROL, key_of(table), CONTROL_MEANING
    for check in every_check():
        yield check.name, KEYS.get(check.name, WAREHOUSE), check.meaning


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


def _check_results(database: Path) -> dict[str, NewestCheckResult]:
    query = "select check_name, snapshot_date, wrong_rows, example from ops.checks"
    return {
        str(name): NewestCheckResult(day, int(wrong), example)
        for name, day, wrong, example in run(database, query).rows
    }


def _results(database: Path) -> Iterator[dg.AssetCheckResult]:
    results = _check_results(database)
    for check in every_check():
        yield _result(check, results.get(check.name))


def _result(check: Check, newest: NewestCheckResult | None) -> dg.AssetCheckResult:
    """Return the result of a check in the newest book; one that did not run has not passed."""
    metadata: dict[str, str | int] = {}
    if newest is not None:
        metadata = {"book of": str(newest.day), "wrong rows": newest.wrong_rows}
    severe = dg.AssetCheckSeverity.ERROR if check.severity == ERROR else dg.AssetCheckSeverity.WARN
    return dg.AssetCheckResult(
        asset_key=KEYS.get(check.name, WAREHOUSE),
        check_name=check.name,
        passed=newest is not None and not newest.wrong_rows,
        severity=severe,
        description=newest.example if newest else "It did not run.",
        metadata=metadata,
    )
