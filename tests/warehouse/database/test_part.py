"""Tests of a part of a book: its figures, and that nothing of other portfolios is in its files."""

import re
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.support import environments
from tests.support.books import Amount, Night, exact, night, row
from tests.support.priced_books import drop, publish, read_at
from tests.support.shared import some_daily
from tests.warehouse.query.test_connect_older_clients import OLDER, read_whole
from warehouse.contract.model import Kind, quote_identifier
from warehouse.contract.ops import REJECTS
from warehouse.contract.part import KEPT, kept_columns
from warehouse.database.part import build_part
from warehouse.export.export import DATABASE_FORMAT, FORMATS, export
from warehouse.query.book import NotExported
from warehouse.query.facts.night_facts import AmbiguousName, NotInBook
from warehouse.storage.layout import Layout

LAST = "20261120T021500Z"
OPEN = [
    Amount("1234567.000000000000000001", "p1"),
    Amount("7654321.5", "p1", "ETH", account="margin"),
    Amount("2", "p2", venue="v2", state="locked"),
    Amount("123456789012345678901234567890.5", "p2", "X", custom=True),
]
OTHERS = [
    Amount("9182736.5546372819", "veiled-7f3a", account="veiled-acct-1"),
    Amount("5647382.91", "veiled-7f3a", "VEILEDCOIN", account="veiled-acct-1", custom=True),
    Amount("8273645.5", "veiled-7f3a", "ETH", venue="veiled-venue", account="main"),
    Amount("31415926.5", "concealed", account="vault-concealed", state="locked"),
]
NAMES = {"p1": "Fund One", "p2": "Fund Two", "veiled-7f3a": "Nimbus Veiled Fund"}
SECRETS = (
    *("veiled", "Veiled", "VEILED", "Nimbus", "concealed", "Concealed"),
    *("9182736", "5647382", "8273645", "31415926", "4242421", "777.123456", "555.654321"),
)


def named(one: Night, **ops: Any) -> Night:
    """Return a night with the names of the portfolios, and with more rows of `ops`."""
    portfolios = [
        each | {"name": NAMES.get(each["portfolio_id"], "Concealed Trust")}
        for each in one.rows["portfolios"]
    ]
    return replace(one, rows={**one.rows, "portfolios": portfolios}, ops={**one.ops, **ops})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Publish three books and a held night, with prices, labels, limits and a reject."""
    folder = tmp_path_factory.mktemp("home")
    drop(
        folder,
        "veiled-prices.csv",
        "BTC,false,USD,60000.25,2026-11-19,desk",
        "ETH,false,USD,3000,2026-11-20T02:00:00Z,desk",
        "X,true,USD,2,2026-11-01,desk",
        "VEILEDCOIN,true,USD,777.123456,2026-11-19,desk",
        "BTC,false,USD,555.654321,2026-11-18,desk",
    )
    labels = ("portfolio_id,desk", "p1,open", "veiled-7f3a,Veiled Desk")
    drop(folder, "desks/veiled.csv", *labels)
    limit = ("scope,name,measure,minimum,maximum", "portfolio,veiled-7f3a,value,,4242421")
    drop(folder, "thresholds/veiled.csv", *limit)
    reject = row(REJECTS, date(2026, 11, 20), snapshot_id=LAST, request_no=0)
    reject |= {"path": "data[2]", "reason": "a name", "value": '"veiled"'}
    held = Night("20261121T021500Z", night(LAST, OTHERS).rows, state="held", is_book=False)
    nights = [
        named(read_at("20261118T021500Z", [*OTHERS, Amount("4242421", "p1")])),
        named(read_at("20261119T021500Z", [*OPEN[:1], *OTHERS])),
        named(read_at(LAST, [*OPEN, *OTHERS]), rejects=[reject]),
        held,
    ]
    about = {"reason": "Nimbus is missing", "moved": "veiled-7f3a changed", "decided_by": "ada"}
    return publish(folder, nights, max_age=5, currency="USD", about=about)


def write_part(home: Layout, folder: Path, *names: str, as_of: date | None = None) -> list[Path]:
    """Write a part of the book in all formats, and return its files."""
    draft = folder / "draft" / "nightbook.duckdb"
    draft.parent.mkdir(parents=True)
    part = build_part(home.database, draft, names, as_of)
    formats = (DATABASE_FORMAT, *FORMATS)
    out = folder / "out"
    done = export(draft, out, as_of=as_of, formats=formats, program_version="0", part=part)
    return list(done.files)


@pytest.fixture(scope="module")
def files(home: Layout, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write the part with Fund One and Fund Two."""
    return write_part(home, tmp_path_factory.mktemp("part"), "Fund One", "p2")


