"""The checks of the warehouse as Dagster shows them, with their numbers.

They ran before publishing, in the file that was being built; here they are only told, from
`ops.checks` and `ops.control_totals`.
"""

# ruff: noqa: S608 - values are quoted by warehouse.contract.literal

from collections.abc import Iterator
from pathlib import Path

import dagster as dg

from assets.publish import WAREHOUSE
from assets.resources import Nightbook
from assets.tables import key_of
from pipelines import snapshots
from warehouse.checks import ERROR, Check, every_check
from warehouse.contract import literal
from warehouse.query import run
from warehouse.tables import BOOK

CONTROL = "control_totals_agree"
CONTROL_MEANING = (
    "Rows, and exact sums per asset and bucket, are the same in the landed JSON, in Parquet and in "
    "DuckDB."
)
KEYS = {f"{table.name}_key": key_of(table) for table in BOOK}


def told_checks() -> dg.AssetChecksDefinition:
    """Every check of the warehouse on the table it is about, and the control totals of each."""
    specs = [
        dg.AssetCheckSpec(
            name,
            asset=asset,
            additional_deps=[] if asset == WAREHOUSE else [WAREHOUSE],
            description=words,
        )
        for name, asset, words in _told()
    ]

    @dg.multi_asset_check(name="tell_checks", specs=specs)
    def tell_checks(
        context: dg.AssetCheckExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.AssetCheckResult]:
        layout = nightbook.layout
        day = context.run.tags["dagster/partition"]
        newest = [one for one in snapshots.landed(layout) if str(one.snapshot_date) == day][-1]
        for table in BOOK:
            yield _control(layout.database, newest.snapshot_id, table.name)
        results = _found(layout.database, day)
        for check in every_check():
            yield _result(check, results.get(check.name))

    return tell_checks


def _told() -> Iterator[tuple[str, dg.AssetKey, str]]:
    for table in BOOK:
        yield CONTROL, key_of(table), CONTROL_MEANING
    for check in every_check():
        yield check.name, KEYS.get(check.name, WAREHOUSE), check.meaning


def _control(database: Path, snapshot_id: str, table: str) -> dg.AssetCheckResult:
    answer = run(
        database,
        "select count(*), count(*) filter (in_json <> in_lake or in_lake <> in_warehouse), "
        "any_value(in_lake) filter (measure = 'rows') from ops.control_totals "
        f"where snapshot_id = {literal(snapshot_id)} and table_name = {literal(table)}",
    )
    measures, differing, rows = answer.rows[0]
    return dg.AssetCheckResult(
        asset_key=dg.AssetKey(["lake", table]),
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


def _found(database: Path, day: str) -> dict[str, tuple[int, str | None]]:
    answer = run(
        database,
        "select check_name, wrong_rows, example from ops.checks "
        f"where snapshot_date = {literal(day)}",
    )
    return {str(name): (int(wrong), example) for name, wrong, example in answer.rows}


def _result(check: Check, found: tuple[int, str | None] | None) -> dg.AssetCheckResult:
    """What a check found; one that did not run on this night has not passed."""
    error, warning = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
    wrong, example = found or (0, "it ran on another night: this one is not the newest book")
    return dg.AssetCheckResult(
        asset_key=KEYS.get(check.name, WAREHOUSE),
        check_name=check.name,
        passed=found is not None and not wrong,
        severity=error if check.severity == ERROR and found is not None else warning,
        description=example or check.meaning,
        metadata={"wrong rows": wrong},
    )
