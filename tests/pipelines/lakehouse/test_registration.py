"""Tests of nights as Iceberg tables: no copied files, one commit, readable by several engines."""

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pipelines.lakehouse.errors import Conflict, ForeignTable
from pipelines.lakehouse.night_manifest import NightManifest
from pipelines.lakehouse.shelf_list import newest_manifests, read_night
from tests.support import iceberg_engines as engines
from tests.support.books import exact
from tests.support.nights import STARTED
from tests.support.postgres import Postgres

pytestmark = pytest.mark.lakehouse
LATER = STARTED + timedelta(minutes=5)
# The book of every date. A company stores this query as a view if its catalog supports views.
BOOK = """
    select sum(amount) from {prefix}balances
    join (select snapshot_id, state, row_number() over (
        partition by snapshot_id order by sequence desc) as place from {prefix}nights) night
    on night.snapshot_id = balances.snapshot_id and night.place = 1 and night.state = 'accepted'
"""


@pytest.fixture(scope="session")
def book(iceberg: ModuleType, catalog: Any, thirty: Any) -> str:
    """Return the namespace in which all thirty nights are registered. No test may change it."""
    assert sorted(iceberg.register(catalog, "book", thirty.store)) == sorted(thirty.sums)
    return "book"


def _sum_of(table: Any, snapshot_id: str) -> Any:
    tag = table.refs()[f"night_{snapshot_id}"].snapshot_id
    scan = table.scan(row_filter=f"snapshot_id = '{snapshot_id}'", snapshot_id=tag)
    return pc.sum(scan.to_arrow()["amount"]).as_py()


def _states(iceberg: ModuleType, catalog: Any, namespace: str) -> dict[str, str]:
    last = iceberg.last_rows(iceberg.rows_of(catalog, namespace))
    return {name: row.state for name, row in last.items()}


def _shelved(home: Any, snapshot_id: str) -> NightManifest:
    return read_night(home.store, newest_manifests(home.store)[snapshot_id])


def _paths(table: Any) -> set[str]:
    return {task.file.file_path for task in table.scan().plan_files()}


def test_pyiceberg_reads_each_night_by_its_tag(catalog: Any, book: str, thirty: Any) -> None:
    """Pyiceberg reads each night by its tag, with the exact sum."""
    table = catalog.load_table((book, "balances"))
    assert {name: _sum_of(table, name) for name in thirty.sums} == thirty.sums


def test_registering_a_night_twice_changes_nothing(
    iceberg: ModuleType, catalog: Any, book: str, thirty: Any
) -> None:
    """A night that is already registered does not change, so an interrupted run can be repeated."""
    before = catalog.load_table((book, "nights")).metadata_location
    assert iceberg.register(catalog, book, thirty.store) == ()
    assert catalog.load_table((book, "nights")).metadata_location == before


def test_only_the_newest_snapshot_of_a_date_is_the_book(
    iceberg: ModuleType, catalog: Any, book: str, thirty: Any
) -> None:
    """If a date has two nights, the newer one is the book, and the gate keeps the older one."""
    states = _states(iceberg, catalog, book)
    older, newer = sorted(thirty.sums)[-2:]
    assert older[:8] == newer[:8]
    assert states.pop(older) == "superseded"
    assert set(states.values()) == {"accepted"}


def test_files_are_registered_without_a_copy(
    iceberg: ModuleType, catalog: Any, book: str, thirty: Any
) -> None:
    """No byte is copied, because the tables refer to the shelf's own files."""
    files = [iceberg.files_of(thirty.store, _shelved(thirty, name)) for name in thirty.sums]
    for name in ("balances", "portfolios", "control_totals"):
        registered = _paths(catalog.load_table((book, name)))
        assert registered == {paths[name] for paths in files}
    assert all(engines.path_of(path).is_file() for path in registered)


def test_columns_have_the_ids_and_comments_of_the_contract(catalog: Any, book: str) -> None:
    """Columns have the contract's IDs and comments, so readers see the meaning of each column."""
    field = catalog.load_table((book, "balances")).schema().find_field("amount_text")
    assert (field.field_id, bool(field.doc)) == (12, True)


