"""Functions that load one source's published warehouse into the firm's book.

A source is read in one transaction. Either it is loaded completely and from one version, or its
rows do not change.
"""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import duckdb
from duckdb import DuckDBPyConnection

from warehouse.contract.book import BALANCES, BOOK
from warehouse.contract.firm import GATE, NIGHTS, OF_SOURCES, of_firm
from warehouse.contract.model import and_more, count_of, literal, quote_identifier
from warehouse.contract.ops import NIGHTLY
from warehouse.database import ddl
from warehouse.database.firm.ddl import NEWEST, NIGHTLY_VIEWS, rows_of, stored_as
from warehouse.query.firm_state import Night
from warehouse.storage.firm import FIRM
from warehouse.storage.layout import Layout

_INCOMING = "incoming"
_ATTEMPTS = 3
_SHOWN_PROBLEMS = 3
# Tables of a source that are replaced completely, because they are not stored by night.
_WHOLE = tuple(
    table for table in OF_SOURCES if table.name not in {t.name for t in (*BOOK, *NIGHTLY)}
)


class SourceUnreadable(Exception):
    """The warehouse of a source could not be read, so its rows in the firm's book do not change."""


@dataclass(frozen=True, slots=True)
class LoadedSource:
    """A source as loaded into the firm's book: warehouse version, schema version and dates."""

    version: str
    schema_version: str
    days: tuple[date, ...]


def lost_nights(layout: Layout, known: Collection[Night]) -> str:
    """Return a message about the firm's nights that are missing from a home, or an empty string.

    Raises `OSError` if the home cannot be read.
    """
    missing = [
        (day, snapshot) for day, snapshot in known if not layout.snapshot(day, snapshot).is_dir()
    ]
    return _lost_message(layout, known, missing)


def _lost_message(layout: Layout, known: Collection[Night], missing: Collection[Night]) -> str:
    if not missing:
        return ""
    first, last = min(missing)[0], max(missing)[0]
    span = f"of {first}" if first == last else f"{first} to {last}"
    return (
        f"{layout.home} lacks {len(missing)} of the {count_of(len(known), 'snapshot')} that this "
        f"book loaded from it ({span}). Is its disk mounted? This source's nights in the "
        "book are unchanged, and no run was started in that home. Restore that home or mount its "
        f"disk. If those nights are lost for good, remove the organisation from {FIRM}, rebuild "
        "the firm's book, and add it back"
    )


