"""Tests of old workbooks: their import, and the comparison of the last one with the first night."""

import hashlib
import json
import re
import shutil
import sys
import zipfile
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.support import environments
from tests.support.books import Amount, exact
from tests.support.priced_books import NOW, ask, publish, read_at
from tests.warehouse.query.test_connect_older_clients import OLDER, asked
from warehouse.reconcile.old_book import OldBook, read_old_book
from warehouse.reconcile.terms import Ambiguous, NotReconciled
from warehouse.reference.child import ReadRequest
from warehouse.reference.inbox import (
    Acceptance,
    NotImported,
    damaged_files,
    receive_book,
    received_files,
)
from warehouse.storage.layout import Layout, write_bytes

LONG = "123456789012345678901234567890.123456789012345678901234567891"
# The asset BTC of the organisation shares its ticker with the listed asset.
AMOUNTS = (
    Amount("2"),
    Amount("0.5", bucket="custody"),
    Amount(LONG, "p2", "ETH", "v2", "cold"),
    Amount("7", account="own", custom=True),
)
NIGHTS = [read_at("20261120T021500Z", AMOUNTS), read_at("20261121T021500Z", [Amount("3")])]
HEAD = ("portfolio", "asset", "venue", "account", "amount")
EQUAL = (
    ("Portfolio p1", "BTC", "v1", "main", "2.5"),
    ("p2", "ETH", "Venue v2", "cold", LONG),
    ("p1", "BTC (custom)", "v1", "own", "7"),
)
MONTHS = [date(2025, month, 28) for month in (11, 12)] + [
    date(2026, month, 28) for month in range(1, 11)
]
SHOWN = "from history.positions_with_imported where origin <> 'api'"
ODS = (
    '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'office:version="1.3"><office:body>'
    '<office:spreadsheet><table:table table:name="Book">{}</table:table></office:spreadsheet>'
    "</office:body></office:document-content>"
)


def write(path: Path, positions: Iterable[tuple[str, ...]]) -> Path:
    """Write a workbook, whose format is the ending of its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [HEAD, *positions]
    if path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        for line in lines:
            book.worksheets[0].append(list(line))
        book.save(path)
    elif path.suffix == ".ods":
        cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
        cells = ("".join(map(cell.format, line)) for line in lines)
        rows = "".join(map("<table:table-row>{}</table:table-row>".format, cells))
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
            file.writestr("content.xml", ODS.format(rows))
    else:
        path.write_text("".join(";".join(line) + "\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def two_nights(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Return the layout of a home with two nights, which tests only read."""
    return publish(tmp_path_factory.mktemp("old"), NIGHTS, "start")


@pytest.fixture
def layout(two_nights: Layout, tmp_path: Path) -> Layout:
    """Return the layout of a copy of this home."""
    return copied(two_nights, tmp_path)


def copied(layout: Layout, folder: Path) -> Layout:
    """Return the layout of a copy of a home."""
    return Layout(Path(shutil.copytree(layout.home, folder / "home", symlinks=True)))


def read(layout: Layout, file: Path, day: date) -> OldBook:
    """Read a workbook with the settings of the home."""
    return read_old_book(layout.database, layout.home / "reconcile", file, day)


def keep(layout: Layout, file: Path, day: date, why: str = "") -> bool:
    """Import a workbook, or accept its differences. Return whether the archive changed."""
    book = read(layout, file, day)
    sha256 = hashlib.sha256(book.content).hexdigest()
    request = ReadRequest(f"positions/{day}", file.name, NOW, sha256, book.content)
    acceptance = Acceptance("ada", NOW, why, book.first_night) if why else None
    return receive_book(layout.home / "reference", NOW, request, book.file_rows, acceptance)


def shown(layout: Layout, version: str, query: str = f"select count(*) {SHOWN}") -> list[Any]:
    """Publish the home, and return the rows of a query."""
    publish(layout.home, NIGHTS, version)
    return ask(layout, query)


