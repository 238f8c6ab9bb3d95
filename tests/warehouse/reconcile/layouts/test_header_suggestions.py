"""Tests of proposed lines: pasting them gives the right result, or settles nothing."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.ledger_samples import BOOK
from tests.support.pasted_answers import (
    AMOUNTS,
    FIELDS,
    FINEST,
    OLDER,
    AnswerFolder,
    CellRows,
    Content,
    assert_right,
    csv,
    rows,
)
from tests.support.reconciliation_home import Desk
from tests.support.shared import some_daily

pytestmark = pytest.mark.usefixtures("no_workbook")


def pivot(lines: Sequence[str], across: str, titles: Sequence[str]) -> CellRows:
    """Return the book as a pivot table with these fields in the rows and one field across."""
    sums: dict[tuple[str, ...], Decimal] = defaultdict(Decimal)
    for row in BOOK:
        sums[*(getattr(row, name) for name in lines), getattr(row, across)] += Decimal(row.text)
    columns = sorted({key[-1] for key in sums})
    return [
        [*titles, *columns],
        *[
            [*line, *(str(sums[*line, name]) if (*line, name) in sums else "" for name in columns)]
            for line in sorted({key[:-1] for key in sums})
        ],
    ]


# Ledgers with the amounts of several days, each in its own column or tab.
DAYS: dict[str, tuple[str, Content]] = {
    "oldest first": (
        "ledger.csv",
        csv(rows(["2026-11-18", "2026-11-19", "2026-11-20"], OLDER, OLDER, AMOUNTS)),
    ),
    "newest first, with points": (
        "ledger.csv",
        csv(rows(["20.11.2026", "19.11.2026"], AMOUNTS, OLDER), ";"),
    ),
    "a later day too": (
        "ledger.csv",
        csv(rows(["2026-11-19", "2026-11-20", "2026-12-31"], OLDER, AMOUNTS, OLDER)),
    ),
    "beside a word": (
        "ledger.csv",
        csv(rows(["Balance as of 19 Nov 2026", "Balance as of 20 Nov 2026"], OLDER, AMOUNTS)),
    ),
    "in brackets": (
        "ledger.csv",
        csv(rows(["Bestand (19.11.2026)", "Bestand (20.11.2026)"], OLDER, AMOUNTS), ";"),
    ),
    "with a time, as pandas writes it": (
        "ledger.csv",
        csv(rows(["2026-11-19 00:00:00", "2026-11-20 00:00:00"], OLDER, AMOUNTS)),
    ),
    "dates of a spreadsheet": (
        "ledger.xlsx",
        rows([date(2026, 11, 19), date(2026, 11, 20)], OLDER, AMOUNTS),
    ),
    "beside prices of the same days": (
        "ledger.csv",
        csv(
            rows(
                ["Qty 19/11/2026", "Price 19/11/2026", "Qty 20/11/2026", "Price 20/11/2026"],
                *(OLDER, OLDER, AMOUNTS, OLDER),
            )
        ),
    ),
    "in a row above equal titles": (
        "ledger.xlsx",
        [
            ["", "", "", "", date(2026, 11, 19), "", date(2026, 11, 20), ""],
            *rows(["Quantity", "Price", "Quantity", "Price"], OLDER, OLDER, AMOUNTS, OLDER),
        ],
    ),
    "a tab for each day, the oldest first": (
        "ledger.xlsx",
        {
            "2026-11-19": rows(["Amount"], OLDER),
            "2026-11-20": rows(["Amount"], AMOUNTS),
            "2026-11-21": rows(["Amount"], OLDER),
        },
    ),
    "in the upper of two rows of titles": (
        "ledger.csv",
        csv(
            [
                [*FIELDS, "2026-11-19", "2026-11-20"],
                ["", "", "", "", "Qty", "Qty"],
                *rows([], OLDER, AMOUNTS)[1:],
            ]
        ),
    ),
}


@pytest.mark.parametrize("name", some_daily(DAYS, 3))
def test_the_column_with_the_date_of_the_book_is_read(folder: AnswerFolder, name: str) -> None:
    """The column with the book's date is read, whatever its position and date format."""
    file, content = DAYS[name]
    folder.put(content, file)
    ran = folder.paste()
    assert_right(ran, FINEST)
    assert not ran.asked


