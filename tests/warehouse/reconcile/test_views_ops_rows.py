"""Tests of the rows that are published in the `ops` tables."""

from pathlib import Path

import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, NOW, Desk
from warehouse.reconcile import service
from warehouse.reconcile.record import views
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import NotReconciled

pytestmark = pytest.mark.usefixtures("no_workbook")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a home with one result that has a break and is signed by its preparer."""
    made = Desk(tmp_path)
    made.publish([Amount("1"), Amount("2", account="other")])
    made.put(HEAD + "p1;BTC;v1;main;1\n")
    made.run()
    service.sign(made.folder.root, role="preparer", who="Ada", now=NOW)
    return made


def test_a_damaged_database_raises_an_error(desk: Desk) -> None:
    """The rows are the same each time. If the database is damaged, an error is raised."""
    first = views.ops_rows(desk.folder)
    assert len(first["breaks"]) == 1
    assert first["signoffs"][0]["is_valid"]
    assert views.ops_rows(Record(desk.folder.root)) == first
    desk.folder.database.write_bytes(b"x" * desk.folder.database.stat().st_size)
    with pytest.raises(NotReconciled, match="cannot be read"):
        views.ops_rows(Record(desk.folder.root))


def test_a_second_result_of_the_day_publishes_its_breaks(desk: Desk) -> None:
    """A run with a different ledger publishes its new breaks and makes the signature invalid."""
    views.ops_rows(desk.folder)
    desk.put(HEAD + "p1;BTC;v1;main;0.5\n")
    desk.run()
    found = views.ops_rows(desk.folder)
    assert {one["difference_text"] for one in found["breaks"]} == {"-0.5", "-2"}
    assert not found["signoffs"][0]["is_valid"]
