"""Assets for the published warehouse, its views and the workbook."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from functools import cache
from typing import Any

import dagster as dg

from assets.console.invocation import program_version
from assets.console.terminal import progress_reporter
from assets.graph.step import PARTITION, failing_in_words, night_or_newest_book, night_step
from assets.graph.tables import key_of
from assets.home.writer_lock import RunLock
from assets.monitoring.staleness import GRACE
from assets.nightbook import Nightbook
from assets.publishing import publish
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from pipelines.schedule import last_tick
from pipelines.settings import Settings
from warehouse.contract import states
from warehouse.contract.book import BALANCES, BOOK
from warehouse.contract.model import Kind, literal
from warehouse.export.export import export
from warehouse.query.connect import tables_read
from warehouse.query.read import run
from warehouse.sql.catalog import MATERIALIZED, ops_views, views
from warehouse.sql.header import SqlFile

TABLES = {table.name: table for table in BOOK}
AMOUNTS = ("balances.amount", "balances.amount_text")
# A view that reads the control totals depends on the balances, because control totals are sums of
# balances.
READ_AS = {"control_totals": BALANCES.name}


@dataclass(frozen=True, slots=True)
class Computed:
    """A computed column of a view: its type, and the columns that it is calculated from."""

    type: str
    sources: tuple[str, ...] = ()


DATES = Computed("DATE", tuple(f"{table.name}.snapshot_date" for table in BOOK))
ACCOUNTS = Computed("BIGINT", ("accounts.account_name", "balances.account_name"))
COMPUTED: Mapping[str, Computed] = {
    **dict.fromkeys(("before_date", "after_date", "opening_date", "closing_date"), DATES),
    **dict.fromkeys(("valid_from", "valid_to", "changed_after"), DATES),
    **dict.fromkeys(("accounts", "accounts_new", "accounts_gone"), ACCOUNTS),
    **dict.fromkeys(("accounts_increased", "accounts_decreased"), ACCOUNTS),
    "portfolio_name": Computed("VARCHAR", ("portfolios.name",)),
    "venue_name": Computed("VARCHAR", ("venues.display_name",)),
    "venues": Computed("BIGINT", ("accounts.venue_id",)),
    "portfolios": Computed("BIGINT", ("positions.portfolio_id", "accounts.portfolio_id")),
    "nights": Computed("BIGINT", DATES.sources),
    "is_current": Computed("BOOLEAN", DATES.sources),
    "types": Computed("VARCHAR", ("venue_types.type",)),
    "severity_rank": Computed("BIGINT"),
    "id": Computed("VARCHAR", ("portfolios.portfolio_id", "venues.venue_id")),
    "read_at": Computed(Kind.MOMENT.value),
    "first_seen": Computed("DATE"),
    "last_seen": Computed("DATE"),
    "seen": Computed("BIGINT"),
    "days_unchanged": Computed("INTEGER", ("portfolios.updated_at", "venues.updated_at")),
}
# Columns that have a different origin than columns of the same name in other views.
OF_VIEW: Mapping[tuple[str, str], Computed] = {
    ("freshness", "name"): Computed("VARCHAR", ("portfolios.name", "venues.display_name")),
    ("tradable_instruments", "display_name"): Computed("VARCHAR", ("instruments.display_name",)),
}


def key_of_view(name: str) -> dg.AssetKey:
    """Return a view's asset key."""
    return dg.AssetKey(["views", name])


def view_specs(warehouse: dg.AssetKey) -> list[dg.AssetSpec]:
    """Return one asset per view. Views are published together with the warehouse."""
    in_main = [_view_spec(view, "main", warehouse) for view in views()]
    return [*in_main, *(_view_spec(view, "ops", warehouse) for view in ops_views())]


