"""What is published of a year of results is read from what is new, and is always the same."""

import os
import shutil
from datetime import date
from pathlib import Path

import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, NOW, Desk
from warehouse.reconcile import service
from warehouse.reconcile.record import views
from warehouse.reconcile.terms import NotReconciled

pytestmark = pytest.mark.usefixtures("no_workbook")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A home with one result that has a break, signed by its preparer."""
    made = Desk(tmp_path)
    made.publish([Amount("1"), Amount("2", account="other")])
    made.put(HEAD + "p1;BTC;v1;main;1\n")
    made.run()
    service.sign(made.folder.root, role="preparer", who="Ada", now=NOW)
    return made


def result(desk: Desk) -> Path:
    """The file of its newest result."""
    found = desk.folder.newest_path(date(2026, 11, 20))
    assert found is not None
    return found


def test_rows_are_the_same_from_the_result_and_from_beside(desk: Desk) -> None:
    """The first reading, a second one, and one after what stands beside is gone or damaged."""
    first = views.ops_rows(desk.folder)
    assert len(first["breaks"]) == 1
    assert first["signoffs"][0]["is_valid"]
    beside = desk.folder.root / ".published" / "2026-11-20.json"
    assert views.ops_rows(desk.folder) == first
    for damage in ("{half", "[]", '{"of": []}'):
        beside.write_text(damage, encoding="utf-8")
        assert views.ops_rows(desk.folder) == first
    shutil.rmtree(beside.parent)
    assert views.ops_rows(desk.folder) == first


def test_a_result_that_was_read_is_not_read_again(desk: Desk) -> None:
    """A file of the same name, size and time is taken as known; any other is read."""
    first = views.ops_rows(desk.folder)
    path = result(desk)
    about = path.stat()
    path.write_bytes(b"x" * about.st_size)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert views.ops_rows(desk.folder) == first
    path.write_bytes(b"{half")
    with pytest.raises(NotReconciled, match="cannot be read"):
        views.ops_rows(desk.folder)


def test_a_new_result_of_the_day_is_seen(desk: Desk) -> None:
    """After a run on another ledger the new breaks are published and the signature is void."""
    views.ops_rows(desk.folder)
    desk.put(HEAD + "p1;BTC;v1;main;0.5\n")
    desk.run()
    found = views.ops_rows(desk.folder)
    assert {one["difference_text"] for one in found["breaks"]} == {"-0.5", "-2"}
    assert not found["signoffs"][0]["is_valid"]
