"""Assets for the published warehouse, its views and the workbook."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

import dagster as dg

from assets.graph.record import event_of, to_check
from assets.graph.step import (
    PARTITION,
    failing_in_words,
    night_or_newest_book,
    night_step,
    selection_of,
    yielding,
)
from assets.graph.tables import key_of
from assets.home.writer_lock import RunLock
from assets.monitoring.staleness import GRACE
from assets.night import warehouse as night_warehouse
from assets.night.reports import WORKBOOK, write_workbook
from assets.night.warehouse import ACCEPTED, acceptance, judge_and_publish
from assets.nightbook import Nightbook
from pipelines.schedule import last_tick
from pipelines.settings import Settings
from warehouse.contract.book import BALANCES, BOOK
from warehouse.contract.model import Kind
from warehouse.query.connect import tables_read
from warehouse.sql.catalog import MATERIALIZED, ops_views, views
from warehouse.sql.header import SqlFile

WAREHOUSE = dg.AssetKey(night_warehouse.WAREHOUSE)
DECISION = dg.AssetKey(night_warehouse.DECISION)
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
    ("attention", "snapshot_date"): Computed("DATE"),
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
                yield to_check(acceptance(night_or_newest_book(nightbook, partition)))
            return
        with night_step(context, nightbook, writing) as step:
            results = judge_and_publish(step)
            for result in results:
                if (
                    WAREHOUSE in context.selected_asset_keys
                    and result.asset == night_warehouse.DECISION
                ):
                    context.log_event(event_of(result, context.partition_key))
        yield from selection_of(context, results)

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


def workbook_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the asset for the night's positions workbook."""
    declare = dg.asset(
        key=dg.AssetKey(WORKBOOK),
        deps=[WAREHOUSE],
        partitions_def=partitions,
        output_required=False,
        group_name="published",
        kinds={"excel"},
        description="Positions by account, holding, asset and venue for spreadsheets. Each amount "
        "is a number with its exact text next to it, the totals tie out, and text from the data "
        "never becomes a formula.",
    )
    return declare(yielding(write_workbook))


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
