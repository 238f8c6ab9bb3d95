"""A test of `nightbook demo --next`: the reconciliation over five nights after the demo."""

import contextlib
import io
import re
from datetime import timedelta
from pathlib import Path

import openpyxl
import pytest

from assets.cli import main
from tests.support.demo import MORNING, nightbook_of, take_demo
from warehouse.reconcile.record.record import Record

pytestmark = pytest.mark.torture
NIGHTS = 5


def next_night(home: Path) -> str:
    """Take one more night of the demo, and return the output."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        code = main(("demo", "--next"), nightbook_of(home))
    assert code == 0, said.getvalue()
    return said.getvalue()


def test_breaks_age_close_and_return_with_their_comments(tmp_path: Path) -> None:
    """Over five nights, one break stays, one returns, and no comment is lost."""
    home = tmp_path / "data"
    take_demo(home)
    store = Record(home / "reconcile")
    for number in range(1, NIGHTS + 1):
        said = next_night(home)
        assert "demo --next" in said
        day = MORNING.date() + timedelta(number)
        if number == 1:
            _write(store.out / f"{day}" / f"recon_{day}.xlsx")
    days = [MORNING.date() + timedelta(number) for number in range(NIGHTS + 1)]
    assert Record(store.root).days() == days
    results = [store.result(day) for day in days]
    nights = [{item.id: item for item in result.breaks} for result in results if result]
    everywhere = set(nights[0]).intersection(*nights)
    assert {nights[-1][break_id].age_days for break_id in everywhere} == {NIGHTS}
    assert len(nights[-1]) < len(nights[0])
    returned = [item for night in nights for item in night.values() if item.change == "returned"]
    assert {item.episode for item in returned} == {2}
    later = [item for night in nights[2:] for item in night.values() if item.id in nights[1]]
    assert {item.comment for item in later} == {"asked on the first night"}
    assert main(("report",), nightbook_of(home)) == 0
    report = (home / "reports" / "latest.html").read_text("utf-8")
    text = re.sub("<[^>]*>", "", report)
    assert f"{len(nights[-1])} open breaks on {days[-1]}" in text
    assert f"{len(nights[-1])} open breaks of the book of {days[-1]} against the ledger" in text
    assert {item.change for item in later} >= {"unchanged", "returned"}


def _write(workbook: Path) -> None:
    """Write a comment next to every break."""
    book = openpyxl.load_workbook(workbook)
    sheet = book["Breaks"]
    titles = [cell.value for cell in sheet[2]]
    for row in range(3, sheet.max_row + 1):
        sheet.cell(row, titles.index("Comment") + 1, "asked on the first night")
    book.save(workbook)
