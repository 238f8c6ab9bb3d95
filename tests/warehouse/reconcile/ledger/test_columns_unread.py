"""Tests of ledgers with content that is unread, misread or of a different day: all is reported.

The report is on the first sheet of the workbook, or in a question with the line for recon.toml.
"""

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import NOW, Desk, DeskRun, ledger
from tests.support.shared import some_daily
from warehouse.reconcile import service
from warehouse.reconcile.settings.config import TEMPLATE
from warehouse.reconcile.terms import Ambiguous, NotReconciled

BOOK = [
    Amount("10"),
    Amount("5", venue="v2", account="cold"),
    Amount("7", portfolio="p2"),
    Amount("100", portfolio="p2", asset="ETH"),
    Amount("3", asset="SOL", venue="v2", account="cold"),
]
MOVED = [
    Amount("8"),
    Amount("5", venue="v2", account="cold"),
    Amount("9", portfolio="p2"),
    *BOOK[3:],
]
WHOLE = ledger(BOOK)
Cells = Sequence[Sequence[object]]
ROWS: Cells = [line.split(";") for line in WHOLE.splitlines()]
EXTRA: Cells = [["asset", "units"], ["BTC", 1000]]


@dataclass(frozen=True, slots=True)
class Place:
    """The reconciliation folder of one case."""

    database: Path
    root: Path

    @property
    def inbox(self) -> Path:
        """Return the folder of its ledgers."""
        return self.root / "inbox"

    def put(self, text: str, name: str = "ledger.csv") -> Path:
        """Write a text file into the inbox."""
        path = self.inbox / name
        path.write_text(text, encoding="utf-8")
        return path

    def settle(self, lines: str) -> None:
        """Append lines to recon.toml, as a question asks a person to do."""
        config = self.root / "recon.toml"
        before = config.read_text(encoding="utf-8") if config.exists() else TEMPLATE
        config.write_text(f"{before}\n{lines}\n", encoding="utf-8")

    def change(self, line: str, other: str) -> Path:
        """Write recon.toml with one line of the template changed."""
        path = self.root / "recon.toml"
        path.write_text(TEMPLATE.replace(line, other), encoding="utf-8")
        return path

    def link(self, name: str, target: Path) -> Path:
        """Create a symbolic link in the inbox."""
        path = self.inbox / name
        path.symlink_to(target)
        return path

    def folder(self, name: str) -> Path:
        """Create a folder in the inbox."""
        path = self.inbox / name
        path.mkdir()
        return path

    def run(self, day: date | None = None) -> DeskRun:
        """Run the reconciliation."""
        ran = service.run(
            self.database,
            self.root,
            as_of=day,
            program_version="0.0.0",
            now=NOW,
            pause=lambda: None,
        )
        return DeskRun.of(ran)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish one book for all cases, and return the path of its database."""
    made = Desk(tmp_path_factory.mktemp("home"))
    made.publish(BOOK)
    return made.layout.database


@pytest.fixture
def place(database: Path, tmp_path: Path) -> Place:
    """Return an empty reconciliation folder over that book."""
    (tmp_path / "inbox").mkdir()
    return Place(database, tmp_path)


def texts(rows: Sequence[Amount], columns: dict[str, str]) -> str:
    """Return a ledger with the fields in `columns`, which gives the title of each field."""
    lines = [";".join(columns.values())]
    for row in rows:
        cells = [row.text if name == "amount" else getattr(row, name) for name in columns]
        lines.append(";".join(cells))
    return "\n".join(lines) + "\n"


def added(column: str, value: Callable[[int], str], rows: str = WHOLE) -> str:
    """Return the ledger with one more column."""
    head, *lines = rows.splitlines()
    more = [f"{line};{value(number)}" for number, line in enumerate(lines)]
    return "\n".join([f"{head};{column}", *more]) + "\n"


def book(
    place: Place,
    tabs: dict[str, Cells],
    change: Callable[[openpyxl.Workbook], object] | None = None,
    name: str = "ledger.xlsx",
) -> None:
    """Write a workbook with several tabs into the inbox."""
    made = openpyxl.Workbook()
    made.remove(made.active)
    for title, rows in tabs.items():
        sheet = made.create_sheet(title)
        for row in rows:
            sheet.append(list(row))
    if change is not None:
        change(made)
    made.save(place.inbox / name)


def hide(tab: str) -> Callable[[openpyxl.Workbook], None]:
    """Return a function that hides a tab."""

    def change(made: openpyxl.Workbook) -> None:
        made[tab].sheet_state = "hidden"

    return change


def hide_column(made: openpyxl.Workbook) -> None:
    """Hide the column with the accounts."""
    made["Ledger"].column_dimensions["D"].hidden = True


def hide_row(made: openpyxl.Workbook) -> None:
    """Hide a row."""
    made["Ledger"].row_dimensions[3].hidden = True


def archive(place: Place, name: str, text: str, member: str = "ledger.csv") -> Path:
    """Write an archive with one member into the inbox."""
    path = place.inbox / name
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(member, text)
    return path


def moved_days(first: str) -> Callable[[int], str]:
    """Return a function that gives `first` for every third row, and else the book's date."""
    return lambda number: first if number % 3 == 1 else "2026-11-20"


