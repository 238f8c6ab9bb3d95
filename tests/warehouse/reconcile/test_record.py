"""Tests of the database of the reconciliation, including columns that a newer nightbook adds."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, Desk
from warehouse.reconcile import service
from warehouse.reconcile.close.close import close
from warehouse.reconcile.close.verify import verify_pack
from warehouse.reconcile.record import record, tables

LATER = datetime(2026, 12, 1, 9, tzinfo=UTC)
BOOK = (Amount("1.5"), Amount("2", asset="ETH"))
LEDGER = HEAD + "p1;BTC;v1;main;1\np1;ETH;v1;main;2\n"
VIEW = "select sql from sqlite_master where name ="
ADDED = "accepted text not null,\n  hint text not null default 'none', weight integer default 3,"


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Create a home with a result and a closed month, using the current schema."""
    desk = Desk(tmp_path_factory.mktemp("record") / "home")
    desk.publish(BOOK)
    desk.put(LEDGER, "ledger_2026-11-20.csv")
    desk.run()
    database, root = desk.layout.database, desk.folder.root
    close(database, root, "2026-11", who="ada", now=LATER, program_version="0.0.0")
    return desk


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Simulate a newer nightbook with two more columns for breaks."""
    text = record._SCHEMA.read_text("utf-8")
    schema = tmp_path / "schema.sql"
    schema.write_text(text.replace("accepted text not null,", ADDED, 1), "utf-8")
    assert schema.read_text("utf-8") != text
    monkeypatch.setattr(record, "_SCHEMA", schema)
    record._declarations.cache_clear()
    yield
    record._declarations.cache_clear()


@pytest.fixture
def desk(older: Desk, tmp_path: Path) -> Desk:
    """Return a copy of the home."""
    shutil.copytree(older.home, tmp_path / "home", symlinks=True)
    return Desk(tmp_path / "home", older.versions, older.nights)


def added(desk: Desk) -> list[tuple[str, int]]:
    """Return the values in the new columns of the stored breaks."""
    with closing(sqlite3.connect(desk.folder.database)) as connection:
        return connection.execute("select hint, weight from breaks").fetchall()


@pytest.mark.usefixtures("newer")
def test_a_newer_nightbook_adds_its_columns_to_an_older_home(desk: Desk) -> None:
    """The first command that opens the home adds the columns, and the next run continues."""
    assert len(service.status(desk.folder.root).run.breaks) == 1
    assert added(desk) == [("none", 3)]
    desk.publish(BOOK, "20261202T021500Z")
    desk.put(LEDGER, "ledger_2026-12-02.csv")
    run = desk.run().run
    assert run
    assert [break_.change for break_ in run.breaks] == ["unchanged"]
    assert added(desk) == [("none", 3)] * 2


def test_a_view_that_a_newer_nightbook_changed_is_replaced(desk: Desk) -> None:
    """The first command that opens an older home gives it the views of this version."""
    with closing(sqlite3.connect(desk.folder.database)) as connection:
        [(view,)] = connection.execute(f"{VIEW} 'open_breaks'").fetchall()
        connection.execute("drop view open_breaks")
        connection.execute(view.replace("'Accepted by rule'", "''"))
    assert desk.folder.select(f"{VIEW} 'open_breaks'") == [{"sql": view}]


@pytest.mark.usefixtures("newer")
def test_a_reader_without_write_permission_sees_the_columns(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader without write permission gets the new columns in a copy in memory.

    The file does not change.
    """
    before = desk.folder.database.read_bytes()
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and allowed(path, mode))
    assert desk.folder.select("select hint, weight from breaks") == [{"hint": "none", "weight": 3}]
    assert desk.folder.database.read_bytes() == before


@pytest.mark.usefixtures("newer")
def test_an_older_pack_is_verified_with_the_new_columns(desk: Desk) -> None:
    """A pack without the columns verifies, because they have default values."""
    [pack] = (desk.home / "reconcile" / "packs").glob("*.zip")
    assert verify_pack(pack, "0.0.0").is_whole


def test_rows_without_a_required_column_are_refused(desk: Desk) -> None:
    """Rows without a column that has no default value are refused."""
    with desk.folder.transaction() as connection:
        rows = tables.select(connection, "select * from breaks")
        shortened = [{name: row[name] for name in row if name != "asset"} for row in rows]
        with closing(record._empty()) as other, pytest.raises(ValueError, match="its columns"):
            tables.import_rows(other, lambda name: shortened if name == "breaks" else [])


def test_the_returned_run_equals_the_stored_run(desk: Desk) -> None:
    """The run that is returned equals the stored one, with new, resolved and rejected rows."""
    desk.publish(BOOK, "20261202T021500Z")
    text = LEDGER.replace("main;1\n", "main;1.5\n").replace(
        "main;2\n", "main;3\np1;ADA;v1;m;#N/A\n"
    )
    desk.put(text, "ledger_2026-12-02.csv")
    run = desk.run().run
    assert run
    assert run.breaks
    assert run.resolved
    assert run.rejected
    assert record.Record(desk.folder.root).result(run.day) == run


@pytest.mark.parametrize("text", ["ä", "\U0001f600", "\ud800", "'\x00\n", "1e400", ""])
def test_any_text_of_a_break_is_stored_unchanged(desk: Desk, text: str) -> None:
    """Any string in a break is stored unchanged, even a lone surrogate, a NUL or an emoji."""
    run = service.status(desk.folder.root).run
    names = dict.fromkeys(run.breaks[0].names, text)
    strange = replace(run.breaks[0], comment=text, names=names, ledger=text)
    given = replace(run, run_id="20261120-strange", breaks=(strange,))
    stored = record.Record(desk.folder.root).add_result(given)
    assert stored == replace(given, no=2)
    assert record.Record(desk.folder.root).result(run.day) == stored


@pytest.mark.parametrize("name", ["note\udcff.pdf", "ledger_2026-12-02\udcff.csv"])
def test_a_file_whose_name_is_not_unicode_is_not_used(desk: Desk, name: str) -> None:
    """A file whose name is not Unicode is not used. The reason says to rename it."""
    desk.publish(BOOK, "20261202T021500Z")
    desk.put(LEDGER, "ledger_2026-12-02.csv")
    (desk.folder.inbox / name).write_text(LEDGER, encoding="utf-8")
    run = desk.run().run
    assert run
    [unused] = [item for item in run.coverage.unused if "udcff" in item.location]
    assert "Rename the file" in unused.reason
    assert record.Record(desk.folder.root).result(run.day) == run