def test_a_ledger_without_a_column_for_the_day_is_late(folder: AnswerFolder) -> None:
    """A ledger without a column for the book's date is late, like any ledger of a different day."""
    folder.put(csv(rows(["2026-10-31", "2026-11-19"], OLDER, AMOUNTS)), "ledger.csv")
    (asked,) = folder.paste().asked
    assert "The book is as of 2026-11-20, but ledger.csv is as of 2026-11-19" in asked.message


def test_a_workbook_without_a_tab_for_the_day_is_late(folder: AnswerFolder) -> None:
    """A workbook without a tab for the book's date is late, and its newest date is named."""
    tabs = {day: rows(["Amount"], AMOUNTS) for day in ("2026-11-18", "2026-11-19")}
    folder.put(tabs, "ledger.xlsx")
    (asked,) = folder.paste().asked
    assert "The book is as of 2026-11-20, but ledger.xlsx is as of 2026-11-19" in asked.message


def test_a_month_column_is_proposed_as_a_comment(folder: AnswerFolder) -> None:
    """A month's column is proposed with a `#`, because the month ends after the book's date."""
    folder.put(csv(rows(["Sep 2026", "Oct 2026", "Nov 2026"], OLDER, OLDER, AMOUNTS)), "ledger.csv")
    ran = folder.paste()
    assert ran.summary is None
    assert ran.asked[0].line == '[file."ledger.csv"]\n# amount = "Nov 2026"'
    assert "Remove the # only from the lines that are correct" in str(ran.asked[0])
    assert_right(folder.paste(1), FINEST)


def test_ambiguous_dates_are_read_as_the_date_of_the_book(tmp_path: Path) -> None:
    """If dates are ambiguous, the order in which one of them is the book's date is proposed.

    If both orders contain the book's date, pasting the lines settles nothing.
    """
    desk = Desk(tmp_path)
    desk.publish(BOOK, "20261102T021500Z")
    folder = AnswerFolder(desk.layout.database, tmp_path / "reconcile")
    for order in ("%d/%m/%Y", "%m/%d/%Y"):
        titles = [f"{date(2026, 11, day):{order}}" for day in (1, 2)]
        folder.put(csv(rows(titles, OLDER, AMOUNTS)), "ledger.csv")
        assert_right(folder.paste(), FINEST)
        (folder.root / "recon.toml").unlink()
    folder.put(csv(rows(["11/02/2026", "02/11/2026"], OLDER, AMOUNTS)), "ledger.csv")
    assert folder.paste().summary is None


# For each pivot table: the fields of its rows, the field of its columns, and its row titles.
PIVOTS = {
    "venues across, row labels are the portfolios": (
        ("portfolio", "asset"),
        "venue",
        ("Row Labels", "Asset"),
    ),
    "venues across, one called like a field": (
        ("portfolio", "asset"),
        "venue",
        ("Portfolio", "Asset"),
    ),
    "venues across, words of its own": (("portfolio", "asset"), "venue", ("Sleeve", "Thing")),
    "assets across, row labels": (("portfolio", "venue"), "asset", ("Row Labels", "Venue")),
    "assets across, German row labels": (("portfolio",), "asset", ("Zeilenbeschriftungen",)),
    "portfolios across": (("venue", "asset"), "portfolio", ("Étiquettes de lignes", "Coin")),
}


@pytest.mark.parametrize("name", some_daily(PIVOTS, 3))
def test_one_answer_reads_a_complete_pivot_table(folder: AnswerFolder, name: str) -> None:
    """One paste reads the whole table: no portfolio is lost, and no venue is read as an account."""
    lines, across, titles = PIVOTS[name]
    folder.put(csv(pivot(lines, across, titles)), "pivot.csv")
    ran = folder.paste()
    assert_right(ran, " ".join((*lines, across)))
    assert len(ran.asked) == 1


def test_several_possible_amount_columns_need_a_decision(folder: AnswerFolder) -> None:
    """If only a person knows which column is the amount, pasting the lines settles nothing."""
    folder.put(csv(rows(["Yesterday", "Today"], OLDER, AMOUNTS)), "ledger.csv")
    assert folder.paste().summary is None
    assert_right(folder.paste(2), FINEST)