def _view_spec(view: SqlFile, schema: str, warehouse: dg.AssetKey) -> dg.AssetSpec:
    names = _sources_of_view(view)
    columns = {name: _column(view, name, names) for name in view.entries}
    over_nights = (
        f" For all nights, see `history.{view.name}`." if view.name in MATERIALIZED else ""
    )
    return dg.AssetSpec(
        key_of_view(view.name),
        deps=[warehouse, *(_key(name) for name in names)],
        description=f"{view.comment}{over_nights}\n\n```sql\n{view.example}\n```",
        group_name="views",
        kinds={"duckdb", "view"},
        metadata={
            "dagster/table_name": f"nightbook.{schema}.{view.name}",
            "dagster/column_schema": dg.TableSchema(
                [
                    dg.TableColumn(name, columns[name].type, description=meaning)
                    for name, meaning in view.entries.items()
                ]
            ),
            "dagster/column_lineage": dg.TableColumnLineage(
                {name: list(_deps(column, names)) for name, column in columns.items()}
            ),
        },
    )


@cache
def _names_by_query() -> Mapping[str, frozenset[str]]:
    """Map the SQL of each view to the names of the tables and views that it reads."""
    queries = [view.sql for view in (*views(), *ops_views())]
    return dict(zip(queries, tables_read(queries), strict=True))


def _sources_of_view(view: SqlFile) -> tuple[str, ...]:
    """Return the book tables and other views that a view reads, sorted by name."""
    # Parse the query if it is not in the catalog, which happens in tests.
    found = _names_by_query().get(view.sql) or tables_read([view.sql])[0]
    names = {name.removesuffix("_before") for name in found}
    known = {*TABLES, *(other.name for other in views())}
    return tuple(sorted({READ_AS.get(name, name) for name in names} & known - {view.name}))


def _key(name: str) -> dg.AssetKey:
    return key_of(TABLES[name]) if name in TABLES else key_of_view(name)


def _column(view: SqlFile, name: str, sources: tuple[str, ...]) -> Computed:
    """Return the type of a view's column, and the columns of tables or views that it comes from."""
    column = _column_of_tables(view, name, sources)
    if any(source.partition(".")[0] in sources for source in column.sources):
        return column
    others = [other for other in views() if other.name in sources and name in other.entries]
    if not others:
        return column
    kind = _column(others[0], name, _sources_of_view(others[0])).type
    return Computed(kind, tuple(f"{other.name}.{name}" for other in others))


def _column_of_tables(view: SqlFile, name: str, sources: tuple[str, ...]) -> Computed:
    """Return the type of a view's column, and the table columns that it comes from.

    Both are found by name: in `OF_VIEW`, from the ending `_text`, in the tables or in `COMPUTED`.
    """
    if (view.name, name) in OF_VIEW:
        return OF_VIEW[view.name, name]
    if f"{name}_text" in view.entries:
        return Computed(Kind.AMOUNT.value, AMOUNTS)
    if name.endswith("_text") and name.removesuffix("_text") in view.entries:
        return Computed(Kind.TEXT.value, AMOUNTS)
    tables = [TABLES[known] for known in sources if known in TABLES and name in TABLES[known].names]
    if tables:
        origin = tuple(f"{table.name}.{name}" for table in tables)
        return Computed(tables[0].column(name).kind.value, origin)
    return COMPUTED.get(name, Computed(Kind.TEXT.value))


def _deps(column: Computed, sources: tuple[str, ...]) -> Iterator[dg.TableColumnDep]:
    for source in column.sources:
        table, name = source.split(".")
        if table in sources:
            yield dg.TableColumnDep(_key(table), name)


# ruff: noqa: S608 - the queries contain only our own names and a date


WAREHOUSE = dg.AssetKey("warehouse")
WORKBOOK = dg.AssetKey("workbook")
DECISION = dg.AssetKey("decision")
ACCEPTED = "night_is_accepted"


class NoBook(Exception):
    """A workbook was requested for a date that has no book."""

    def __init__(self, day: date) -> None:
        super().__init__(
            f"{day} has no book, so no workbook was written: see nightbook snapshots. The "
            "workbooks for other nights are unchanged."
        )


