"""Tests of completeness: everything declared is used, and everything used is declared."""

from collections.abc import Callable
from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipelines.edge import models
from pipelines.flatten.portfolios import PORTFOLIO_TABLES
from pipelines.flatten.venues import VENUE_TABLES
from pipelines.records import schema
from pipelines.records.schema import INSTRUMENT, PORTFOLIO, VENUE, Field, every_field
from tests.support.books import row
from warehouse.contract import ops
from warehouse.contract.book import BOOK, KNOWN_BALANCES
from warehouse.contract.lake import HOLDINGS, LAKE, SUMS, field_ids, lake_table
from warehouse.contract.model import Column, Table
from warehouse.contract.reconciliation import RECONCILED
from warehouse.contract.reference import CONTRACTED, REFERENCED
from warehouse.database.materialized_views import create_rows_of, materialized_views
from warehouse.report import columns
from warehouse.report.charts import PART_COLOURS
from warehouse.report.figures import split_shares
from warehouse.storage.layout import Layout
from warehouse.storage.parquet import rows_batch, write

# Fields of the models that have no column, each with the reason.
WITHOUT_COLUMN = {
    "Portfolio.resource": "always the same word; another one is drift",
    "Venue.resource": "always the same word; another one is drift",
    "Instrument.resource": "always the same word; another one is drift",
    "Venue.instruments": "compared with the instruments' own lists: ops.listings",
    "VenueInstrument.id": "compared with the instruments' own lists: ops.listings",
    "VenueInstrument.type": "the instrument's own record has it",
    "VenueInstrument.displayName": "the instrument's own record has it",
    "Instrument.tradingConstraints": "each of its fields is a column",
}
FIELDS = [*every_field(PORTFOLIO), *every_field(VENUE), *every_field(INSTRUMENT)]
COLUMNS = [(table, column) for table in BOOK for column in table.columns]
DAY, SNAPSHOT = date(2026, 11, 20), "20261120T021500Z"
# Sources of columns that are not a single field.
COMPUTED = {"snapshot", "Account", "Balance.*", "Balance.*.*"}


def unused(fields: list[Field]) -> list[str]:
    """Return a message for each field of the models that has no column and is not excused."""
    used = {column.source for _, column in COLUMNS}
    return [
        f"{field.source} of pipelines/edge/models.py reaches no table: give it a column in "
        "warehouse/contract/book.py, or list it in tests/house/test_completeness.py with the reason"
        for field in fields
        if field.source not in used | WITHOUT_COLUMN.keys()
        # Each amount of a balance is a row of balances, whatever its kind.
        and field.source.partition(".")[0] not in schema.MONEY | {"Balance"}
    ]


def test_every_api_field_has_a_column_or_an_excuse() -> None:
    """Each field of the models has a column, or a reason to have no column."""
    assert unused(FIELDS) == []


def test_the_contract_and_the_model_have_the_same_balance_kinds() -> None:
    """The model and the contract have the same kinds of balances, with the same parts."""
    kinds = {
        name: set(kind.shape.fields)
        for name, kind in schema.shape_of(models.Balance).fields.items()
        if kind.shape is not None
    }
    assert {bucket: set(states) for bucket, states in KNOWN_BALANCES.items()} == kinds


def test_every_documented_state_has_a_holdings_column() -> None:
    """Each documented amount that is in a total is also in one of its parts."""
    states = {state for states in KNOWN_BALANCES.values() for state in states}
    assert [
        f"{state} is no column of holdings: give it one in warehouse/contract/lake.py and in "
        "warehouse/sql/views/forms/holdings.sql, or it would be in their total alone"
        for state in sorted(states - SUMS.keys())
    ] == []


def test_the_report_has_every_part_of_holdings() -> None:
    """The report reads, shows and draws every part of a holding, and its shares include it."""
    parts = [name for name in SUMS if name != "total"]
    assert split_shares({f"{part}_text": "1" for part in parts}) == (1 / len(parts),) * len(parts)
    assert len(PART_COLOURS) == len(parts), "see warehouse/report/charts.py"
    shown = {key for _, _, *keys in columns.HOLDINGS for key in keys}
    query = Path(columns.__file__).with_name("queries").joinpath("holdings.sql").read_text("utf-8")
    for name in SUMS:
        assert f"{name}_text" in shown, "see warehouse/report/columns.py"
        assert f"{name}_text," in query, "see warehouse/report/queries/holdings.sql"


