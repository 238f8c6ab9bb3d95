"""The assets of the published warehouse and of its views."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import dagster as dg

from assets.console.invocation import program_version
from assets.console.terminal import progress_reporter
from assets.graph.partitions import PARTITION
from assets.graph.step import failing_in_words, night_or_newest_book, night_step
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
from warehouse.contract.model import Kind, Table, literal
from warehouse.export.export import export
from warehouse.query.read import run
from warehouse.sql.catalog import MATERIALIZED, ops_views, views
from warehouse.sql.header import SqlFile

TABLES = {table.name: table for table in BOOK}
AMOUNTS = ("balances.amount", "balances.amount_text")
# The totals of a night that ops keeps are those of its amounts.
READ_AS = {"control_totals": BALANCES.name}
_READ = re.compile(r"\b(?:from|join)\s+(?:history\.|ops\.)?([a-z_]+?)(?:_before)?\b(?!\.)")


@dataclass(frozen=True, slots=True)
class Computed:
    """A column that no table has by that name: its type, and the columns that it is made of."""

    type: str
    sources: tuple[str, ...] = ()


DATES = Computed("DATE", tuple(f"{table.name}.snapshot_date" for table in BOOK))
NAME_OF_PORTFOLIO = Computed("VARCHAR", ("portfolios.name",))
NAME_OF_VENUE = Computed("VARCHAR", ("venues.display_name",))
ACCOUNTS = Computed("BIGINT", ("accounts.account_name", "balances.account_name"))
COMPUTED: Mapping[str, Computed] = {
    "portfolio_name": NAME_OF_PORTFOLIO,
    "venue_name": NAME_OF_VENUE,
    "accounts": ACCOUNTS,
    "accounts_new": ACCOUNTS,
    "accounts_gone": ACCOUNTS,
    "accounts_increased": ACCOUNTS,
    "accounts_decreased": ACCOUNTS,
    "venues": Computed("BIGINT", ("accounts.venue_id",)),
    "portfolios": Computed("BIGINT", ("positions.portfolio_id", "accounts.portfolio_id")),
    "before_date": DATES,
    "after_date": DATES,
    "opening_date": DATES,
    "closing_date": DATES,
    "valid_from": DATES,
    "valid_to": DATES,
    "changed_after": DATES,
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
# Where a name alone would say too much or too little.
OF_VIEW: Mapping[tuple[str, str], Computed] = {
    ("freshness", "name"): Computed("VARCHAR", ("portfolios.name", "venues.display_name")),
    ("tradable_instruments", "display_name"): Computed("VARCHAR", ("instruments.display_name",)),
}


def key_of_view(name: str) -> dg.AssetKey:
    """Return the asset key of a view."""
    return dg.AssetKey(["views", name])


def view_specs(warehouse: dg.AssetKey) -> list[dg.AssetSpec]:
    """Return every view as an asset that is published with the warehouse."""
    in_main = [_views_spec(view, "main", warehouse) for view in views()]
    return [*in_main, *(_views_spec(view, "ops", warehouse) for view in ops_views())]


def _views_spec(view: SqlFile, schema: str, warehouse: dg.AssetKey) -> dg.AssetSpec:
    names = _reads(view)
    columns = {name: _column(view, name, names) for name in view.entries}
    over_nights = f" Over all nights: `history.{view.name}`." if view.name in MATERIALIZED else ""
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


def _reads(view: SqlFile) -> tuple[str, ...]:
    """Return the tables of the book and the other views that a view reads."""
    names = {READ_AS.get(name, name) for name in _READ.findall(view.sql)}
    known = {*TABLES, *(other.name for other in views())}
    return tuple(sorted(names & known - {view.name}))


def _key(name: str) -> dg.AssetKey:
    return key_of(TABLES[name]) if name in TABLES else key_of_view(name)


def _column(view: SqlFile, name: str, reads: tuple[str, ...]) -> Computed:
    """Return what a column is made of: tables, or else the columns of that name of other views."""
    column = _of_tables(view, name, reads)
    if any(source.partition(".")[0] in reads for source in column.sources):
        return column
    others = [other for other in views() if other.name in reads and name in other.entries]
    if not others:
        return column
    kind = _column(others[0], name, _reads(others[0])).type
    return Computed(kind, tuple(f"{other.name}.{name}" for other in others))


def _of_tables(view: SqlFile, name: str, reads: tuple[str, ...]) -> Computed:
    """Return what a column is made of: all that has its name, or what is named here."""
    if (view.name, name) in OF_VIEW:
        return OF_VIEW[view.name, name]
    if f"{name}_text" in view.entries:
        return Computed(Kind.AMOUNT.value, AMOUNTS)
    if name.endswith("_text") and name.removesuffix("_text") in view.entries:
        return Computed(Kind.TEXT.value, AMOUNTS)
    tables = [TABLES[read] for read in reads if read in TABLES and name in TABLES[read].names]
    if tables:
        return Computed(tables[0].column(name).kind.value, tuple(_sources(tables, name)))
    return COMPUTED.get(name, Computed(Kind.TEXT.value))


def _sources(tables: list[Table], name: str) -> Iterator[str]:
    return (f"{table.name}.{name}" for table in tables)


def _deps(column: Computed, reads: tuple[str, ...]) -> Iterator[dg.TableColumnDep]:
    for source in column.sources:
        table, name = source.split(".")
        if table in reads:
            yield dg.TableColumnDep(_key(table), name)


# ruff: noqa: S608 - names are ours; what is asked for is a date


WAREHOUSE = dg.AssetKey("warehouse")
WORKBOOK = dg.AssetKey("workbook")
DECISION = dg.AssetKey("decision")
ACCEPTED = "night_is_accepted"


class NoBook(Exception):
    """A workbook was asked for of a night that is no book."""

    def __init__(self, day: date) -> None:
        super().__init__(
            f"{day} has no book, so no workbook was written: see nightbook snapshots. The "
            "workbooks of other nights stand."
        )


def warehouse_asset(partitions: dg.DailyPartitionsDefinition) -> dg.AssetsDefinition:
    """Return the DuckDB file with its views: judged, built aside, verified, swapped in."""

    @dg.multi_asset(
        name=WAREHOUSE.path[0],
        specs=[_spec(), *view_specs(WAREHOUSE)],
        partitions_def=partitions,
        can_subset=True,
        check_specs=[
            dg.AssetCheckSpec(
                ACCEPTED,
                asset=WAREHOUSE,
                description="The night passed the guards (or a person accepted it) and is the "
                "book. A held night leaves the last book in place: decide in the job decide_night, "
                "or by `nightbook accept ID` and `nightbook reject ID`.",
                partitions_def=partitions,
            )
        ],
    )
    def warehouse(
        context: dg.AssetExecutionContext,
        nightbook: dg.ResourceParam[Nightbook],
        writing: dg.ResourceParam[RunLock],
    ) -> Iterator[dg.MaterializeResult | dg.AssetCheckResult]:
        if not context.selected_asset_keys:  # the check alone: a run of checks publishes nothing
            with failing_in_words(nightbook.layout.home):
                partition = context.run.tags.get(PARTITION)
                yield _acceptance(night_or_newest_book(nightbook, partition))
            return
        with night_step(context, nightbook) as step:
            writing.acquire(nightbook, f"publishing {step.day}", step.tell)
            keeper = replace(nightbook, tell=step.tell)
            manifest = step.manifest()
            if step.is_decision:  # it is judged: by the person
                decided = snapshots.find(step.layout, manifest.snapshot_id)
                outcome = publish.PublishedSnapshot(decided, publish.refresh(keeper))
            else:
                outcome = publish.judge_and_publish(keeper, manifest)
                if WAREHOUSE in context.selected_asset_keys:
                    context.log_event(_decision(outcome.snapshot, context.partition_key))
            results = [*_publications(outcome, step.day)]
        chosen = context.selected_asset_keys
        yield from (result for result in results if result.asset_key in chosen)
        if context.selected_asset_check_keys:
            yield _acceptance(outcome.snapshot)

    return warehouse


def _spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        WAREHOUSE,
        deps=[*(key_of(table) for table in BOOK), DECISION],
        group_name="published",
        kinds={"duckdb"},
        metadata={"dagster/table_name": "nightbook.main"},
        description="warehouse/current/nightbook.duckdb: the newest book under plain names, all "
        "books in history, what nightbook knows of its nights in ops. Published whole or not at "
        "all; readers are never locked out.",
    )


def _publications(outcome: publish.PublishedSnapshot, day: date) -> Iterator[dg.MaterializeResult]:
    """Yield what was published of a night: the file always, the views where it is the book."""
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
    """Return what the guards decided. Who starts a backfill is asked about what has no record."""
    metadata = decision_metadata(snapshot)
    return dg.AssetMaterialization(DECISION, partition=partition, metadata=metadata)


def decision_metadata(snapshot: Snapshot) -> dict[str, str]:
    """Return what was decided on a night, by whom and why."""
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
    """Return the positions workbook of the night."""

    @dg.asset(
        key=WORKBOOK,
        deps=[WAREHOUSE],
        partitions_def=partitions,
        output_required=False,
        group_name="published",
        kinds={"excel"},
        description="Positions per account, holding, asset and venue for spreadsheets: a number "
        "to read and the exact text beside each, totals that tie out, no formula from data.",
    )
    def workbook(
        context: dg.AssetExecutionContext, nightbook: dg.ResourceParam[Nightbook]
    ) -> Iterator[dg.MaterializeResult]:
        with night_step(context, nightbook) as step:
            layout = step.layout
            if step.day not in snapshots.books(snapshots.landed_snapshots(layout)):
                if step.is_decision:
                    step.tell(f"{step.day} has no book, so there is no workbook of it")
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


# The owner of each group, and who reads what it holds; an asset of its own goes before its group.
OWNERS = {"source": "operator", "landing": "operator", "lake": "operator", "published": "operator"}
READERS = {"source": "operator", "landing": "operator", "lake": "analyst", "views": "analyst"}
FOR_FINANCE = ("workbook", "reconciliation")
LAST_MINUTE = 24 * 60 - 1


def in_catalog(
    nightbook: Nightbook, assets: Iterable[dg.AssetsDefinition | dg.AssetSpec]
) -> Sequence[dg.AssetsDefinition | dg.AssetSpec]:
    """Return the same assets with owners, tags, and the hour by which they are made."""
    policy = _freshness(nightbook.settings())

    def say(spec: dg.AssetSpec) -> dg.AssetSpec:
        group, name = spec.group_name or "", spec.key.path[0]
        is_finance = name in FOR_FINANCE
        owner = "finance" if is_finance else OWNERS.get(group, "analyst")
        reader = "finance" if is_finance else READERS.get(group, "everybody")
        is_late_told = group != "source" and name not in ("decision", "reconciliation")
        return spec.replace_attributes(
            owners=[f"team:{owner}"],
            tags={"nightbook/reader": reader},
            freshness_policy=policy if is_late_told else None,
        )

    return dg.map_asset_specs(say, assets)


def _freshness(settings: Settings) -> dg.FreshnessPolicy:
    """Return by when a night of the schedule is made: after that it would be told as late."""
    # It is on the days of the schedule, at the latest just before midnight.
    last = last_tick(settings.schedule)
    over = timedelta(hours=last.hour, minutes=last.minute, seconds=settings.deadline) + GRACE
    minutes = min(int(over / timedelta(minutes=1)), LAST_MINUTE)
    days = " ".join(settings.schedule.split()[2:])
    return dg.FreshnessPolicy.cron(
        deadline_cron=f"{minutes % 60} {minutes // 60} {days}",
        lower_bound_delta=timedelta(minutes=minutes),
        timezone=str(settings.timezone),
    )
