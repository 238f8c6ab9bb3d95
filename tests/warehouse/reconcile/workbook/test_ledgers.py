"""Tests of the template that `init` writes: filled with the book's amounts, it matches."""

import random
from collections.abc import Callable
from pathlib import Path

import openpyxl
import pytest
from openpyxl.utils.escape import unescape

from tests.support.books import Amount
from tests.support.reconciliation_home import Desk

NAMES = [
    "=1+1",
    "=cmd|'/c calc'!A0",
    "@SUM(A1)",
    "+1",
    "00123",
    "1E5",
    "TRUE",
    "Total",
    " padded ",
    "tab\tline\nreturn\rend",
    "bell\x07 escape\x1b[31m",
    "_x0041_ is no A",
    "<b>&amp;</b> ]]>",
    "\U0001f680",
    "\ufffe\uffff",
    "e\u0301 \u202eright to left",
    "=" + "\U0001f680" * 16_384 + "<&>",
    "=" + "\U0001f680" * 16_384 + "<&",
]
SIZED = random.Random(7)
AMOUNTS = [
    *(Amount(f"{place}.5", account=name) for place, name in enumerate(NAMES)),
    *(
        Amount(f"{place}.25", asset=name or "X", portfolio="p2")
        for place, name in enumerate(NAMES[:8])
    ),
    Amount("0.123456789012345678901234", asset="NEAR"),
    Amount("9" * 40, asset="WEI"),
    Amount("-0.000000000000000001", asset="BTC", custom=True, state="locked"),
    Amount("0", asset="ETH", account="empty"),
    *(
        Amount(
            f"{SIZED.randrange(10 ** SIZED.randrange(1, 13))}.{SIZED.randrange(10**18):018}",
            asset="ETH",
            account=f"a{n}",
        )
        for n in range(400)
    ),
]
Put = Callable[[str], object]


def filled(desk: Desk, put: Put) -> None:
    """Fill in the template as a person would, with the amounts of the book."""
    desk.init()
    made = openpyxl.load_workbook(desk.folder.root / "ledger_template.xlsx")
    sheet = made["Ledger"]
    true = {
        (
            f"Portfolio {one.portfolio}",
            f"{one.asset} (custom)" if one.custom else one.asset,
            one.account[:150],
        ): one.text
        for one in AMOUNTS
        if len(one.account) < 1000
    }
    long = [one for one in AMOUNTS if len(one.account) >= 1000]
    assert [cell.value for cell in sheet[1]] == ["Portfolio", "Asset", "Venue", "Account", "Amount"]
    assert sheet.max_row == len(AMOUNTS) + 1
    for row in sheet.iter_rows(min_row=2):
        names = [unescape(str(cell.value)) for cell in row]
        text = true.get((names[0], names[1], names[3]))
        if text is None:
            (text,) = [one.text for one in long if f"({len(one.account)} letters" in names[3]]
        row[4].value = put(text)
    made.save(desk.folder.inbox / "ledger-2026-11-20.xlsx")


@pytest.mark.torture
@pytest.mark.parametrize("put", [str, float], ids=["texts", "numbers"])
def test_a_correctly_filled_template_matches(tmp_path: Path, put: Put) -> None:
    """If the amounts are text, every key is Matched.

    If they are numbers, keys with more than 15 digits match as *Ledger precision*.
    """
    desk = Desk(tmp_path)
    desk.publish(AMOUNTS)
    filled(desk, put)
    found = desk.run()
    counts = {name: count for name, count in found.counts.items() if count}
    if put is str:
        assert counts == {"Matched": len(AMOUNTS)}
    else:
        short = sum(len(one.text.replace(".", "").strip("-0")) <= 15 for one in AMOUNTS)
        assert counts == {"Matched": short, "Ledger precision": len(AMOUNTS) - short}
    assert (found.breaks, found.exit_code) == (0, 0)


def test_ambiguous_names_are_written_as_ids(tmp_path: Path) -> None:
    """Portfolios with the same name are written as IDs, and their amounts match."""
    desk = Desk(tmp_path)
    rows = [Amount("1", portfolio="p1"), Amount("2", portfolio="p2"), Amount("3", portfolio="p3")]
    desk.publish(rows, change={"portfolios": {"name": "Fund"}})
    desk.init()
    made = openpyxl.load_workbook(desk.folder.root / "ledger_template.xlsx")
    sheet = made["Ledger"]
    assert [row[0].value for row in sheet.iter_rows(min_row=2)] == ["p1", "p2", "p3"]
    for row, one in zip(sheet.iter_rows(min_row=2), rows, strict=True):
        row[4].value = one.text
    made.save(desk.folder.inbox / "ledger.xlsx")
    assert desk.run().counts["Matched"] == 3


def test_a_blank_amount_in_the_template_is_rejected(tmp_path: Path) -> None:
    """A row with a blank amount is rejected, and the Help sheet names the setting to skip it."""
    desk = Desk(tmp_path)
    desk.publish([Amount("1"), Amount("2", asset="ETH")])
    desk.init()
    made = openpyxl.load_workbook(desk.folder.root / "ledger_template.xlsx")
    made["Ledger"]["E2"] = 1
    made.save(desk.folder.inbox / "ledger.xlsx")
    found = desk.run()
    assert (found.counts["Matched"], found.counts["Rejected"]) == (1, 1)
    assert "blank = " in str(made["Help"]["A4"].value)
    desk.settle('blank = "skip"\n')
    assert desk.run().counts["Not in ledger"] == 1
