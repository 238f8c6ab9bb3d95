"""Tests of a reconciliation that an older nightbook closed: it stays valid after text changes."""

import shutil
from datetime import date
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.homes.reconciliation import DAYS, now, publish, unpack
from tests.support.reconciliation_home import Desk
from warehouse.reconcile import service
from warehouse.reconcile.close.close import CloseInputs, close
from warehouse.reconcile.close.verify import verify_pack
from warehouse.reconcile.model import Run

VERSION = "0.0.0"  # the version that closed the month
*_, LAST = DAYS
NEXT = date(2026, 11, 21)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return the home that the older nightbook left."""
    return unpack(tmp_path)


def result(desk: Desk, day: date) -> Run:
    """Return the newest result of a day."""
    found = desk.folder.result(day)
    assert found is not None
    return found


def test_an_older_month_stays_closed_and_its_pack_verifies(desk: Desk) -> None:
    """The pack is complete, another close finds nothing new, and every signature is valid."""
    publish(desk, DAYS)
    check = verify_pack(desk.folder.root / "packs" / "2026-11.zip", VERSION)
    assert check.differences == []
    assert check.uncompared == [
        (
            "audit_trail.csv and index.html: written by an older version of nightbook (0.0.0), so "
            "compared only with the manifest"
        )
    ]
    inputs = CloseInputs(month="2026-11", who="Di", now=now(LAST, 13), program_version=VERSION)
    again = close(desk.layout.database, desk.folder.root, inputs)
    assert (again.is_new, again.closing.version) == (False, 1)
    for day in DAYS:
        standing = service.status(desk.folder.root, day=day)
        assert ({one.who for one in standing.signatures}, standing.void) == ({"Ada", "Bo"}, "")


def test_older_workbooks_verify_with_their_older_texts(desk: Desk) -> None:
    """Older workbooks with older texts verify, and a changed name or amount is still found."""
    for day in DAYS:
        book = desk.folder.day_files(day).workbook
        found = service.verify(desk.folder.root, book)
        assert (found.differences, found.uncompared) == ((), ())
    forged: Any = openpyxl.load_workbook(book)
    titles = [cell.value for cell in forged["Breaks"][2]]
    assert "Snapshot, exact" in titles
    forged["Breaks"].cell(3, titles.index("Snapshot, exact") + 1).value = "8"
    forged["Breaks"].cell(3, titles.index("Result") + 1).value = "Not in book"
    forged["Tie-out"].cell(3, 7).value = 99
    forged["All positions"].cell(2, 6).value = 99.5
    forged.save(desk.home / "forged.xlsx")
    assert len(service.verify(desk.folder.root, desk.home / "forged.xlsx").differences) == 4


def test_the_next_night_reads_comments_of_an_older_workbook(desk: Desk) -> None:
    """The next night reads its comments and accepted breaks, and keeps break IDs and ages."""
    breaks = {one.names["asset"]: one for one in result(desk, LAST).breaks}
    book = desk.folder.day_files(LAST).workbook
    cells = {breaks["BTC"].id: {"Comment": "booked tomorrow", "Root cause": "Timing"}}
    desk.edit(book, cells, book.with_name("copy.xlsx"))
    publish(desk, [*DAYS, NEXT])
    desk.run(as_of=NEXT, now=now(NEXT))
    found = {one.names["asset"]: one for one in result(desk, NEXT).breaks}
    assert {name: one.id for name, one in found.items()} == {
        name: one.id for name, one in breaks.items()
    }
    assert (found["BTC"].comment, found["BTC"].root_cause) == ("booked tomorrow", "Timing")
    assert (found["BTC"].owner, found["ETH"].comment) == ("Ada", "a known unit")
    assert [result(desk, day).breaks[0].age_days for day in DAYS[:1]] == [0]
    assert (breaks["BTC"].age_days, breaks["BTC"].ever_seen) == (0, DAYS[0])  # a returned break
    assert (found["BTC"].age_days, found["BTC"].episode) == (1, 2)
    assert (found["ETH"].status, found["ETH"].change) == ("Explained - accepted", "unchanged")
    assert service.verify(desk.folder.root, book.with_name("copy.xlsx")).is_whole


def test_a_second_run_of_an_older_day_has_the_same_result(desk: Desk) -> None:
    """Digest and IDs equal the signed ones, and a copy of the older workbook still verifies."""
    publish(desk, DAYS)
    before, book = result(desk, LAST), desk.folder.day_files(LAST).workbook
    copy = Path(shutil.copy(book, desk.home / "older.xlsx"))
    service.run(
        desk.layout.database,
        desk.folder.root,
        as_of=LAST,
        program_version=VERSION,
        now=now(LAST, 14),
        pause=lambda: None,
        restate="to see",
    )
    after = result(desk, LAST)
    assert (after.digest, after.run_id) == (before.digest, before.run_id)
    assert [one.id for one in after.breaks] == [one.id for one in before.breaks]
    assert dict(after.counts) == dict(before.counts)
    assert {one.who for one in service.status(desk.folder.root, day=LAST).signatures} == {
        "Ada",
        "Bo",
    }
    assert service.verify(desk.folder.root, book).is_whole
    assert service.verify(desk.folder.root, copy).is_whole
    titles = [cell.value for cell in openpyxl.load_workbook(book)["Breaks"][2]]
    assert {"Book, exact", "Occurrence"} <= {*titles}
