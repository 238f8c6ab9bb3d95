"""Assets for the views of the warehouse, with the lineage of their columns in Dagster's catalog."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

import dagster as dg

from assets.graph.tables import key_of
from warehouse.contract.book import BALANCES, BOOK
from warehouse.contract.model import Kind
from warehouse.query.connect import tables_read
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
