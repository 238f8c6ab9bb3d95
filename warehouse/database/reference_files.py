"""Loading received reference files into the tables of the schema `reference`."""

# ruff: noqa: S608 - names are ours and quoted by warehouse.contract.model; values are parameters

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection

from warehouse.contract.model import literal, quote_identifier
from warehouse.contract.reference import CONTRACTED, PROVENANCE
from warehouse.database.ddl import LABEL_KEYS, LABELS, PRICE_SETTINGS, comments_on

_FileKey = tuple[str, str]
# An asset of a label is a custom asset if this column says so.
CUSTOM = "is_custom_asset"
_DECLARED = {table.name for table in CONTRACTED}
_OWN = {column.name: column.meaning for column in PROVENANCE}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceTables:
    """The tables that people bring, and the settings of the price macros.

    `files` and `rejects` are rows of `ops.reference_files` and `ops.reference_rejects`. `paths` has
    the Parquet file of each table and digest. `sources` are the sources of prices, best first.
    `cross_rate` is the asset, quote and source of the cross rate.
    """

    files: Sequence[Mapping[str, Any]] = ()
    rejects: Sequence[Mapping[str, Any]] = ()
    paths: Mapping[_FileKey, Path]
    sources: Sequence[str] = ()
    max_age_days: int | None = None
    currency: str | None = None
    cross_rate: tuple[str, str, str] | None = None


def replace_files(
    connection: DuckDBPyConnection, reference: ReferenceTables, loaded: set[_FileKey]
) -> None:
    """Delete the rows of files that no longer exist, and insert the rows of new files."""
    connection.execute(f"delete from {PRICE_SETTINGS}")
    cross_rate = reference.cross_rate or (None, None, None)
    settings = [list(reference.sources), reference.max_age_days, reference.currency, *cross_rate]
    connection.execute(f"insert into {PRICE_SETTINGS} values (?, ?, ?, ?, ?, ?)", settings)
    wanted = {(row["table_name"], row["sha256"]) for row in reference.files}
    gone, new = defaultdict[str, list[str]](list), defaultdict[str, list[Path]](list)
    for table, sha256 in sorted(loaded - wanted):
        gone[table].append(sha256)
    for row in reference.files:
        key = row["table_name"], row["sha256"]
        if key in reference.paths and key not in loaded:
            new[row["table_name"]].append(reference.paths[key])
    tables = {table for table, _ in wanted}
    for folder, digests in gone.items():
        # An old book is in the folder of its day. One workbook may have the books of several days.
        table, _, day = folder.partition("/")
        name = f"reference.{quote_identifier(table)}"
        if table not in tables and table not in _DECLARED:
            connection.execute(f"drop table if exists {name}")
        elif _columns(connection, name):
            query = f"delete from {name} where sha256 in (select unnest(?::varchar[]))"
            query += f" and as_of_date = {literal(day)}" if day else ""
            connection.execute(query, [digests])
    for folder, paths in new.items():
        _insert(connection, folder.partition("/")[0], paths)
    labels = {table for table in tables if table.partition("/")[0] not in _DECLARED}
    replace_labels(connection, labels)


def _insert(connection: DuckDBPyConnection, table: str, paths: Sequence[Path]) -> None:
    name = f"reference.{quote_identifier(table)}"
    files = ", ".join(literal(str(path)) for path in paths)
    rows = f"from read_parquet([{files}], union_by_name = true, hive_partitioning = false)"
    if table not in _DECLARED:
        before, columns = _columns(connection, name), _columns(connection, f"({rows})")
        if not before:
            connection.execute(f"create table {name} as select * {rows} limit 0")
        for column in [column for column in columns if before and column not in before]:
            connection.execute(f"alter table {name} add column {quote_identifier(column)} varchar")
        meanings = dict.fromkeys(columns, "As in the file. NULL if the cell is empty.") | _OWN
        for statement in comments_on("table", name, f"Rows of reference/{table}/.", meanings):
            connection.execute(statement)
    connection.execute(f"insert into {name} by name select * {rows}")


def _columns(connection: DuckDBPyConnection, source: str) -> list[str]:
    """Return the columns of a table or subquery, or an empty list if there is no such table."""
    if source.startswith("("):
        return [row[0] for row in connection.execute(f"describe select * from {source}").fetchall()]
    query = (
        "select column_name from duckdb_columns() where database_name = current_database() "
        "and schema_name = 'reference' and table_name = ?"
    )
    table = source.partition(".")[2].strip('"')
    return [row[0] for row in connection.execute(query, [table]).fetchall()]


def replace_labels(connection: DuckDBPyConnection, tables: Collection[str]) -> None:
    """Replace all labels by the labels of these tables. The last file of each key decides.

    A table is only a label if no row has an empty key and no file has a key twice.
    """
    connection.execute(f"delete from {LABELS}")
    for table in tables:
        name = f"reference.{quote_identifier(table)}"
        columns = _columns(connection, name)
        keys = ", ".join(key for key in LABEL_KEYS if key in columns)
        others = [column for column in columns if column not in (*LABEL_KEYS, CUSTOM, *_OWN)]
        flag = f"coalesce(lower({CUSTOM}) in ('true', 'yes', '1'), false)"
        custom = flag if CUSTOM in columns else "false"
        unusable = ("count(*) > 1", *(f"bool_or({key} is null)" for key in keys.split(", ")))
        if (
            not keys
            or connection.execute(
                f"select 1 from {name} group by sha256, {keys}, {custom} "
                f"having {' or '.join(unusable)} limit 1"
            ).fetchall()
        ):
            continue
        for column in others:
            label = table if len(others) == 1 else f"{table}.{column}"
            # A list, because arg_max skips NULLs. An empty cell removes the label.
            last = f"arg_max([{quote_identifier(column)}], received_at)[1]"
            connection.execute(
                f"insert into {LABELS} by name select {literal(label)} as label, {keys}, {custom} "
                f"as is_custom_asset, {last} as value from {name} group by {keys}, {custom} "
                "having value is not null"
            )