def states(layout: Layout) -> list[tuple[Any, ...]]:
    """Return the states of the imports."""
    return ask(layout, "select as_of_date::text, state from history.imports order by received_at")


@pytest.fixture(scope="module")
def twelve(two_nights: Layout, tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Return a published home with twelve old month ends, which tests only read.

    The last of them equals the first night.
    """
    folder = tmp_path_factory.mktemp("twelve")
    layout = copied(two_nights, folder)
    for number, day in enumerate(MONTHS):
        rows = [(*row[:4], f"{number}{row[4]}" if day != MONTHS[-1] else row[4]) for row in EQUAL]
        ending = (".xlsx", ".ods", ".csv")[number % 3]
        assert keep(layout, write(folder / f"book-{day}{ending}", rows), day)
    return publish(layout.home, NIGHTS, "a")


def test_twelve_workbooks_are_shown_with_their_origin_next_to_the_nights(twelve: Layout) -> None:
    """All amounts are exact, and each row has the file and line that it came from."""
    rows = ask(twelve, f"select snapshot_date, amount_text, origin, line {SHOWN}")
    assert len(rows) == 36
    for number, day in enumerate(MONTHS):
        found = {row[1] for row in rows if row[0] == day}
        prefix = "" if day == MONTHS[-1] else str(number)
        assert found == {exact([f"{prefix}{row[4]}"]) for row in EQUAL}
    assert {row[3] for row in rows} == {2, 3, 4}
    nights = "select amount_text, sha256 from history.positions_with_imported where origin = 'api'"
    assert sorted(ask(twelve, nights)) == sorted((t, None) for t in ("2.5", LONG, "7", "3"))
    keys = (
        f"select distinct portfolio_id, asset_id, venue_id, account_name, is_custom_asset {SHOWN}"
    )
    assert sorted(ask(twelve, keys)) == [
        ("p1", "BTC", "v1", "main", False),
        ("p1", "BTC", "v1", "own", True),
        ("p2", "ETH", "v2", "cold", False),
    ]


def test_old_books_are_not_in_the_totals(twelve: Layout, two_nights: Layout) -> None:
    """The tables, totals and control totals of the nights are the same with and without imports."""
    queries = [
        f"select * from {name} order by all"
        for name in ("history.holdings", "history.balances", "ops.control_totals", "findings")
    ]
    before = [ask(two_nights, query) for query in queries]
    assert [ask(twelve, query) for query in queries] == before
    assert not list(twelve.home.glob("lake/**/*positions_with*"))


def test_a_difference_from_the_first_night_hides_all_imports(
    twelve: Layout, tmp_path: Path
) -> None:
    """A later day with a difference hides all old books, and lists it. A correction shows them."""
    assert ask(twelve, f"select count(*) {SHOWN}") == [(36,)]
    home = copied(twelve, tmp_path)
    wrong = [(*EQUAL[0][:4], "2"), *EQUAL[1:], ("Old fund", "DOGE (custom)", "Gone", "x", "5")]
    day = date(2026, 10, 31)
    keep(home, write(tmp_path / "late.csv", wrong), day)
    assert shown(home, "b") == [(0,)]
    columns = "portfolio_id, asset_id, is_custom_asset, imported_text, first_night_text"
    found = f"select {columns}, difference_text from history.import_differences order by all"
    assert ask(home, found) == [
        ("Old fund", "DOGE", True, "5", None, "-5"),
        ("p1", "BTC", False, "2", "2.5", "0.5"),
    ]
    assert {state for _, state in states(home)} == {"hidden"}
    keep(home, write(tmp_path / "corrected.csv", EQUAL), day)
    assert shown(home, "c") == [(39,)]
    assert states(home)[-2:] == [(str(day), "replaced"), (str(day), "shown")]


def test_differences_are_accepted_by_name_with_a_reason(layout: Layout, tmp_path: Path) -> None:
    """Only an imported book can be accepted. A later book needs its own acceptance."""
    file, day = write(tmp_path / "a.csv", EQUAL[:2]), date(2026, 10, 31)
    with pytest.raises(NotImported, match="Import it without --accept first"):
        keep(layout, file, day, "moved in November")
    assert not received_files(layout.home / "reference")
    keep(layout, file, day)
    assert shown(layout, "a") == [(0,)]
    assert keep(layout, file, day, "moved in November")
    assert shown(layout, "b") == [(2,)]
    query = "select accepted_by, accepted_at is not null, accepted_reason from history.imports"
    assert ask(layout, query) == [("ada", True, "moved in November")]
    keep(layout, write(tmp_path / "b.csv", EQUAL[1:]), date(2026, 11, 1))
    assert shown(layout, "c") == [(0,)]


def test_the_same_file_changes_nothing_and_an_earlier_file_can_return(
    layout: Layout, tmp_path: Path
) -> None:
    """A file is archived once. To return to a replaced file, import it a second time."""
    first, second = write(tmp_path / "a.csv", EQUAL), write(tmp_path / "b.csv", EQUAL[:1])
    day, index = date(2026, 10, 31), layout.home / "reference" / "kept" / "files.json"
    keep(layout, first, day)
    before = index.read_bytes()
    assert not keep(layout, first, day)
    assert index.read_bytes() == before
    keep(layout, second, day)
    assert shown(layout, "a") == [(0,)]
    assert keep(layout, first, day)
    assert shown(layout, "b") == [(3,)]
    assert ask(layout, "select count(*) from reference.positions") == [(4,)]
    assert [path for path, _ in damaged_files(layout.home / "reference")] == []


def test_one_workbook_has_the_books_of_several_days(layout: Layout, tmp_path: Path) -> None:
    """The rows of the day are imported. A day that the file does not state is a question."""
    lines = ["date;portfolio;asset;venue;account;amount"]
    days = [date(2026, 9, 30), date(2026, 10, 31)]
    lines += [";".join((str(day), *row)) for day in days for row in EQUAL]
    file = tmp_path / "all.csv"
    file.write_text("\n".join(lines) + "\n")
    for day in days:
        assert keep(layout, file, day)
    assert shown(layout, "a", f"select distinct snapshot_date {SHOWN} order by all") == [
        (day,) for day in days
    ]
    (layout.warehouse / "current").unlink()
    assert shown(layout, "b") == [(6,)]
    with pytest.raises(Ambiguous, match=r"\[late.2026-08-31\]"):
        read(layout, file, date(2026, 8, 31))


def test_a_workbook_without_accounts_is_compared_without_accounts(
    layout: Layout, tmp_path: Path
) -> None:
    """The comparison leaves out the columns that the old book does not have."""
    file = tmp_path / "a.csv"
    rows = [f"{row[0]};{row[1]};{row[2]};{row[4]}" for row in EQUAL]
    file.write_text("\n".join(("portfolio;asset;venue;amount", *rows)))
    keep(layout, file, date(2026, 10, 31))
    assert shown(layout, "a", f"select distinct account_name {SHOWN}") == [(None,)]


def test_a_question_prints_its_lines_and_imports_nothing(layout: Layout, tmp_path: Path) -> None:
    """Questions are the same as for a ledger. Their answers are in recon.toml."""
    file = tmp_path / "a.csv"
    file.write_text("portfolio;asset;venue;account;amount;margin\np1;BTC;v1;main;2;3\n")
    book = read(layout, file, date(2026, 10, 31))
    assert book.preview.question
    assert book.preview.answer in "\n".join(line.strip() for line in book.preview.lines)
    assert not book.rows


def test_an_ambiguous_name_is_a_question(tmp_path: Path) -> None:
    """A name of two accounts is not guessed, because its text could be the ID of one of them."""
    night = read_at("20261120T021500Z", [Amount("1", account="Main"), Amount("1", account="MAIN")])
    layout = publish(tmp_path / "home", [night])
    file = write(tmp_path / "a.csv", [("p1", "BTC", "v1", "main", "2")])
    with pytest.raises(Ambiguous, match=re.escape('[alias.account]\nmain = "..."')):
        read(layout, file, date(2026, 10, 31))


def test_rows_that_cannot_be_read_are_rejects_and_hide_the_book(
    layout: Layout, tmp_path: Path
) -> None:
    """A rejected row may be money, so the book is hidden although all other rows are equal."""
    file = write(tmp_path / "a.csv", [*EQUAL, ("p1", "SOL", "v1", "main", "n/a?")])
    keep(layout, file, date(2026, 10, 31))
    query = "select table_name, line, code, value from ops.reference_rejects"
    [(table, line, code, value)] = shown(layout, "a", query)
    assert (table, line, code) == ("positions/2026-10-31", 5, "unreadable_row")
    assert "n/a?" in value
    assert ask(layout, "select state, differences from history.imports") == [("hidden", 0)]


@pytest.mark.parametrize(
    ("content", "name", "problem"),
    [
        (b"PK\x03\x04damaged", "a.xlsx", "a.xlsx"),
        (b"", "a.csv", "empty"),
        (b"\x00" * 5000, "a.csv", "a.csv"),
        (b"portfolio;asset;venue;account;amount\n", "a.csv", "a.csv"),
        (b"a" * 300_000, "a.csv", "does not contain a table"),
    ],
)
def test_a_hostile_file_is_refused(
    content: bytes, name: str, problem: str, layout: Layout, tmp_path: Path
) -> None:
    """A damaged, empty or endless file is refused with a message, and nothing is stored."""
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises((NotReconciled, Ambiguous), match=problem):
        assert read(layout, file, date(2026, 10, 31)).preview.question == ""
    assert not (layout.home / "reference").exists()


def test_a_day_that_is_not_before_the_first_night_is_refused(
    layout: Layout, tmp_path: Path
) -> None:
    """Nights come from the API, so an old book cannot replace one."""
    with pytest.raises(NotReconciled, match="not before the first night, which is 2026-11-20"):
        read(layout, write(tmp_path / "a.csv", EQUAL), date(2026, 11, 20))


@pytest.mark.parametrize("writes", range(4))
def test_a_killed_import_can_be_repeated(
    writes: int, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill between any two writes, the list is readable and the import works again."""
    file, day, write_file = write(tmp_path / "a.csv", EQUAL), date(2026, 10, 31), write_bytes
    done: list[object] = []

    def stop(path: Path, content: bytes) -> None:
        if len(done) == writes:
            raise KeyboardInterrupt
        done.append(path)
        write_file(path, content)

    monkeypatch.setattr("warehouse.reference.inbox.write_bytes", stop)
    with pytest.raises(KeyboardInterrupt):
        keep(layout, file, day)
    monkeypatch.undo()
    assert shown(layout, "a") == [(0,)]
    assert keep(layout, file, day)
    assert shown(layout, "b") == [(3,)]


def test_old_books_are_not_dropped_into_a_folder(layout: Layout, tmp_path: Path) -> None:
    """A file in reference/positions/ is not read, and the message names the command."""
    write(layout.home / "reference" / "positions" / "a.csv", EQUAL)
    [(code, reason)] = shown(layout, "a", "select code, reason from ops.reference_rejects")
    assert code == "not_dropped"
    assert "nightbook reference import FILE --as-of DAY" in reason


def test_an_older_client_returns_the_same_rows(twelve: Layout) -> None:
    """DuckDB 1.2 returns the same rows of all views about old books."""
    names = ("positions_with_imported", "imports", "import_differences")
    queries = [(name, f"select * from history.{name} order by all") for name in names]
    now = asked(sys.executable, twelve.database, queries)[1]
    version, said = asked(environments.python("duckdb12"), twelve.database, queries)
    assert version == OLDER["duckdb12"]
    assert "Error" not in json.dumps(now)
    assert said == now
