"""The views of the warehouse in Dagster's catalog: columns, types, and where each comes from.

A view says in its own file what its columns mean. What they are made of follows from names, since a
column has one name wherever it stands; what a view computes is named here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import dagster as dg

from assets.graph.tables import key_of
from warehouse.contract.book import BALANCES, BOOK
from warehouse.contract.model import Kind, Table
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
    in_main = [_spec(view, "main", warehouse) for view in views()]
    return [*in_main, *(_spec(view, "ops", warehouse) for view in ops_views())]


def _spec(view: SqlFile, schema: str, warehouse: dg.AssetKey) -> dg.AssetSpec:
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