def warehouse_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the step that judges the night, then builds, verifies and swaps in the DuckDB file."""

    @dg.multi_asset(
        name=WAREHOUSE.path[0],
        specs=[_warehouse_spec(), *view_specs(WAREHOUSE)],
        partitions_def=partitions,
        can_subset=True,
        check_specs=[
            dg.AssetCheckSpec(
                ACCEPTED,
                asset=WAREHOUSE,
                description="The night passed the guards, or a person accepted it, so it is the "
                "book. If the night is held, the last book stays in place. Decide in the "
                "decide_night job, or with `nightbook accept ID` or `nightbook reject ID`.",
                partitions_def=partitions,
            )
        ],
    )
    def warehouse(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        if not context.selected_asset_keys:
            # A run that was started only for checks must not publish.
            with failing_in_words(nightbook.layout.home):
                partition = context.run.tags.get(PARTITION)
                yield _acceptance(night_or_newest_book(nightbook, partition))
            return
        with night_step(context, nightbook) as step:
            writing.acquire(nightbook, f"publishing {step.day}", step.tell)
            logged = replace(nightbook, tell=step.tell)
            manifest = step.manifest()
            # A person has already decided about this night, so skip the guards.
            if step.is_decision:
                decided = snapshots.find(step.layout, manifest.snapshot_id)
                outcome = publish.PublishedSnapshot(decided, publish.refresh(logged))
            else:
                outcome = publish.judge_and_publish(logged, manifest)
                if WAREHOUSE in context.selected_asset_keys:
                    context.log_event(_decision(outcome.snapshot, context.partition_key))
            results = [*_publications(outcome, step.day)]
        chosen = context.selected_asset_keys
        yield from (result for result in results if result.asset_key in chosen)
        if context.selected_asset_check_keys:
            yield _acceptance(outcome.snapshot)

    return warehouse


def _warehouse_spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        WAREHOUSE,
        deps=[*(key_of(table) for table in BOOK), DECISION],
        group_name="published",
        kinds={"duckdb"},
        metadata={"dagster/table_name": "nightbook.main"},
        description="warehouse/current/nightbook.duckdb: the newest book under plain names, all "
        "books in the history schema, and the record of all nights in the ops schema. It is "
        "published completely or not at all, and readers are never locked out.",
    )


def _publications(outcome: publish.PublishedSnapshot, day: date) -> Iterator[dg.MaterializeResult]:
    """Yield the published assets: the warehouse file and, if the night is accepted, its views."""
    yield dg.MaterializeResult(asset_key=WAREHOUSE, metadata=_metadata(outcome))
    if outcome.snapshot.state != states.ACCEPTED:
        return
    counts = " union all ".join(
        f"select {literal(name)}, count(*) from history.{name} where snapshot_date = '{day}'"
        for name in MATERIALIZED
    )
    rows = {str(name): int(count) for name, count in run(outcome.published.database, counts).rows}
    for view in (*views(), *ops_views()):
        metadata: dict[str, int | str] = {"snapshot_id": outcome.snapshot.snapshot_id}
        if view.name in rows:
            metadata["dagster/partition_row_count"] = rows[view.name]
        yield dg.MaterializeResult(asset_key=key_of_view(view.name), metadata=metadata)


def _decision(snapshot: Snapshot, partition: str) -> dg.AssetMaterialization:
    """Return the event that records the guards' decision about a night in Dagster.

    Without this event, Dagster's backfill dialog would list the decision as missing.
    """
    metadata = decision_metadata(snapshot)
    return dg.AssetMaterialization(DECISION, partition=partition, metadata=metadata)


def decision_metadata(snapshot: Snapshot) -> dict[str, str]:
    """Return a snapshot's ID and state, the user who decided, and the reasons."""
    decided = {"snapshot_id": snapshot.snapshot_id, "state": snapshot.state, "by": "", "why": ""}
    if snapshot.decision:
        decided |= {"by": snapshot.decision.by, "why": "; ".join(snapshot.decision.reasons)}
    return decided


