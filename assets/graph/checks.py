"""Warehouse checks as Dagster shows them, with their counts, for each night.

A run may select only the checks for one asset, or only a single check.
"""

from collections.abc import Iterator

import dagster as dg

from assets.graph.record import key_of_check, to_check
from assets.graph.step import PARTITION, failing_in_words, night_or_newest_book
from assets.graph.tables import key_of
from assets.graph.warehouse import WAREHOUSE
from assets.night.warehouse import CONTROL, asset_of_check, check_results
from assets.nightbook import Nightbook
from warehouse.contract.book import BOOK
from warehouse.sql.checks import ERROR, Check, every_check

CONTROL_MEANING = (
    "Row counts, and exact sums by asset and bucket, are the same in the landed JSON, in Parquet "
    "and in DuckDB."
)
GATE = {"gates": "publishing: a night that fails this check is held and does not become the book"}


def warehouse_checks(partitions: dg.DailyPartitionsDefinition) -> dg.AssetChecksDefinition:
    """Return all warehouse checks, plus a control total check for each table."""
    controls = [Check(CONTROL, CONTROL_MEANING, ERROR, "")]
    specs = [_spec(check, key_of(table), partitions) for check in controls for table in BOOK]
    specs += [
        _spec(check, dg.AssetKey(asset_of_check(check)), partitions) for check in every_check()
    ]

    @dg.multi_asset_check(name="tell_checks", specs=specs, can_subset=True)
    def tell_checks(
        context: dg.AssetCheckExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.AssetCheckResult]:
        with failing_in_words(nightbook.layout.home):
            snapshot = night_or_newest_book(nightbook, context.run.tags.get(PARTITION))
            results = check_results(nightbook.layout.database, snapshot)
        for result in results:
            if key_of_check(result) in context.selected_asset_check_keys:
                yield to_check(result)

    return tell_checks


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
