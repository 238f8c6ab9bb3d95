"""Test of ten nights of one reconciliation. Two people write into copies of its workbooks."""

import random
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import NOW, Desk, DeskRun
from warehouse.reconcile import service
from warehouse.reconcile.record import views

FIRST = date(2026, 11, 20)
ASSETS = ("BTC", "ETH", "SOL", "DOT", "ADA", "XRP")
ACCEPTED = "Explained - accepted"
CONFLICTS = (1, 4, 7)  # nights after which both people comment on the same break
AWAY, BACK = (3, 4), 5  # SOL matches on the nights in `AWAY` and breaks on night `BACK`
MOVES = 6  # on this night, the accepted break of DOT changes by 1e-18
Cells = Mapping[str, Mapping[str, str]]


def copy_of(book: Path, to: Path, cells: Cells, rng: random.Random, *, without: str = "") -> None:
    """Save a copy with written cells, shuffled rows, a renamed sheet and one row deleted."""
    made = openpyxl.load_workbook(book)
    sheet = made["Breaks"]
    titles = [cell.value for cell in sheet[2]]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=3)]
    rows = [row for row in rows if row[0] and row[0] != without]
    for row in rows:
        for title, text in cells.get(str(row[0]), {}).items():
            row[titles.index(title)] = text
    rng.shuffle(rows)
    sheet.delete_rows(3, sheet.max_row)
    for place, row in enumerate(rows, 3):
        for column, value in enumerate(row, 1):
            is_formula = isinstance(value, str) and value.startswith("=")
            sheet.cell(place, column, None if is_formula else value)
    sheet.title = "Breaks of mine"
    to.parent.mkdir(parents=True, exist_ok=True)
    made.save(to)


def put_ledger(desk: Desk, night: int, rng: random.Random) -> None:
    """Write tonight's ledger with a new file name and row order. SOL is correct for a while."""
    for old in desk.folder.inbox.glob("ledger*.csv"):
        old.unlink()
    amounts = dict.fromkeys(ASSETS, "11")
    amounts["SOL"] = "10" if night in AWAY else "11"
    amounts["DOT"] = "11.000000000000000001" if night >= MOVES else "11"
    lines = [f"{text};{asset};main;v1;p1\n" for asset, text in amounts.items()]
    rng.shuffle(lines)
    head = "amount;asset;account;venue;portfolio\n"
    desk.put(head + "".join(lines), f"ledger {FIRST + timedelta(night)} ({night}).csv")


def take(desk: Desk, night: int, rng: random.Random) -> DeskRun:
    """Publish the book of a night, write its ledger and run."""
    day = FIRST + timedelta(night)
    desk.publish([Amount("10", asset=asset) for asset in ASSETS], f"{day:%Y%m%d}T021500Z")
    put_ledger(desk, night, rng)
    return desk.run(now=NOW + timedelta(night))


@pytest.mark.torture
def test_ten_nights_of_two_people_lose_no_comment(tmp_path: Path) -> None:
    """No comment is lost, each conflict is reported, and a changed accepted break is open."""
    rng = random.Random(11)
    desk = Desk(tmp_path)
    said: dict[str, list[str]] = {}
    expected: set[str] = set()
    for night in range(10):
        ran = take(desk, night, rng)
        told = {one.raw for one in ran.notices if "two people wrote different texts" in one.message}
        assert told == expected, night
        found = {str(one["names"]["asset"]): one for one in desk.breaks()}
        for asset, one in found.items():
            missing = [text for text in said.get(asset, []) if text not in everything(desk, one)]
            assert missing == [], (night, asset)
            if night and said.get(asset):
                assert said[asset][-1] in str(one["comment"]), (night, asset)
        check_lives(night, found)
        expected = edit(desk, night, (ran.files[0], found), said, rng)
    desk.run(now=NOW + timedelta(20))
    words = "\n".join(row["value"] for row in views.ops_rows(desk.folder)["annotations"])
    assert [text for texts in said.values() for text in texts if text not in words] == []
    assert sum(map(len, said.values())) > 25


def everything(desk: Desk, one: Mapping[str, object]) -> str:
    """Return all values in the history of a break, one per line."""
    return "\n".join(
        str(line.get("value", "")) for line in service.history(desk.folder.root, str(one["id"]))
    )


def check_lives(night: int, found: Mapping[str, Mapping[str, object]]) -> None:
    """Check that SOL returns as a second episode, and DOT is accepted until it changes."""
    assert ("SOL" in found) == (night not in AWAY)
    if night >= BACK:
        assert (found["SOL"]["episode"], found["SOL"]["status"]) == (2, "Open")
    if 2 <= night < MOVES:
        assert found["DOT"]["status"] == ACCEPTED
    if night >= MOVES:
        assert found["DOT"]["status"] == "Open"
        assert "a difference of 1 was accepted on" in str(found["DOT"]["note"])
        assert found["DOT"]["change"] == ("changed" if night == MOVES else "unchanged")
    assert found["BTC"]["age_days"] == night


def edit(
    desk: Desk,
    night: int,
    shown: tuple[Path, Mapping[str, Mapping[str, object]]],
    said: dict[str, list[str]],
    rng: random.Random,
) -> set[str]:
    """Save a copy as Ada and one as Bo. Return the IDs of breaks on which their comments differ."""
    book, found = shown
    mine, theirs = ("BTC", "ETH") if night % 2 else ("ADA", "XRP")
    ada: dict[str, dict[str, str]] = {}
    bo: dict[str, dict[str, str]] = {}

    def write(cells: dict[str, dict[str, str]], asset: str, text: str) -> None:
        cells.setdefault(str(found[asset]["id"]), {})["Comment"] = text
        said.setdefault(asset, []).append(text)

    write(ada, mine, f"Ada on night {night} of {mine}")
    write(bo, theirs, f"Bo on night {night} of {theirs}")
    if night == 1:
        ada.setdefault(str(found["DOT"]["id"]), {}).update(
            {"Status": ACCEPTED, "Root cause": "Timing", "Owner": "Ada"}
        )
    if night == 2:
        write(ada, "SOL", "SOL was seen by Ada before it went away")
    conflicts = set()
    if night in CONFLICTS:
        both = str(found["BTC" if night % 2 == 0 else "XRP"]["id"])
        asset = "BTC" if night % 2 == 0 else "XRP"
        texts = [f"{who} says {night} of {asset}" for who in ("Ada", "Bo")]
        ada.setdefault(both, {})["Comment"], bo.setdefault(both, {})["Comment"] = texts
        said[asset] = [one for one in said.get(asset, []) if f"Bo on night {night}" not in one]
        said[asset] += texts
        conflicts.add(both)
    ids = sorted(str(one["id"]) for one in found.values())
    rest = [one for one in ids if one not in ada and one not in bo]
    copy_of(book, desk.folder.inbox / f"for Ada {night}.xlsx", ada, rng, without=rest[0])
    copy_of(book, desk.folder.out / "old" / f"copy ({night}).xlsx", bo, rng, without=rest[-1])
    return conflicts