def database_of(files: Iterable[Path]) -> Path:
    """Return the database among a part's files."""
    return next(file for file in files if file.suffix == ".duckdb")


def ask(file: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with duckdb.connect(str(file), read_only=True) as connection:
        return connection.execute(query).fetchall()


def texts_of(file: Path) -> Iterator[str]:
    """Yield everything that a reader can find in a file: its bytes, and all decoded values."""
    yield file.read_bytes().decode("latin-1")
    if file.suffix == ".xlsx":
        with zipfile.ZipFile(file) as archive:
            yield from (archive.read(name).decode() for name in archive.namelist())
            yield "\n".join(archive.namelist())
    if file.suffix == ".parquet":
        yield str(pq.read_table(file).to_pylist()) + str(pq.read_metadata(file).metadata)
    if file.suffix == ".duckdb":
        with duckdb.connect(str(file), read_only=True) as connection:
            query = "select schema_name, table_name from duckdb_tables()"
            for schema, name in connection.execute(query).fetchall():
                table = f"{schema}.{quote_identifier(name)}"
                yield str(connection.execute(f"from {table}").fetchall())
                storage = f"from pragma_storage_info('{table}')"
                yield str(connection.execute(storage).fetchall())
            for catalog in ("tables", "views", "columns", "functions", "schemas"):
                yield str(connection.execute(f"from duckdb_{catalog}()").fetchall())


def test_nothing_of_other_portfolios_is_in_any_file_of_a_part(
    home: Layout, files: list[Path]
) -> None:
    """The search finds each secret in the whole book, so it would find it in a part."""
    whole = "\n".join(texts_of(home.database))
    assert [secret for secret in SECRETS if secret not in whole] == []
    assert {file.suffix for file in files} == {".duckdb", ".xlsx", ".csv", ".parquet", ".txt"}
    for file in files:
        text = "\n".join(texts_of(file))
        assert [secret for secret in SECRETS if secret in text or secret in file.name] == [], file
        assert "Fund One" in text or file.suffix in {".csv", ".parquet"}


def test_the_totals_of_a_part_are_its_own_exact_sums(files: list[Path]) -> None:
    """Python's decimals add up the same amounts, which other portfolios also hold."""
    rows = ask(database_of(files), "select asset_id, total_text from holdings_by_asset")
    expected = {
        asset: exact(each.text for each in OPEN if each.asset == asset)
        for asset in {each.asset for each in OPEN}
    }
    assert dict(rows) == expected
    [sheet] = [file for file in files if file.name.startswith("assets") and "machines" in file.name]
    lines = sheet.read_text().splitlines()[1:]
    assert all(any(total in line for line in lines) for total in expected.values())


def test_a_part_has_the_prices_states_and_values_of_the_whole_book(
    home: Layout, files: list[Path]
) -> None:
    """BTC has a date, ETH a second, and the price of X is stale."""
    columns = "portfolio_id, asset_id, price_text, price_state, value_text"
    query = f"select {columns} from holdings_value('USD') where portfolio_id like 'p_' order by all"
    rows = ask(home.database, query)
    assert rows == ask(database_of(files), query)
    assert {state for *_, state, _ in rows} == {"priced", "stale"}
    times = "select as_of_date is null, as_of_time is null from reference.prices"
    assert {*ask(database_of(files), times)} == {*ask(home.database, times)}


def test_a_part_says_that_it_is_a_part(files: list[Path]) -> None:
    """The notice is in the database, the workbook and the text next to the CSV files."""
    notice = "2 of 4 portfolios are not in this file, and all totals are totals of this part."
    rows = ask(database_of(files), "select notice from ops.part order by notice_no")
    first, *more = (text for (text,) in rows)
    assert notice in first
    assert "'p1' (Fund One), 'p2' (Fund Two)" in first
    assert more == [
        "Newer nights are held and not included: 20261121T021500Z.",
        "The guards did not accept this night. A person accepted it.",
    ]
    for file in files:
        assert re.search(r"-2026-11-20-part-[0-9a-f]{12}\.", file.name)
        marked = notice in "\n".join(texts_of(file))
        assert marked or file.suffix == ".csv"


def test_a_part_is_read_only_and_has_the_names_of_a_home(files: list[Path], home: Layout) -> None:
    """Each view and macro of the warehouse is in the file, and the key views have rows."""
    database = database_of(files)
    assert database.stat().st_mode & 0o777 == 0o440
    names = "select schema_name, view_name from duckdb_views() where not internal order by all"
    assert ask(database, names) == ask(home.database, names)
    for view in ("holdings", "holdings_by_venue", "account_balances", "locked_funds"):
        assert ask(database, f"select count(*) from {view}") > [(0,)]
    assert ask(database, "select venue_id from venues order by all") == [("v1",), ("v2",)]


@pytest.mark.parametrize("client", some_daily(OLDER, 4))
def test_an_older_client_reads_every_table_of_a_part(files: list[Path], client: str) -> None:
    """A reader of a part may have an older DuckDB."""
    version, read = read_whole(environments.python(client), [database_of(files)])
    assert version == OLDER[client]
    assert read == read_whole(sys.executable, [database_of(files)])[1]


def test_a_part_of_an_older_book_has_its_amounts(home: Layout, tmp_path: Path) -> None:
    """The option --as-of also works for a part."""
    written = write_part(home, tmp_path, "p1", as_of=date(2026, 11, 18))
    assert ask(database_of(written), "select total_text from holdings") == [("4242421",)]
    assert "2026-11-18" in database_of(written).name


def test_a_wrong_name_writes_nothing_and_lists_candidates(home: Layout, tmp_path: Path) -> None:
    """One unknown name among known ones is an error."""
    with pytest.raises(NotInBook, match=r"'p1' \(Fund One\)(?s:.*)Nothing was exported"):
        build_part(home.database, tmp_path / "x.duckdb", ["p1", "Fund"], None)
    twins = read_at(LAST, [Amount("1", "a"), Amount("1", "b")])
    portfolios = [each | {"name": "Twin"} for each in twins.rows["portfolios"]]
    twins = replace(twins, rows={**twins.rows, "portfolios": portfolios})
    other = publish(tmp_path / "twins", [twins])
    with pytest.raises(AmbiguousName, match=r"'a' \(Twin\), 'b' \(Twin\)\. Nothing was exported"):
        build_part(other.database, tmp_path / "x.duckdb", ["Twin"], None)
    assert not (tmp_path / "x.duckdb").exists()


def test_the_whole_book_is_not_written_as_a_database(home: Layout, tmp_path: Path) -> None:
    """The published file is already there."""
    with pytest.raises(NotExported, match="add --portfolio"):
        export(home.database, tmp_path, as_of=None, formats=["duckdb"], program_version="0")
    assert list(tmp_path.iterdir()) == []


def test_a_new_column_of_ops_is_blank_in_a_part_until_it_is_allowed() -> None:
    """A column may describe other portfolios, so only the columns in `KEPT` have values."""
    for table, kept in KEPT.items():
        for column, sql in zip(table.columns, kept_columns(table, {}), strict=True):
            blank = "null" if column.nullable else "''" if column.kind is Kind.TEXT else "0"
            value = column.name if column.name in kept else blank
            assert sql == f"{value} as {column.name}"
