"""Tests of late ledgers: a person must allow their use, and the right ledger undoes it."""

import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.pasted_answers import answer
from tests.support.reconciliation_home import HEAD, NOW, SNAPSHOT, Desk, ledger
from tests.support.shared import some_daily
from warehouse.reconcile.ledger.days import title_day
from warehouse.reconcile.model import to_json
from warehouse.reconcile.record import views
from warehouse.reconcile.terms import Ambiguous, LateError
from warehouse.reconcile.workbook.content import TRAIL

ACCEPTED = "Explained - accepted"
DECISION = {"Status": ACCEPTED, "Root cause": "Timing"}
DAY, BEFORE = date(2026, 11, 20), date(2026, 11, 19)
ASSETS = ("BTC", "ETH", "SOL", "ADA", "DOT")
BOOK = [Amount("10", asset=asset) for asset in ASSETS]


def _sheet(desk: Desk, rows: Sequence[Sequence[object]], tab: str = "Ledger") -> str:
    desk.folder.make()
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = tab
    for row in rows:
        sheet.append(list(row))
    book.save(desk.folder.inbox / "ledger.xlsx")
    return "ledger.xlsx"


def _rows(*more: object) -> list[tuple[object, ...]]:
    return [("asset", "amount", *more), *(("BTC", 10, *([BEFORE] if more else [])),)]


LATE: Mapping[str, Callable[[Desk], str]] = {
    "its name": lambda desk: desk.put("asset;amount\nBTC;10\n", "ledger 19.11.2026.csv").name,
    "a title line": lambda desk: _sheet(desk, [("Balances as of 19 November 2026",), *_rows()]),
    "a title and a cell": lambda desk: _sheet(desk, [("Stichtag", BEFORE), *_rows()]),
    "a title printed today": lambda desk: _sheet(
        desk, [("As of 2026-11-19, printed 2026-11-20 08:00",), *_rows()]
    ),
    "its date column": lambda desk: _sheet(desk, _rows("date")),
    "its tab": lambda desk: _sheet(desk, _rows(), "2026-11-19"),
}


@pytest.mark.parametrize("stated", some_daily(LATE, 2))
def test_a_late_ledger_is_used_only_with_permission(tmp_path: Path, stated: str) -> None:
    """A late ledger is used only after the line of the question is pasted, and with a high notice.

    Before that, nothing is written.
    """
    desk = Desk(tmp_path)
    desk.publish(BOOK[:1])
    name = LATE[stated](desk)
    with pytest.raises(LateError, match=f"[Tt]he book is as of {DAY}") as asked:
        desk.run()
    assert f"{name} is as of {BEFORE}" in str(asked.value)
    assert asked.value.exit_code == 3
    assert not list(desk.folder.out.rglob("*"))
    desk.settle(answer(asked.value.line) + "\n")
    done = desk.run()
    (told,) = [notice for notice in done.notices if notice.severity == "high"]
    assert f"as of {BEFORE}, but the book is as of {DAY}" in told.message
    summary = openpyxl.load_workbook(done.files[0])["Summary"]
    assert any(told.message in str(cell.value) for row in summary for cell in row)


def test_two_late_ledgers_raise_one_question(tmp_path: Path) -> None:
    """Two late ledgers raise one question, even if a third ledger is of the book's date.

    The third ledger alone would cover only a part of the book.
    """
    desk = Desk(tmp_path)
    desk.publish(BOOK)
    desk.put(ledger(BOOK[:1]), "alpha-2026-11-20.csv")
    desk.put(ledger(BOOK[1:2]), "beta-2026-11-19.csv")
    desk.put(ledger(BOOK[2:]), "gamma-2026-11-18.csv")
    with pytest.raises(LateError) as asked:
        desk.run()
    desk.settle(asked.value.line.replace("# ", ""))
    assert desk.run().breaks == 0


@pytest.mark.parametrize(
    "line",
    [
        'late = "yes"',
        "[late.today]",
        '[late.2026-11-20]\n"a" = 1',
        '[late.2026-11-20]\n"a" = ["used"]',
    ],
)
def test_an_invalid_line_under_late_is_refused(tmp_path: Path, line: str) -> None:
    """An invalid line under `late` is refused, so a mistyped permission permits nothing."""
    desk = Desk(tmp_path)
    desk.publish(BOOK)
    desk.settle(line)
    with pytest.raises(ValueError, match="late"):
        desk.run()


@pytest.mark.parametrize(
    ("title", "day"),
    [
        (["Positions 2026-11-20"], DAY),
        (["Positions", datetime(2026, 11, 19, 23, tzinfo=UTC)], BEFORE),
        (["from 01.11.2026 to 20.11.2026"], DAY),
        (["created 20.11.2026, as of 19.11.2026"], BEFORE),
        (["Report of", "Nov 19, 2026"], BEFORE),
        (["printed on 2026-11-19"], None),
        (["run at", datetime(2026, 11, 19, 23, tzinfo=UTC)], None),
        (["Fund 20201119-77", "no day"], None),
        (["as of 31.2.2026"], None),
    ],
)
def test_the_report_date_in_a_title_counts(title: Sequence[object], day: date | None) -> None:
    """The date of a report in its title counts, and not the date when it was printed."""
    assert title_day([["Ledger"], title], DAY) == day


def _ledger(amounts: Mapping[str, str]) -> str:
    return HEAD + "".join(f"p1;{asset};v1;main;{text}\n" for asset, text in amounts.items())


def _edited(desk: Desk, book: Path, said: Mapping[str, Mapping[str, str]], name: str) -> None:
    ids = {broken["names"]["asset"]: str(broken["id"]) for broken in desk.breaks()}
    cells = {ids[asset]: cells for asset, cells in said.items() if asset in ids}
    desk.edit(book, cells, desk.folder.inbox / name)