def _acceptance(snapshot: Snapshot) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=WAREHOUSE,
        check_name=ACCEPTED,
        passed=snapshot.state == states.ACCEPTED,
        severity=dg.AssetCheckSeverity.ERROR,
        description=decision_metadata(snapshot)["why"] or snapshot.state,
        metadata={"snapshot_id": snapshot.snapshot_id, "state": snapshot.state},
    )


def _metadata(outcome: publish.PublishedSnapshot) -> dict[str, Any]:
    published = outcome.published
    return {
        "path": published.database,
        "version": published.version,
        "snapshot_id": outcome.snapshot.snapshot_id,
        "state": outcome.snapshot.state,
        "dates loaded": len(published.loaded),
        "checks passed": sum(check.is_ok for check in published.checks),
        "checks failed": sum(not check.is_ok for check in published.checks),
        "bytes": published.database.stat().st_size,
    }


def workbook_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the asset for the night's positions workbook."""

    @dg.asset(
        key=WORKBOOK,
        deps=[WAREHOUSE],
        partitions_def=partitions,
        output_required=False,
        group_name="published",
        kinds={"excel"},
        description="Positions by account, holding, asset and venue for spreadsheets. Each amount "
        "is a number with its exact text next to it, the totals tie out, and text from the data "
        "never becomes a formula.",
    )
    def workbook(
        context: dg.AssetExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.MaterializeResult]:
        with night_step(context, nightbook) as step:
            layout = step.layout
            if step.day not in snapshots.books(snapshots.landed_snapshots(layout)):
                if step.is_decision:
                    step.tell(f"{step.day} has no book, so it has no workbook")
                    return
                raise NoBook(step.day)
            exported = export(
                layout.database,
                layout.exports,
                as_of=step.day,
                formats=("xlsx",),
                program_version=program_version(),
                say=progress_reporter(nightbook, step.tell, "exporting"),
            )
        yield dg.MaterializeResult(
            metadata={
                "path": exported.files[0],
                "dagster/row_count": sum(exported.rows.values()),
            }
        )

    return workbook


# Owners and readers by asset group. The assets in `FOR_FINANCE` are owned and read by finance,
# whatever their group.
OWNERS = {"source": "operator", "landing": "operator", "lake": "operator", "published": "operator"}
READERS = {"source": "operator", "landing": "operator", "lake": "analyst", "views": "analyst"}
FOR_FINANCE = ("workbook", "reconciliation")
LAST_MINUTE = 24 * 60 - 1


def in_catalog(
    nightbook: Nightbook, assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]
) -> Sequence[dg.AssetsDefinition | dg.AssetSpec]:
    """Return copies of the assets with owners, tags and freshness deadlines."""
    policy = _freshness(nightbook.settings())

    def describe(spec: dg.AssetSpec) -> dg.AssetSpec:
        group, name = spec.group_name or "", spec.key.path[0]
        is_finance = name in FOR_FINANCE
        owner = "finance" if is_finance else OWNERS.get(group, "analyst")
        reader = "finance" if is_finance else READERS.get(group, "everybody")
        has_deadline = group != "source" and name not in ("decision", "reconciliation")
        return spec.replace_attributes(
            owners=[f"team:{owner}"],
            tags={"nightbook/reader": reader},
            freshness_policy=policy if has_deadline else None,
        )

    return dg.map_asset_specs(describe, assets)


def _freshness(settings: Settings) -> dg.FreshnessPolicy:
    """Return the deadline after which Dagster shows a scheduled night as late."""
    # The deadline must be on the scheduled day, so the latest possible time is one minute before
    # midnight.
    last = last_tick(settings.schedule)
    ready = timedelta(hours=last.hour, minutes=last.minute, seconds=settings.deadline) + GRACE
    minutes = min(int(ready / timedelta(minutes=1)), LAST_MINUTE)
    days = " ".join(settings.schedule.split()[2:])
    return dg.FreshnessPolicy.cron(
        deadline_cron=f"{minutes % 60} {minutes // 60} {days}",
        lower_bound_delta=timedelta(minutes=minutes),
        timezone=str(settings.timezone),
    )