def test_a_field_without_a_column_is_reported() -> None:
    """The message about a field without a column names the field and the file to change."""
    new = schema.Field("noSuchField", "Account.noSuchField", schema.JsonType.TEXT, required=True)
    assert len(unused([*FIELDS, new])) == 1
    assert "Account.noSuchField" in unused([new])[0]
    assert "warehouse/contract/book.py" in unused([new])[0]


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=lambda one: one.name)
def test_every_column_has_its_source(table: Table, column: Column) -> None:
    """A column's source is a field of the models, or is known to be computed."""
    sources = {field.source for field in FIELDS} | COMPUTED
    assert column.source in sources, (
        f"{table.name}.{column.name} comes from {column.source}: see pipelines/edge/models.py"
    )


def test_only_keys_are_never_null() -> None:
    """The column of a field is nullable, unless it is a key, because a value can be invalid."""
    fields = {field.source for field in FIELDS if not field.is_key}
    assert [
        f"{table.name}.{column.name} is NULL if the API sends no valid value: give it "
        "nullable=True in warehouse/contract/book.py"
        for table, column in COLUMNS
        if column.source in fields and column.name not in table.key and not column.nullable
    ] == []


@pytest.mark.parametrize(
    "table", [*BOOK, *ops.OPS, *RECONCILED, *REFERENCED, *CONTRACTED], ids=lambda table: table.name
)
def test_every_table_describes_its_rows_columns_and_nulls(table: Table) -> None:
    """Sentences explain each table's rows, columns and NULLs, and its key consists of columns."""
    assert table.meaning.startswith("One row")
    assert set(table.key) <= set(table.names)
    assert len(set(table.names)) == len(table.names)
    for column in table.columns:
        assert column.meaning.strip().endswith("."), column.name
        if column.nullable:
            assert "NULL" in column.meaning or table.schema == "ops", column.name
        if column.name in table.key and table.schema == "main":
            assert not column.nullable, column.name


@pytest.mark.parametrize("table", HOLDINGS, ids=lambda table: table.name)
def test_a_lake_table_has_the_columns_and_meanings_of_its_view(table: Table) -> None:
    """A lake table that is a view of the database has the same columns, meanings and types."""
    [view] = [view for view in materialized_views() if view.name == table.name]
    assert table.meaning == view.comment
    assert {column.name: column.meaning for column in table.columns} == dict(view.entries)
    assert list(table.names) == list(view.entries)
    declared = create_rows_of(view)
    assert all(f'"{column.name}" {column.kind.value}' in declared for column in table.columns)


def test_every_book_table_is_built_from_one_resource() -> None:
    """Each table of the book is made from exactly one of the landed resources."""
    made = [table.name for table in (*PORTFOLIO_TABLES, *VENUE_TABLES)]
    assert sorted(made) == sorted(table.name for table in BOOK)


def test_only_existing_fields_without_a_column_are_excused() -> None:
    """A field with a column is no longer excused, and each excused field exists."""
    known = {field.source for field in FIELDS}
    used = {column.source for _, column in COLUMNS}
    assert WITHOUT_COLUMN.keys() <= known
    assert not WITHOUT_COLUMN.keys() & used


def test_every_column_of_the_lake_has_an_id() -> None:
    """Every column has an ID: its position among all columns that its table ever had."""
    without = [
        f"{table.name}.{name}: put it last of its table in warehouse/contract/lake.py"
        for table in LAKE
        for name in table.names
        if name not in field_ids(table.name)
    ]
    assert without == []


def test_a_field_id_is_never_used_for_a_different_column(
    golden: Callable[[str, str], None],
) -> None:
    """A lake column's ID is never used for a different column, even after a golden update."""
    name = "field_ids.txt"
    before = (Path(__file__).parents[1] / "golden" / name).read_text("utf-8").splitlines()
    now = [
        f"{table.name} {number} {column}"
        for table in LAKE
        for column, number in field_ids(table.name).items()
    ]
    assert [line for line in before if line not in now] == []
    golden(name, "\n".join(now) + "\n")


@pytest.mark.parametrize("table", [*BOOK, *HOLDINGS, *ops.NIGHTLY], ids=lambda table: table.name)
def test_a_lake_file_contains_its_snapshot_and_column_ids(table: Table, tmp_path: Path) -> None:
    """Each row names its snapshot, each column has its ID, and the statistics name the night."""
    path = Layout(tmp_path).staged_file(table.name, SNAPSHOT)
    own = {"snapshot_id": SNAPSHOT} if "snapshot_id" in table.names else {}
    write(table, [rows_batch(table, [row(table, DAY, **own)])], path, SNAPSHOT)
    with pq.ParquetFile(path) as file:
        ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in file.schema_arrow}
        written = [file.metadata.row_group(0).column(place) for place in (0, 1)]
        assert ids == {name: field_ids(table.name)[name] for name in lake_table(table).names}
        assert [(column.path_in_schema, column.statistics.min) for column in written] == [
            ("snapshot_date", DAY),
            ("snapshot_id", SNAPSHOT),
        ]