def _written(desk: Desk, files: Sequence[Path]) -> list[object]:
    """Return the engine's output for DAY: every cell, and the breaks for machines and for SQL.

    It leaves out the trail of all runs, which keeps a late run.
    """
    book = openpyxl.load_workbook(files[0])
    cells = {
        name: [[cell.value for cell in row] for row in book[name].iter_rows()]
        for name in book.sheetnames
        if name not in {"Lists", TRAIL}  # Lists has the revision of the workbook
    }
    result = desk.folder.result(DAY)
    assert result is not None
    changing = {"revision", "made_at", "no", "written"}  # these depend on the revision
    return [
        cells,
        files[1].read_bytes(),
        views.ops_rows(desk.folder)["breaks"],
        {name: value for name, value in to_json(result).items() if name not in changing},
    ]


def _statuses(desk: Desk) -> dict[str, str]:
    return {broken["names"]["asset"]: broken["status"] for broken in desk.breaks()}


def _said(desk: Desk) -> set[tuple[Any, ...]]:
    rows = views.ops_rows(desk.folder)["annotations"]
    return {(row["break_id"], row["field"], row["value"]) for row in rows if row["sha256"]}


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(2))
def test_the_right_ledger_undoes_a_late_run(tmp_path: Path, seed: int) -> None:
    """After a late run, the right ledger gives the same output as it would without the late run.

    All edits that people made are kept.
    """
    chance = random.Random(seed)
    desk = Desk(tmp_path / "late")
    desk.publish(BOOK, "20261119T021500Z")
    amounts = ("10", "11", "12")
    desk.put(_ledger({asset: chance.choice(amounts) for asset in ASSETS} | {"BTC": "11"}))
    first = desk.run(now=NOW)
    said = {
        asset: {
            "Status": chance.choice((ACCEPTED, "Waiting")),
            "Owner": f"owner of {asset}",
            "Root cause": "Timing",
        }
        for asset in ASSETS
    }
    _edited(desk, first.files[0], said | {"BTC": DECISION}, "words.xlsx")
    desk.publish(BOOK, SNAPSHOT)
    right = {asset: chance.choice(amounts) for asset in ASSETS} | {"BTC": "11"}
    words = {asset: {"Comment": f"asked about {asset}"} for asset in ASSETS}
    _edited(desk, first.files[0], words, "more.xlsx")
    _edited(desk, first.files[0], {"BTC": {"Comment": "and something else"}}, "other.xlsx")
    alone = Desk(tmp_path / "right", desk.versions, desk.nights)
    shutil.copytree(desk.home, alone.home, symlinks=True)
    late = desk.put(_ledger({asset: chance.choice(amounts) for asset in ASSETS} | {"BTC": "12"}))
    desk.run()
    assert _statuses(desk)["BTC"] == "Open"
    late.write_text(_ledger(right), encoding="utf-8")
    alone.put(_ledger(right))
    assert _written(desk, desk.run().files) == _written(alone, alone.run().files)
    assert _said(alone) == _said(desk)
    assert _statuses(desk)["BTC"] == ACCEPTED


@pytest.mark.torture
def test_a_decision_in_a_late_workbook_is_kept(tmp_path: Path) -> None:
    """If a person accepts a break that a late ledger reopened, this decision is kept."""
    desk = Desk(tmp_path)
    desk.publish(BOOK[:1], "20261119T021500Z")
    desk.put(_ledger({"BTC": "11"}))
    first = desk.run()
    _edited(desk, first.files[0], {"BTC": DECISION}, "a.xlsx")
    desk.publish(BOOK[:1], SNAPSHOT)
    path = desk.put(_ledger({"BTC": "12"}))
    second = desk.run()
    assert desk.breaks()[0]["status"] == "Open"
    _edited(desk, second.files[0], {"BTC": DECISION}, "b.xlsx")
    desk.run()
    assert (desk.breaks()[0]["status"], desk.breaks()[0]["accepted"]) == (ACCEPTED, "2")
    path.write_text(_ledger({"BTC": "11"}), encoding="utf-8")
    desk.run()
    assert "a difference of 2 was accepted" in desk.breaks()[0]["note"]


@pytest.mark.torture
def test_a_rerun_of_a_past_day_closes_the_break_it_opened(tmp_path: Path) -> None:
    """If yesterday is rerun with the right ledger, a break that the wrong one opened is closed.

    It is then closed for today as well.
    """
    desk = Desk(tmp_path)
    desk.publish(BOOK[:1], "20261118T021500Z")
    path = desk.put(_ledger({"BTC": "11"}))
    first = desk.run()
    _edited(desk, first.files[0], {"BTC": DECISION}, "a.xlsx")
    desk.publish(BOOK[:1], "20261119T021500Z")
    path.write_text(_ledger({"BTC": "12"}), encoding="utf-8")
    assert desk.run().open_breaks == 1
    desk.publish(BOOK[:1], SNAPSHOT)
    path.write_text(_ledger({"BTC": "11"}), encoding="utf-8")
    assert desk.run().open_breaks == 1
    assert desk.run(BEFORE).open_breaks == 0
    assert desk.run().open_breaks == 0
    rows = views.ops_rows(desk.folder)["annotations"]
    assert [row["value"] for row in rows if row["field"] == "status"] == [
        ACCEPTED,
        "Open",
        ACCEPTED,
    ]


def test_a_late_error_is_an_ambiguous_error(tmp_path: Path) -> None:
    """A `LateError` is an `Ambiguous` error, with exit code 3 and a line to paste."""
    assert issubclass(LateError, Ambiguous)
    assert LateError("x", "y").exit_code == 3