def test_a_rejection_only_adds_rows_to_the_gate(
    iceberg: ModuleType, catalog: Any, home: Any
) -> None:
    """A rejection only adds rows to the gate, and the date's earlier night becomes the book."""
    first, second = home.take("1"), home.take("2", LATER)
    iceberg.register(catalog, "rejecting", home.store)
    assert _states(iceberg, catalog, "rejecting") == {first: "superseded", second: "accepted"}
    home.decide(second, "rejected")
    assert iceberg.register(catalog, "rejecting", home.store) == (first, second)
    assert _states(iceberg, catalog, "rejecting") == {first: "accepted", second: "rejected"}
    assert len(iceberg.rows_of(catalog, "rejecting")) == 4
    assert catalog.load_table(("rejecting", "balances")).scan().count() == 2


def test_files_of_a_rejected_night_are_registered_once_accepted(
    iceberg: ModuleType, catalog: Any, home: Any
) -> None:
    """A rejected night is only in the gate. Its files are registered when it is accepted."""
    night = home.take("1.5")
    home.decide(night, "rejected")
    iceberg.register(catalog, "waiting", home.store)
    name = ("waiting", "balances")
    assert catalog.load_table(name).scan().count() == 0
    assert _states(iceberg, catalog, "waiting") == {night: "rejected"}
    home.decide(night, "accepted")
    iceberg.register(catalog, "waiting", home.store)
    assert _sum_of(catalog.load_table(name), night) == Decimal("1.5")


def test_a_rebuilt_night_has_only_its_new_files(
    iceberg: ModuleType, catalog: Any, home: Any
) -> None:
    """After a night was rebuilt, only its new files are registered, so no row exists twice."""
    night = home.take("1.5")
    iceberg.register(catalog, "again", home.store)
    shelved = _shelved(home, night)
    files = []
    for file in shelved.files:
        content = home.store.get(file.key).content
        again = msgspec.structs.replace(file, key=f"{file.key}-again")
        home.store.put_new(again.key, content)
        files.append(again)
    other = msgspec.structs.replace(shelved, generation=2, files=tuple(files))
    home.store.put_new(other.key, other.encode())
    iceberg.register(catalog, "again", home.store)
    table = catalog.load_table(("again", "balances"))
    assert _paths(table) == {iceberg.files_of(home.store, other)["balances"]}
    assert _sum_of(table, night) == Decimal("1.5")


def test_a_conflicting_commit_changes_no_table(
    iceberg: ModuleType, each_catalog: Any, home: Any
) -> None:
    """If a second writer has changed one table, the commit changes no table at all."""
    from pipelines.lakehouse import iceberg_catalog as catalogs  # noqa: PLC0415 - see `iceberg`

    home.take("1")
    iceberg.register(each_catalog, "conflict", home.store)
    night = home.take("2", LATER)
    files = {night: iceberg.files_of(home.store, _shelved(home, night))}
    names = [("conflict", name) for name in ("accounts", "balances", "portfolios")]
    changes = [iceberg.table_transaction(each_catalog, name, files) for name in names]
    iceberg.table_transaction(each_catalog, names[1], files).commit_transaction()
    before = [each_catalog.load_table(name).metadata_location for name in names]
    with pytest.raises(Conflict, match=r"conflict.balances.*Nothing was committed"):
        catalogs.commit_together(each_catalog, changes)
    assert [each_catalog.load_table(name).metadata_location for name in names] == before