ALL = {"portfolio": "portfolio", "asset": "asset", "venue": "venue", "account": "account"}
LEDGER = {"Ledger": ROWS}
ODD_COLUMNS = {"asset": "asset", "portfolio": "Desk name", "amount": "amount"}
PIVOT = "asset;Kraken;Binance;Total\nBTC;15;7;22\nETH;0;100;100\nSOL;3;0;3\n"
SHORT = [
    Amount("9.91"),
    Amount("4.956", venue="v2", account="cold"),
    Amount("6.94", portfolio="p2"),
    *BOOK[3:],
]
CASES: dict[str, tuple[Callable[[Place], object], str]] = {
    "an unknown column of the portfolios, and units moved between them": (
        lambda at: at.put(texts(MOVED, ODD_COLUMNS)),
        "'Desk name' (p1, p2)",
    ),
    "portfolioName;accountName, and units moved": (
        lambda at: at.put(
            texts(MOVED, {"portfolio": "portfolioName", "asset": "assetId", "amount": "amount"})
        ),
        "2 open breaks",
    ),
    "Fund Name, and units moved": (
        lambda at: at.put(
            texts(MOVED, {"portfolio": "Fund Name", "asset": "Asset", "amount": "Quantity"})
        ),
        "2 open breaks",
    ),
    "Subsidiary, and units moved": (
        lambda at: at.put(
            texts(MOVED, {"portfolio": "Subsidiary", "asset": "Asset", "amount": "Quantity"})
        ),
        "2 open breaks",
    ),
    "a column without a title that holds the accounts": (
        lambda at: at.put(texts(BOOK, ALL | {"account": "", "amount": "amount"})),
        "'column D' (main, cold)",
    ),
    "a level that the ledger cannot give": (
        lambda at: (
            at.put(texts(MOVED, {"asset": "asset", "amount": "amount"})),
            at.change('level = "auto"', 'level = ["portfolio", "asset"]'),
        ),
        "no column for portfolio",
    ),
    "a coarse file beside a fine one in which units moved": (
        lambda at: (
            at.put(ledger(MOVED[:3]), "fine.csv"),
            at.put("asset;amount\nETH;100\nSOL;3\n", "coarse.csv"),
        ),
        "2 open breaks",
    ),
    "a tab that is not understood, with an adjustment": (
        lambda at: book(at, LEDGER | {"Manual": [["what", "how many"], ["BTC lost", -4]]}),
        "'Manual'",
    ),
    "a hidden tab with an adjustment": (
        lambda at: book(at, LEDGER | {"Adj": EXTRA}, hide("Adj")),
        "'Adj' (hidden)",
    ),
    "a hidden tab that is not understood": (
        lambda at: book(at, LEDGER | {"Adj": [["BTC", 1000]]}, hide("Adj")),
        "'Adj' (hidden)",
    ),
    "the ledger itself is a hidden tab": (
        lambda at: book(at, {"Cover": [["Ledger of tonight"]]} | LEDGER, hide("Ledger")),
        "the sheet is hidden, but it was read",
    ),
    "a tab of words": (
        lambda at: book(at, LEDGER | {"Read me": [["Prepared by Ada"]]}),
        "Read me",
    ),
    "a hidden column": (lambda at: book(at, LEDGER, hide_column), "hidden column 'account'"),
    "a hidden row": (lambda at: book(at, LEDGER, hide_row), "1 hidden or filtered rows"),
    "a tolerance of a hundredth, and nine thousandths are missing everywhere": (
        lambda at: (at.put(ledger(SHORT)), at.change('relative = "0"', 'relative = "0.01"')),
        "too large in total",
    ),
    "two columns of amounts": (
        lambda at: at.put(added("GL amount", lambda number: str(number * 7 + 1))),
        "'GL amount' (1, 8, ",
    ),
    "a pivot's total": (lambda at: at.put(PIVOT), "'Kraken' (15, 0, "),
    "an archive of another kind": (
        lambda at: (at.put(WHOLE), at.put("7z", "custody.7z")),
        "custody.7z: not used: files of this type (.7z) are not read: unpack it",
    ),
    "an archive in an archive": (
        lambda at: (at.put(WHOLE), archive(at, "custody.zip", "PK", "spot.zip")),
        "custody.zip/spot.zip: not used: it is an archive in an archive",
    ),
    "an archive with a statement": (
        lambda at: (at.put(WHOLE), archive(at, "custody.zip", "%PDF", "a/b.pdf")),
        "custody.zip/a/b.pdf",
    ),
    "half an archive": (
        lambda at: (at.put(WHOLE), at.put("PK", "custody.zip")),
        "custody.zip: not used: it is not a complete archive",
    ),
    "a name that leads out of an archive": (
        lambda at: (at.put(WHOLE), archive(at, "custody.zip", WHOLE, "../../ledger.csv")),
        "its path leads outside the archive",
    ),
    "a flat spreadsheet of OpenDocument without a table": (
        lambda at: (at.put(WHOLE), at.put("<office:document/>", "more.fods")),
        "more.fods does not contain a table",
    ),
    "a bank's XML": (
        lambda at: (at.put(WHOLE), at.put("<?xml version='1.0'?><Document/>", "camt.xml")),
        "camt.xml: not used: it is XML, but not a spreadsheet",
    ),
    "a statement on paper": (
        lambda at: (at.put(WHOLE), at.put("%PDF-1.7", "statement.pdf")),
        "files of this type (.pdf) are not read",
    ),
    "a folder with a ledger in it": (
        lambda at: (at.put(WHOLE), at.folder("kraken"), at.put(WHOLE, "kraken/l.csv")),
        "this is a folder",
    ),
    "a link to a ledger elsewhere": (
        lambda at: (at.put(WHOLE), at.link("more.csv", at.put(WHOLE, "../x.csv"))),
        "it is a symbolic link",
    ),
    "a copy of the same day with another number": (
        lambda at: (at.put(WHOLE), at.put(ledger(MOVED), "ledger (1).csv")),
        "ledger.csv and ledger (1).csv differ",
    ),
    "a second version of the same day": (
        lambda at: (
            at.put(WHOLE, "ledger-2026-11-20.csv"),
            at.put(ledger(MOVED), "ledger-2026-11-20_v2.csv"),
        ),
        "ledger-2026-11-20_v2.csv differ",
    ),
    "the same bytes under two names": (
        lambda at: (at.put(WHOLE), at.put(WHOLE, "kraken.csv")),
        "it has the same content as",
    ),
    "a date of the last movement": (
        lambda at: at.put(added("Date", moved_days("2026-11-03"))),
        "date of the last movement",
    ),
    "rows of another day beside those of the book, one of a key that has no other": (
        lambda at: at.put(
            "portfolio;asset;venue;account;amount;date\n"
            + "".join(
                f"{row.portfolio};{row.asset};{row.venue};{row.account};{row.text};2026-11-{day}\n"
                for day in (18, 19, 20)
                for row in BOOK
            )
            + "".join(f"p1;BTC;v1;old-{n};1;2026-11-18\n" for n in range(1))
        ),
        "a date other than 2026-11-20",
    ),
    "a ledger of another day by its name": (
        lambda at: at.put(WHOLE, "ledger-2026-11-19.csv"),
        "2026-11-19",
    ),
    "amounts above the header": (
        lambda at: at.put("Adjustment BTC;-4;;;\n" + WHOLE),
        "above the header",
    ),
    "an adjustment below a line that says total": (
        lambda at: at.put(WHOLE + "Total;;;;125\n"),
        "total line",
    ),
    "a note with a number in the first column": (
        lambda at: at.put(WHOLE + "less 4 BTC not booked;;;;\n"),
        "title or note",
    ),
    "a column of prices": (
        lambda at: at.put(added("Price USD", lambda number: f"{number}.5")),
        "'Price USD'",
    ),
    "one line of twelve million bytes": (
        lambda at: at.put("asset;amount;" + "x;" * 6_000_000),
        "has a line of more than",
    ),
}


def said(place: Place) -> tuple[int, str]:
    """Return the exit code and the text that a person reads first: the message or first sheet."""
    try:
        ran = place.run()
    except (Ambiguous, NotReconciled) as error:
        return error.exit_code, str(error)
    if not ran.files:
        return ran.exit_code, ran.message
    sheet = openpyxl.load_workbook(ran.files[0], data_only=True)["Summary"]
    cells = (str(cell) for row in sheet.iter_rows(values_only=True) for cell in row if cell)
    return ran.exit_code, "\n".join(cells)


@pytest.mark.parametrize("name", some_daily(CASES, 6))
def test_unread_or_misread_content_is_always_reported(place: Place, name: str) -> None:
    """Content that is unread, misread or of a different day is named where a person looks first."""
    put, word = CASES[name]
    put(place)
    code, told = said(place)
    assert word in told, (code, told)


def test_the_table_has_thirty_cases() -> None:
    """The table has at least 30 cases."""
    assert len(CASES) >= 30