def load_source(
    connection: DuckDBPyConnection,
    name: str,
    layout: Layout,
    known_schema: str | None,
    snapshots: str = "ops.snapshots",
) -> LoadedSource:
    """Update a source's rows from its published warehouse.

    `known_schema` is the schema version of the source's rows in the open book, or None if the book
    has no such rows. `snapshots` is the table of all nights that the firm knows. A home that lacks
    some of them is not read, because its disk may not be mounted. Raises `SourceUnreadable`.
    """
    try:
        known = _known_nights(connection, f"{snapshots} where source = ?", name)
        with _attach(connection, layout, known):
            connection.execute("begin")
            try:
                _require_nights(connection, name, layout, known, snapshots)
                loaded = _load(connection, name, known_schema)
                connection.execute("commit")
            except BaseException:
                connection.execute("rollback")
                raise
            return loaded
    except (duckdb.Error, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise SourceUnreadable(f"its warehouse cannot be read: {reason}") from error


def _known_nights(connection: DuckDBPyConnection, snapshots: str, *values: str) -> set[Night]:
    query = f"select snapshot_date, snapshot_id from {snapshots}"
    return set(connection.execute(query, list(values)).fetchall())


def _require_nights(
    connection: DuckDBPyConnection,
    name: str,
    layout: Layout,
    known: Collection[Night],
    snapshots: str,
) -> None:
    """Check that the attached warehouse has all known nights, with unchanged finish times."""
    published = _known_nights(connection, f"{_INCOMING}.ops.snapshots")
    if lost := _lost_message(layout, known, set(known) - published):
        raise SourceUnreadable(lost)
    others = connection.execute(
        f"select count(*) from {snapshots} as known inner join {_INCOMING}.ops.snapshots as given "
        "using (snapshot_id) where source = ? and known.finished_at <> given.finished_at",
        [name],
    ).fetchone()
    if others and others[0]:
        raise SourceUnreadable(
            f"{layout.home} has {count_of(others[0], 'night')} with the same IDs as nights in this "
            "book, but they were read at different times. Does the home belong to a different "
            "organisation? This source's nights in the book are unchanged. Check the "
            "source's folder in firm.toml"
        )


@contextlib.contextmanager
def _attach(
    connection: DuckDBPyConnection, layout: Layout, known: Collection[Night]
) -> Iterator[None]:
    """Attach a source's published version read-only, for the duration of the block."""
    for attempts_left in reversed(range(_ATTEMPTS)):
        # Resolve the link only once, so that all tables are from the same version. Retry, because a
        # publish may remove the version before it is attached. An attached version stays readable.
        file = layout.database.resolve()
        if not file.exists() and not attempts_left:
            raise SourceUnreadable(
                lost_nights(layout, known)
                or f"nothing is published in {layout.home}: run nightbook status there"
            )
        with contextlib.suppress(*(duckdb.Error, OSError) if attempts_left else ()):
            connection.execute(f"attach {literal(str(file))} as {_INCOMING} (read_only)")
            break
    try:
        yield
    finally:
        connection.execute(f"detach {_INCOMING}")


def _load(connection: DuckDBPyConnection, name: str, known_schema: str | None) -> LoadedSource:
    build = connection.execute(
        f"select version, schema_version, program_version from {_INCOMING}.ops.build"
    ).fetchone()
    version, schema, program = build or ("", "", "")
    if schema != ddl.schema_version():
        raise SourceUnreadable(
            f"a different nightbook version built its warehouse ({program}, schema {schema}, not "
            f"{ddl.schema_version()}): rebuild it in that organisation's home"
        )
    known = _books(connection, "ops", name) if schema == known_schema else set()
    published = _books(connection, f"{_INCOMING}.ops", None)
    gone = sorted({day for day, *_ in known - published})
    new = sorted({day for day, *_ in published - known})
    if schema != known_schema:
        _remove_rows(connection, name)
    _replace_days(connection, name, gone, new)
    _replace_rest(connection, name, gone, new)
    if problems := _differences(connection, name, new):
        raise SourceUnreadable(
            "the rows read from its warehouse differ from its own control totals: "
            f"{and_more(problems, _SHOWN_PROBLEMS, '; ')}"
        )
    return LoadedSource(version, schema, tuple(new))


def _books(
    connection: DuckDBPyConnection, ops: str, source: str | None
) -> set[tuple[date, str, str]]:
    """Return each book's date, its snapshot ID, and the previous book's snapshot ID or ''."""
    own = "" if source is None else "and source = ?"
    return set(
        connection.execute(
            "select snapshot_date, snapshot_id, coalesce(lag(snapshot_id) over "
            f"(order by snapshot_date), '') from {ops}.snapshots where is_book {own}",
            [] if source is None else [source],
        ).fetchall()
    )


def carry_source(connection: DuckDBPyConnection, name: str, kept: str) -> bool:
    """Copy a source's rows from `kept`, an attached older version of the firm's file.

    A column that is missing from `kept` becomes NULL. Return False and copy nothing if a missing
    column contains amounts or belongs to a book table, if a whole table is missing from `kept`, or
    if `kept` has a column with a different name or type.
    """
    gate = {table.name for table in GATE}
    here, there = (_tables_with_source(connection, catalog) for catalog in ("draft", kept))
    stored = {table: there.get(table, ("", {})) for table in here.keys() - gate}
    if not all(_can_carry(table, here[table][1], known) for table, (_, known) in stored.items()):
        return False
    for table, (schema, _) in stored.items():
        connection.execute(
            f"insert into {here[table][0]}.{quote_identifier(table)} by name "
            f"select * from {kept}.{schema}.{quote_identifier(table)} where source = ?",
            [name],
        )
    return True


def _can_carry(table: str, columns: Mapping[str, str], known: Mapping[str, str]) -> bool:
    """Return whether rows with the `known` columns can be copied to a table with `columns`.

    Both map column names to types.
    """
    new = columns.keys() - known.keys()
    has_amounts = any(
        column.endswith("_text") or columns[column].startswith("DECIMAL") for column in new
    )
    is_of_book = table in {each.name for each in BOOK}
    is_same = all(columns.get(column) == kind for column, kind in known.items())
    return bool(known) and is_same and not has_amounts and not (new and is_of_book)


def _tables_with_source(
    connection: DuckDBPyConnection, catalog: str
) -> dict[str, tuple[str, dict[str, str]]]:
    """Return the schema and column types of each table with a source column, by table name."""
    rows = connection.execute(
        "select table_name, schema_name, map_from_entries(list(row(column_name, data_type))) "
        "from duckdb_columns() semi join duckdb_tables() using (database_name, table_oid) "
        "where database_name = ? group by all having list_contains(list(column_name), 'source')",
        [catalog],
    ).fetchall()
    return {name: (schema, columns) for name, schema, columns in rows}


def remove_source(connection: DuckDBPyConnection, name: str) -> None:
    """Delete all rows of a source, including its nights in `ops.nights`."""
    _remove_rows(connection, name)
    connection.execute(f"delete from {ddl.stored_as(NIGHTS)} where source = ?", [name])


def _remove_rows(connection: DuckDBPyConnection, name: str) -> None:
    for table in _tables_of_source():
        connection.execute(f"delete from {table} where source = ?", [name])


def _tables_of_source() -> Iterator[str]:
    yield from map(stored_as, OF_SOURCES)
    yield from (rows_of(view) for view in NIGHTLY_VIEWS)
    yield from (rows_of(view) for view, _ in NEWEST)


def _replace_days(
    connection: DuckDBPyConnection, name: str, gone: Sequence[date], new: Sequence[date]
) -> None:
    """Delete a source's rows for `gone` and `new` dates, and insert its rows for `new` dates."""
    tables = [(stored_as(of_firm(table)), table.name) for table in BOOK]
    tables += [(rows_of(view), view.name) for view in NIGHTLY_VIEWS]
    for table, table_of_source in tables:
        for day in sorted({*gone, *new}):
            connection.execute(
                f"delete from {table} where source = ? and snapshot_date = ?", [name, day]
            )
        _insert(connection, table, f"history.{quote_identifier(table_of_source)}", name, new)


def _replace_rest(
    connection: DuckDBPyConnection, name: str, gone: Sequence[date], new: Sequence[date]
) -> None:
    """Update the source's rows in the `ops` tables and in the stored views of its newest book."""
    for table in NIGHTLY:
        connection.execute(
            f"delete from {ddl.stored_as(table)} where source = ? "
            f"and (snapshot_id not in (select snapshot_id from {_INCOMING}.ops.snapshots) "
            "or list_contains(?, snapshot_date))",
            [name, [*gone, *new]],
        )
        stored = ddl.stored_as(table)
        connection.execute(
            f"insert into {stored} by name select ? as source, * from {_INCOMING}.{stored} "
            f"where snapshot_id not in (select snapshot_id from {stored} where source = ?)",
            [name, name],
        )
    whole = [(ddl.stored_as(table), ddl.stored_as(table)) for table in _WHOLE]
    whole += [(rows_of(view), f"{schema}.{quote_identifier(view.name)}") for view, schema in NEWEST]
    for stored, table_of_source in whole:
        connection.execute(f"delete from {stored} where source = ?", [name])
        _insert(connection, stored, table_of_source, name)


def _insert(
    connection: DuckDBPyConnection,
    table: str,
    table_of_source: str,
    name: str,
    days: Sequence[date] | None = None,
) -> None:
    condition = "" if days is None else "where list_contains(?, snapshot_date)"
    connection.execute(
        f"insert into {table} by name select ? as source, * "
        f"from {_INCOMING}.{table_of_source} {condition}",
        [name] if days is None else [name, list(days)],
    )


def _differences(
    connection: DuckDBPyConnection, name: str, days: Sequence[date]
) -> tuple[str, ...]:
    """Return a message for each exact total that differs from the source's control totals."""
    condition = "source = ? and list_contains(?, snapshot_date)"
    counts = " union all ".join(
        f"select snapshot_date, {literal(table.name)} as table_name, 'rows' as measure, "
        "'' as asset_id, false as is_custom_asset, '' as bucket, count(*)::varchar as total "
        f"from {stored_as(of_firm(table))} where {condition} group by snapshot_date"
        for table in BOOK
    )
    rows = connection.execute(
        f"with here as ({counts} union all select snapshot_date, 'balances', 'sum', asset_id, "
        "is_custom_asset, bucket, "
        "internal.exact_sums([internal.exact_part(amount, amount_text)])[1].text "
        f"from {stored_as(of_firm(BALANCES))} where {condition} "
        "group by snapshot_date, asset_id, is_custom_asset, bucket), "
        "expected as (select totals.* from ops.control_totals as totals "
        "inner join ops.snapshots as snapshots using (source, snapshot_id) where is_book "
        "and source = ? and list_contains(?, totals.snapshot_date)) "
        "select coalesce(expected.snapshot_date, here.snapshot_date), "
        "coalesce(expected.table_name, here.table_name), "
        "coalesce(expected.asset_id, here.asset_id), "
        "expected.in_warehouse, here.total from expected full join here using "
        "(snapshot_date, table_name, measure, asset_id, is_custom_asset, bucket) "
        "where coalesce(expected.in_warehouse, '0') is distinct from coalesce(here.total, '0') "
        "order by all",
        [name, list(days)] * (len(BOOK) + 2),
    ).fetchall()
    return tuple(
        f"{table}{f' of {asset}' if asset else ''} on {day}: {expected} expected, {here} found"
        for day, table, asset, expected, here in rows
    )
