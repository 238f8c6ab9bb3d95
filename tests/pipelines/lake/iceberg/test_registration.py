"""Nights become Iceberg tables: the same files, all tables at once, read alike by every engine."""

import contextlib
import urllib.parse
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.compute as pc
import pytest

from tests.support import iceberg_engines as engines
from tests.support.books import exact
from tests.support.postgres import Postgres

pytestmark = pytest.mark.lakehouse


@pytest.fixture(scope="session")
def catalog(
    iceberg: ModuleType, server: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A catalog in PostgreSQL."""
    from pipelines.lake.iceberg.catalog import open_catalog  # noqa: PLC0415 - see `iceberg`

    password = urllib.parse.quote(server.password)
    uri = f"postgresql+psycopg://dagster:{password}@127.0.0.1:{server.port}/dagster"
    with contextlib.closing(
        open_catalog(uri, tmp_path_factory.mktemp("tables").as_uri())
    ) as opened:
        yield opened


@pytest.fixture(scope="session")
def book(iceberg: ModuleType, catalog: Any, shelf: Any) -> str:
    """The namespace in which all thirty are registered, none of which a test changes."""
    known = iceberg.register(catalog, "book", shelf.nights)
    assert sorted(known) == sorted(shelf.sums)
    return "book"


def _sum_of(table: Any, snapshot_id: str) -> Any:
    tag = table.refs()[f"night_{snapshot_id}"].snapshot_id
    scan = table.scan(row_filter=f"snapshot_id = '{snapshot_id}'", snapshot_id=tag)
    return pc.sum(scan.to_arrow()["amount"]).as_py()


def test_each_of_thirty_nights_is_read_by_its_tag_with_its_exact_sum(
    catalog: Any, book: str, shelf: Any
) -> None:
    """Pyiceberg goes back to every night."""
    table = catalog.load_table((book, "balances"))
    sums = {night.snapshot_id: _sum_of(table, night.snapshot_id) for night in shelf.nights}
    superseded = shelf.nights[-2].snapshot_id
    assert sums == shelf.sums
    assert superseded[:8] == shelf.nights[-1].snapshot_id[:8]


def test_registering_again_changes_nothing(
    iceberg: ModuleType, catalog: Any, book: str, shelf: Any
) -> None:
    """A night that is known is left alone, so that a stopped run can be run again."""
    before = catalog.load_table((book, "nights")).metadata_location
    assert iceberg.register(catalog, book, shelf.nights) == []
    assert catalog.load_table((book, "nights")).metadata_location == before


def test_only_the_newest_snapshot_of_a_date_is_the_book(
    iceberg: ModuleType, catalog: Any, book: str, shelf: Any
) -> None:
    """The gate says of a date taken twice which is the book, and keeps the other."""
    states = {
        name: row.state for name, row in iceberg.last_rows(iceberg.rows_of(catalog, book)).items()
    }
    assert states.pop(shelf.nights[-2].snapshot_id) == "superseded"
    assert set(states.values()) == {"accepted"}


def test_files_are_registered_as_they_lie(catalog: Any, book: str, shelf: Any) -> None:
    """No byte is written again: the table points at the shelf's own files."""
    for name in ("balances", "portfolios", "control_totals"):
        files = {
            task.file.file_path for task in catalog.load_table((book, name)).scan().plan_files()
        }
        assert files == {uri for night in shelf.nights for uri in night.files[name]}


def test_column_comments_and_ids_are_those_of_the_contract(catalog: Any, book: str) -> None:
    """A reader of the table sees what each column means."""
    field = catalog.load_table((book, "balances")).schema().find_field("amount_text")
    assert (field.field_id, bool(field.doc)) == (12, True)


def test_a_rejected_night_leaves_the_book_and_no_row_goes(
    iceberg: ModuleType, catalog: Any, shelf: Any
) -> None:
    """Rejecting is a row of the gate; the night before of the same date is the book again."""
    first, second = shelf.nights[-2:]
    iceberg.register(catalog, "rejecting", [first, second])
    iceberg.register(catalog, "rejecting", [first, replace(second, state="rejected")])
    rows = iceberg.rows_of(catalog, "rejecting")
    assert [(row.snapshot_id, row.state) for row in sorted(rows, key=lambda row: row.sequence)] == [
        (first.snapshot_id, "superseded"),
        (second.snapshot_id, "accepted"),
        (first.snapshot_id, "accepted"),
        (second.snapshot_id, "rejected"),
    ]
    assert catalog.load_table(("rejecting", "balances")).scan().count() == 2


def test_a_held_night_is_told_and_its_files_come_when_it_is_accepted(
    iceberg: ModuleType, catalog: Any, shelf: Any
) -> None:
    """What nobody accepted is in no table but the gate."""
    night = shelf.nights[0]
    iceberg.register(catalog, "holding", [replace(night, state="held")])
    table = ("holding", "balances")
    assert catalog.load_table(table).scan().count() == 0
    iceberg.register(catalog, "holding", [night])
    assert _sum_of(catalog.load_table(table), night.snapshot_id) == shelf.sums[night.snapshot_id]


def test_a_night_made_again_has_its_new_files_only(
    iceberg: ModuleType, catalog: Any, shelf: Any, tmp_path: Path
) -> None:
    """No row is there twice after the lake was made again by other rules."""
    night = shelf.nights[0]
    iceberg.register(catalog, "again", [night])
    copies = {}
    for name, [uri] in night.files.items():
        copy = tmp_path / f"{name}-2.parquet"
        copy.write_bytes(Path(uri.removeprefix("file://")).read_bytes())
        copies[name] = [copy.as_uri()]
    iceberg.register(catalog, "again", [replace(night, manifest_sha256="0" * 64, files=copies)])
    table = catalog.load_table(("again", "balances"))
    assert [task.file.file_path for task in table.scan().plan_files()] == copies["balances"]
    assert _sum_of(table, night.snapshot_id) == shelf.sums[night.snapshot_id]


def test_a_conflicting_commit_is_refused_whole(
    iceberg: ModuleType, catalog: Any, shelf: Any
) -> None:
    """Where another writer changed one table, none of the night's tables changes."""
    from pipelines.lake.iceberg import catalog as catalogs  # noqa: PLC0415 - see `iceberg`

    night, other = shelf.nights[:2]
    iceberg.register(catalog, "conflict", [night])
    names = [("conflict", name) for name in ("accounts", "balances", "portfolios")]
    changes = [iceberg.table_transaction(catalog, name, [other]) for name in names]
    catalog.load_table(names[1]).transaction().set_properties(other="writer").commit_transaction()
    before = [catalog.load_table(name).metadata_location for name in names]
    with pytest.raises(catalogs.Conflict, match=r"conflict.balances.*nothing of it was committed"):
        catalogs.commit_together(catalog, changes)
    assert [catalog.load_table(name).metadata_location for name in names] == before


def test_a_pruned_night_is_pointed_at_by_nothing_and_the_others_stay(
    iceberg: ModuleType, catalog: Any, shelf: Any
) -> None:
    """Only then may its files go; every other tag still gives its night."""
    from pipelines.lake.iceberg.expiry import expire  # noqa: PLC0415 - see `iceberg`

    nights = shelf.nights[:4]
    going, *staying = (night.snapshot_id for night in nights)
    iceberg.register(catalog, "pruning", nights)
    assert expire(catalog, "pruning", [going]) == [going]
    assert expire(catalog, "pruning", [going]) == []
    table = catalog.load_table(("pruning", "balances"))
    assert {name: _sum_of(table, name) for name in staying} == {
        name: shelf.sums[name] for name in staying
    }
    assert f"night_{going}" not in table.refs()
    paths = table.inspect.all_files()["file_path"].to_pylist()
    assert not [path for path in paths if going in path]
    assert Path(nights[0].files["balances"][0].removeprefix("file://")).is_file()


def test_a_table_of_another_program_is_refused(iceberg: ModuleType, catalog: Any) -> None:
    """A namespace that holds something else is not written into."""
    import pyarrow as pa  # noqa: PLC0415 - only here

    from pipelines.lake.iceberg.tables import ForeignTable  # noqa: PLC0415 - see `iceberg`

    catalog.create_namespace("foreign")
    catalog.create_table(("foreign", "portfolios"), pa.schema([("name", pa.int64())]))
    with pytest.raises(ForeignTable, match=r"foreign.portfolios.*Nothing was registered"):
        iceberg.register(catalog, "foreign", [])


# The book of every date: what a firm keeps as a view where its catalog has views.
BOOK = """
    select {columns} from {prefix}balances
    join (select snapshot_id, state, row_number() over (
        partition by snapshot_id order by sequence desc) as place from {prefix}nights) night
    on night.snapshot_id = balances.snapshot_id and night.place = 1 and night.state = 'accepted'
"""


def _tags(table: Any, shelf: Any) -> dict[str, int]:
    return {
        night.snapshot_id: table.refs()[f"night_{night.snapshot_id}"].snapshot_id
        for night in shelf.nights
    }


def _book_sum(shelf: Any) -> Decimal:
    superseded = shelf.nights[-2].snapshot_id
    return Decimal(exact(str(sums) for name, sums in shelf.sums.items() if name != superseded))


def test_duckdb_reads_each_night_and_the_book_with_exact_sums(
    catalog: Any, book: str, shelf: Any
) -> None:
    """DuckDB reads the table's metadata, without the catalog."""
    tables = {name: catalog.load_table((book, name)) for name in ("balances", "nights")}
    locations = {name: table.metadata_location for name, table in tables.items()}
    queries = {
        night: "select sum(amount) from iceberg_scan("
        f"'{locations['balances']}', snapshot_from_id => {number}) where snapshot_id = '{night}'"
        for night, number in _tags(tables["balances"], shelf).items()
    }
    queries["book"] = BOOK.format(columns="sum(amount)", prefix="")
    answers = {
        name: Decimal(rows[0][0]) for name, rows in engines.duckdb(locations, queries).items()
    }
    assert answers == {**shelf.sums, "book": _book_sum(shelf)}


def test_polars_reads_each_night_with_its_exact_sum(catalog: Any, book: str, shelf: Any) -> None:
    """Polars goes back to every night, too."""
    table = catalog.load_table((book, "balances"))
    sums = engines.polars(table.metadata_location, _tags(table, shelf))
    assert {name: Decimal(text) for name, text in sums.items()} == shelf.sums


def test_spark_reads_each_night_by_its_tag_and_deletes_no_file(
    catalog: Any, book: str, shelf: Any, server: Postgres, tmp_path: Path
) -> None:
    """Spark reads what pyiceberg wrote into PostgreSQL; to expire snapshots is refused to it."""
    prefix = f"nightbook.{book}."
    queries = {
        night: f"select sum(amount) from {prefix}balances version as of 'night_{night}' "
        f"where snapshot_id = '{night}'"
        for night in shelf.sums
    }
    queries["book"] = BOOK.format(columns="sum(amount)", prefix=prefix)
    expire = (
        f"call nightbook.system.expire_snapshots(table => '{book}.balances', "
        "older_than => timestamp '2100-01-01 00:00:00', retain_last => 1)"
    )
    answers = engines.spark(
        server, catalog.properties["warehouse"], tmp_path, {**queries, "expire": expire}
    )
    assert "GC is disabled" in answers.pop("expire")[0][0]
    sums = {name: Decimal(rows[0][0]) for name, rows in answers.items()}
    assert sums == {**shelf.sums, "book": _book_sum(shelf)}
    files = [uri for night in shelf.nights for uris in night.files.values() for uri in uris]
    assert all(Path(uri.removeprefix("file://")).is_file() for uri in files)