def test_no_table_refers_to_the_files_of_a_pruned_night(
    iceberg: ModuleType, each_catalog: Any, home: Any
) -> None:
    """No table refers to the files of a pruned night, and all other tags still work.

    Only after that may the files be deleted.
    """
    from pipelines.lakehouse.registration import expire  # noqa: PLC0415 - see `iceberg`

    going, *staying = [home.take(str(day), STARTED + timedelta(days=day)) for day in range(4)]
    iceberg.register(each_catalog, "pruning", home.store)
    assert expire(each_catalog, "pruning", [going]) == [going]
    assert expire(each_catalog, "pruning", [going]) == []
    table = each_catalog.load_table(("pruning", "balances"))
    assert [_sum_of(table, name) for name in staying] == [home.sums[name] for name in staying]
    assert f"night_{going}" not in table.refs()
    paths = table.inspect.all_files()["file_path"].to_pylist()
    assert len(paths) == len(staying)
    assert not [path for path in paths if going in path]


def test_a_table_of_a_different_program_is_refused(
    iceberg: ModuleType, catalog: Any, home: Any
) -> None:
    """A namespace that contains a table of a different program is not changed."""
    catalog.create_namespace("foreign")
    catalog.create_table(("foreign", "portfolios"), pa.schema([("name", pa.int64())]))
    with pytest.raises(ForeignTable, match=r"foreign.portfolios.*Nothing was registered"):
        iceberg.register(catalog, "foreign", home.store)


def _tags(table: Any, home: Any) -> dict[str, int]:
    return {name: table.refs()[f"night_{name}"].snapshot_id for name in home.sums}


def _book_sum(home: Any) -> Decimal:
    superseded = sorted(home.sums)[-2]
    return Decimal(exact(str(sum_) for name, sum_ in home.sums.items() if name != superseded))


def test_duckdb_reads_each_night_and_the_book_with_exact_sums(
    catalog: Any, book: str, thirty: Any
) -> None:
    """DuckDB reads each night and the book from the tables' metadata, without the catalog."""
    tables = {name: catalog.load_table((book, name)) for name in ("balances", "nights")}
    locations = {name: table.metadata_location for name, table in tables.items()}
    queries = {
        night: "select sum(amount) from iceberg_scan("
        f"'{locations['balances']}', snapshot_from_id => {number}) where snapshot_id = '{night}'"
        for night, number in _tags(tables["balances"], thirty).items()
    }
    answers = engines.duckdb(locations, {**queries, "book": BOOK.format(prefix="")})
    sums = {name: Decimal(rows[0][0]) for name, rows in answers.items()}
    assert sums == {**thirty.sums, "book": _book_sum(thirty)}


def test_polars_reads_each_night_with_its_exact_sum(catalog: Any, book: str, thirty: Any) -> None:
    """Polars reads each night by its tag, too."""
    table = catalog.load_table((book, "balances"))
    sums = engines.polars(table.metadata_location, _tags(table, thirty))
    assert {name: Decimal(text) for name, text in sums.items()} == thirty.sums


def test_spark_reads_each_night_by_its_tag_and_deletes_no_file(  # noqa: PLR0917 - fixtures
    iceberg: ModuleType, catalog: Any, book: str, thirty: Any, server: Postgres, tmp_path: Path
) -> None:
    """Spark reads each night through the PostgreSQL catalog, but may not expire snapshots."""
    prefix = f"nightbook.{book}."
    queries = {
        night: f"select sum(amount) from {prefix}balances version as of 'night_{night}' "
        f"where snapshot_id = '{night}'"
        for night in thirty.sums
    }
    expire = (
        f"call nightbook.system.expire_snapshots(table => '{book}.balances', "
        "older_than => timestamp '2100-01-01 00:00:00', retain_last => 1)"
    )
    queries |= {"book": BOOK.format(prefix=prefix), "expire": expire}
    answers = engines.spark(server, catalog.properties["warehouse"], tmp_path, queries)
    assert "GC is disabled" in answers.pop("expire")[0][0]
    sums = {name: Decimal(rows[0][0]) for name, rows in answers.items()}
    assert sums == {**thirty.sums, "book": _book_sum(thirty)}
    shelved = (iceberg.files_of(thirty.store, _shelved(thirty, name)) for name in thirty.sums)
    assert all(engines.path_of(path).is_file() for paths in shelved for path in paths.values())
