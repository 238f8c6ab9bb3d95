"""Tests of `reconcile verify`: it reports changed cells, but not the cells that people fill in."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, Desk, ledger
from tests.support.shared import some_daily
from warehouse.reconcile import service
from warehouse.reconcile.terms import NotReconciled
from warehouse.reconcile.workbook import write
from warehouse.reconcile.workbook.verify import VerifyResult

OFFICE = shutil.which("soffice")
NAMES = (
    "a\x01b",
    "\t=1",
    " two  spaces ",
    "new\nline",
    "a_x0041_b",
    "_x0041_x0042_",
    "<r>_x0041_</r>",
    "_x0041\x01",
    "007",
    "2026-01-01",
    "y" * 40_000,
)
Change = Callable[[Any], object]


def home(place: Path) -> Desk:
    """Create a home with matches, breaks, a custom asset and names that no cell can store."""
    made = Desk(place)
    odd = [
        Amount(str(n + 1), asset="DOT", portfolio=f"p{name}", venue=f"v{name}", account=name)
        for n, name in enumerate(NAMES)
    ]
    made.publish(
        [
            Amount("1523.123456789012345678"),
            Amount("20", asset="ETH"),
            Amount("7", asset="SOL"),
            Amount("3", asset="SOL", custom=True),
            *odd,
        ]
    )
    made.put(
        HEAD + "p1;BTC;v1;main;1523.2\np1;ETH;v1;main;22\np1;SOL;v1;main;7.0\np1;??;v1;main;1\n"
    )
    return made


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a separate home before its first run."""
    return home(tmp_path)


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Create a home after its run. Tests must not change it."""
    made = home(tmp_path_factory.mktemp("settled"))
    made.run()
    return made


def written(desk: Desk) -> Path:
    """Return the path of the workbook. Run first if there is none."""
    (book,) = [*desk.folder.out.glob("*/recon_*.xlsx")] or [desk.run().files[0]]
    return book


def changed(desk: Desk, change: Change) -> VerifyResult:
    """Change a copy of the workbook and verify the copy."""
    book = openpyxl.load_workbook(written(desk))
    book.written_to = written(desk)
    change(book)
    copy = desk.home / "copy.xlsx"
    book.save(copy)
    return service.verify(desk.folder.root, copy)


def cell(book: Any, sheet: str, where: tuple[str, str], title: str) -> Any:
    """Return the cell under `title` in the first row with the value `where[1]` under `where[0]`."""
    rows = list(book[sheet].iter_rows())
    (head,) = [row for row in rows[:3] if title in [one.value for one in row]]
    titles = [one.value for one in head]
    place, at = titles.index(where[0]), titles.index(title)
    return next(row[at] for row in rows if row[place].value == where[1])


def put(sheet: str, where: tuple[str, str], title: str, value: object) -> Change:
    """Return a function that writes a value into a cell."""

    def change(book: Any) -> None:
        cell(book, sheet, where, title).value = value

    return change


def headed(sheet: str, title: str, other: str | None) -> Change:
    """Return a function that changes the title of a column."""

    def change(book: Any) -> None:
        head = [one for row in book[sheet].iter_rows(max_row=2) for one in row]
        next(one for one in head if one.value == title).value = other

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    some_daily(
        [
            (put("Breaks", ("Asset", "BTC"), "Asset", "ETH"), ": Asset was 'BTC' and is now 'ETH'"),
            (
                put("Breaks", ("Asset", "BTC"), "Portfolio", "X"),
                ": Portfolio was 'Portfolio p1' and",
            ),
            (
                put("Breaks", ("Asset", "BTC"), "Venue", "X"),
                ": Venue was 'Venue v1' and is now 'X'",
            ),
            (
                put("Breaks", ("Asset", "BTC"), "Account", "X"),
                ": Account was 'main' and is now 'X'",
            ),
            (put("Breaks", ("Asset", "BTC"), "Bucket", "X"), ": Bucket was '' and is now 'X'"),
            (
                put("Breaks", ("Asset", "BTC"), "Result", "Matched"),
                ": Result was 'Amount differs' and",
            ),
            (
                put("Breaks", ("Asset", "ETH"), "Difference, exact", "0"),
                ": Difference, exact was '2' and is",
            ),
            (put("Breaks", ("Asset", "ETH"), "Break ID", "B-00000000"), " and is now 'B-00000000'"),
            (put("Breaks", ("Asset", "ETH"), "Break ID", "none"), " and is now 'none'"),
            (headed("Breaks", "Ledger, exact", "Ledger"), "the 'Ledger, exact' column is missing"),
            (headed("Breaks", "Book, exact", None), "the 'Book, exact' column is missing"),
            (headed("Breaks", "Difference, exact", "Ledger, exact"), "more than once"),
            (
                put("Tie-out", ("Asset", "ETH"), "Ledger, exact", "20"),
                "ETH: Ledger, exact was '22' and is",
            ),
            (
                put("Tie-out", ("Asset", "ETH"), "Difference, exact", "0"),
                "ETH: Difference, exact was '2' and",
            ),
            (
                put("Tie-out", ("Asset", "ETH"), "In breaks, exact", "0"),
                "ETH: In breaks, exact was '2' and",
            ),
            (put("Tie-out", ("Asset", "ETH"), "Breaks", 0), "ETH: Breaks was '1' and is now '0'"),
            (
                put("Tie-out", ("Asset", "ETH"), "Result", "equal"),
                "ETH: Result was 'differs' and is",
            ),
            (
                put("Tie-out", ("Asset", "ETH"), "Asset", "XYZ"),
                "Tie-out, asset / ETH / ETH: Asset was 'ETH' and is now 'XYZ'",
            ),
            (headed("Tie-out", "Asset", "Coin"), "Tie-out: the 'Asset' column is missing"),
            (lambda book: book.remove(book["Tie-out"]), "Tie-out is missing"),
            (
                put("Roll-forward", ("Asset", "ETH"), "Ledger closing", "1"),
                "Ledger closing was '22' and",
            ),
            (lambda book: book.remove(book["Roll-forward"]), "Roll-forward is missing"),
            (
                put("All positions", ("Asset", "SOL"), "Ledger, exact", "8"),
                "All positions, Portfolio p1 / SOL / Venue v1 / main: Ledger, exact was '7'",
            ),
            (
                put("All positions", ("Asset", "SOL"), "Asset", "BTC"),
                "/ SOL / Venue v1 / main is missing",
            ),
            (
                put("All positions", ("Asset", "ETH"), "Result", "Matched"),
                "Result was 'Amount differs'",
            ),
            (put("All positions", ("Asset", "ETH"), "Break ID", None), "Break ID was 'B-"),
            (
                put("All positions", ("Asset", "SOL"), "Ledger rows", 2),
                "Ledger rows was '1' and is now '2'",
            ),
            (
                headed("All positions", "Book, exact", "Other"),
                "the 'Book, exact' column is missing",
            ),
            (lambda book: book["All positions"].delete_rows(3), " is missing"),
            (lambda book: book.remove(book["All positions"]), "All positions is missing"),
            (
                lambda book: book["All positions"].append(
                    [c.value for c in book["All positions"][2]]
                ),
                " appears 2 times, but the run wrote it 1 time",
            ),
        ],
        6,
    ),
)
def test_every_changed_figure_or_name_is_reported(
    settled: Desk, change: Change, words: str
) -> None:
    """A changed name, result, count or exact amount is reported, whichever sheet it is on."""
    found = changed(settled, change)
    assert not found.is_whole
    assert any(words in one for one in found.differences), found.differences


def test_a_changed_cell_is_reported_as_one_difference(settled: Desk) -> None:
    """A changed cell is reported as one difference, with the old and the new value."""
    change = put("Tie-out", ("Asset", "ETH"), "Book, exact", "20.000000000000000001")
    assert changed(settled, change).differences == (
        "Tie-out, asset / ETH / ETH: Book, exact was '20' and is now '20.000000000000000001'",
    )


def test_the_message_lists_the_compared_sheets(settled: Desk) -> None:
    """The message for an unchanged workbook lists the compared sheets with their rows.

    It also says which cells were not compared.
    """
    book = written(settled)
    found = service.verify(settled.folder.root, book)
    assert (found.differences, found.uncompared) == ((), ())
    ties = len(settled.folder.result_of(found.run_id).ties)  # type: ignore[union-attr]  # it ran
    assert found.message == (
        f"{book}: 15 rows of Breaks, {ties} rows of Tie-out, 6 rows of Roll-forward, 16 rows of "
        "All positions and every other cell of Summary, Breaks, Resolved, Tie-out, Roll-forward, "
        f"Notices, Mapping, Evidence, Audit trail, Help, Lists have not changed since "
        f"run {found.run_id} wrote them. Numbers, text, names and formulas were compared, but not "
        "the cells that people fill in."
    )


def people(book: Any) -> None:
    """Write into all fields for people, and sign."""
    for title in ("Status", "Owner", "Root cause", "Comment"):
        cell(book, "Breaks", ("Asset", "ETH"), title).value = "Waiting"
    sheet = book["Summary"]
    next(row for row in sheet.iter_rows() if row[0].value == "Prepared by")[1].value = "Ada"


def moved(book: Any) -> None:
    """Reverse the rows and columns of three sheets, move them down and rename the sheets.

    Like a spreadsheet program, write the results of formulas into the cells.
    """
    for name, top in (("Breaks", 2), ("Tie-out", 2), ("All positions", 1)):
        sheet = book[name]
        values = openpyxl.load_workbook(book.written_to, data_only=True)[name]
        every = list(values.iter_rows(values_only=True))
        above, rows = every[: top - 1], every[top - 1 :]
        last = next((n for n, row in enumerate(rows) if not any(row)), len(rows))
        lines = [*above, rows[0], *reversed(rows[1:last]), *rows[last:]]
        sheet.delete_rows(1, sheet.max_row)
        for number, line in enumerate(lines, 4):
            for place, value in enumerate(reversed(line), 2):
                made = sheet.cell(number, place, value)
                made.data_type = "s" if isinstance(value, str) else made.data_type
        sheet.title = f"My {name}"


def as_it_is(book: Any) -> None:
    """Change nothing."""
    del book


@pytest.mark.parametrize("change", [people, moved, as_it_is])
def test_permitted_edits_are_not_differences(settled: Desk, change: Change) -> None:
    """Filled-in fields, moved rows and columns, and missing formula results are not differences."""
    found = changed(settled, change)
    assert (found.differences, found.uncompared) == ((), ())


def saved_by_libreoffice(book: Path, place: Path, ending: str) -> Path:
    """Open the workbook in LibreOffice, save a copy and return its path."""
    command = [OFFICE or "", f"-env:UserInstallation=file://{place}/profile", "--headless"]
    command += ["--convert-to", ending, "--outdir", str(place), str(book)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return place / f"{book.stem}.{ending}"


@pytest.mark.torture
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
@pytest.mark.parametrize("ending", ["xlsx", "ods"])
def test_a_copy_saved_by_libreoffice_has_no_differences(
    settled: Desk, long_amounts: Desk, tmp_path: Path, ending: str
) -> None:
    """A copy saved by LibreOffice has no differences in formulas, names or numbers."""
    for number, made in enumerate((settled, long_amounts)):
        copy = saved_by_libreoffice(written(made), tmp_path / str(number), ending)
        found = service.verify(made.folder.root, copy)
        assert (found.differences, found.uncompared) == ((), ())


@pytest.fixture(scope="module")
def long_amounts(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Create a home after its run, with amounts of 15 to 38 digits. A number cell stores 15."""
    rng = Random(1)

    def amount(number: int) -> str:
        digits = 15 + number % 24
        text = str(rng.randrange(10 ** (digits - 1), 10**digits))
        whole = rng.randrange(max(1, digits - 18), min(digits, 20) + 1)
        return ".".join(filter(None, (text[:whole], text[whole:])))

    rows = [
        Amount(amount(n), asset=f"A{n % 40}", venue=f"v{n % 3}", account=str(n)) for n in range(120)
    ]
    made = Desk(tmp_path_factory.mktemp("long"))
    made.publish(rows)
    made.put(ledger(replace(a, text=amount(n)) if n % 4 else a for n, a in enumerate(rows)))
    made.run()
    return made


def numbers(book: Any) -> Iterator[Any]:
    """Yield the cells with a number that is not a whole number."""
    for sheet in book:
        for row in sheet.iter_rows():
            yield from (one for one in row if isinstance(one.value, float))


def with_another_last_digit(book: Any) -> None:
    """Change each number by one unit in its fifteenth digit."""
    for one in numbers(book):
        digits, _, power = format(one.value, ".14e").partition("e")
        unit = -1 if digits.endswith("9") else 1
        one.value = float(f"{digits[:-1]}{int(digits[-1]) + unit}e{power}")


@pytest.mark.parametrize("save", [as_it_is, with_another_last_digit])
def test_numbers_rounded_by_a_program_are_not_differences(long_amounts: Desk, save: Change) -> None:
    """A program may save 15 or 16 digits of a longer number, which can change the last one."""
    found = changed(long_amounts, save)
    assert (found.differences, found.uncompared) == ((), ())


WITH_AMOUNTS = ("Summary", "Breaks", "Tie-out", "Roll-forward", "All positions")


def a_number_of_each_sheet(book: Any) -> None:
    """Change one number per sheet in its thirteenth digit, and all numbers in the fifteenth."""
    with_another_last_digit(book)
    for sheet in WITH_AMOUNTS:
        next(one for one in numbers(book) if one.parent.title == sheet).value *= 1 + 4e-13


def a_text_of_each_table(book: Any) -> None:
    """Change an exact amount per table in its last digit, and all numbers in the fifteenth."""
    with_another_last_digit(book)
    for sheet in WITH_AMOUNTS[1:]:
        cells = [one for row in book[sheet].iter_rows(min_row=3) for one in row]
        texts = (one for one in cells if isinstance(one.value, str))
        exact = next(one for one in texts if re.fullmatch(r"-?[0-9.]{15,}", one.value))
        exact.value = exact.value[:-1] + ("1" if exact.value[-1] != "1" else "2")


@pytest.mark.parametrize(
    ("change", "count"), [(a_number_of_each_sheet, 5), (a_text_of_each_table, 4)]
)
def test_a_change_beyond_rounding_is_a_difference(
    long_amounts: Desk, change: Change, count: int
) -> None:
    """A larger change of a number is a difference, and so is one digit of an exact amount."""
    assert len(changed(long_amounts, change).differences) == count


def doubled(book: Any) -> None:
    """Write the first row of Breaks a second time, below the last row."""
    sheet, line = book["Breaks"], book["Breaks"].max_row + 1
    values = openpyxl.load_workbook(book.written_to, data_only=True)["Breaks"]
    for column, one in enumerate(values[3], 1):
        made = sheet.cell(line, column, one.value)
        made.data_type = one.data_type


def moved_away(book: Any) -> None:
    """Copy Breaks to a new sheet, and delete the first row on Breaks itself."""
    book.copy_worksheet(book["Breaks"])
    book["Breaks"].delete_rows(3)


def moved_up(book: Any) -> None:
    """Exchange the last row of Roll-forward with the title above the header."""
    sheet = book["Roll-forward"]
    title, last = sheet[1], sheet[sheet.max_row]
    for one, other in zip(title, last, strict=True):
        one.value, other.value = other.value, one.value


def forged_copy(book: Any) -> None:
    """Copy Breaks to a new sheet, and change a result on the copy."""
    book.copy_worksheet(book["Breaks"])
    cell(book, "Breaks Copy", ("Asset", "ETH"), "Result").value = "Matched"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (doubled, "appears 2 times, but the run wrote it 1 time"),
        (moved_away, "is missing"),
        (moved_up, "above the header"),
        (forged_copy, "was not written by the run"),
    ],
)
def test_a_duplicate_moved_or_forged_row_is_reported(
    settled: Desk, change: Change, words: str
) -> None:
    """A duplicate, missing, moved or forged row is reported, even if the sheet was copied."""
    found = changed(settled, change)
    assert any(words in one for one in found.differences), found.differences


def test_a_copied_sheet_is_not_a_difference(settled: Desk) -> None:
    """A copied sheet is not a difference, and `verify` reports that the run did not write it."""
    found = changed(settled, lambda book: book.copy_worksheet(book["Breaks"]))
    assert found.differences == ()
    assert found.uncompared == ("the 'Breaks Copy' sheet was not written by the run",)


def test_a_long_table_is_compared_on_all_its_sheets(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that continues on several sheets is compared on all of them.

    If one of these sheets is deleted, its rows are reported as missing.
    """
    monkeypatch.setattr(write.write, "__kwdefaults__", {"rows_per_sheet": 4})
    assert changed(desk, people).is_whole
    found = changed(desk, lambda book: book.remove(book["All positions 3"]))
    assert sum(one.endswith("is missing") for one in found.differences) == 4


def test_the_not_matched_sheet_is_compared(desk: Desk) -> None:
    """If only positions that do not match are listed, the Not matched sheet is compared."""
    desk.settle("listed = 3\n")
    found = service.verify(desk.folder.root, written(desk))
    assert found.is_whole
    assert found.compared[3] == "15 rows of Not matched"
    change = put("Not matched", ("Asset", "ETH"), "Book, exact", "22")
    assert "Book, exact was '20'" in changed(desk, change).differences[0]


def gone(desk: Desk, file: Path) -> None:
    """Delete the Parquet file."""
    file.unlink()


def damaged(desk: Desk, file: Path) -> None:
    """Truncate the Parquet file."""
    file.write_bytes(file.read_bytes()[:-9])


def of_another_run(desk: Desk, file: Path) -> None:
    """Change the ledger and run, which replaces the Parquet file."""
    desk.put(HEAD + "p1;BTC;v1;main;1\n")
    desk.run()


@pytest.mark.torture
@pytest.mark.parametrize(
    ("become", "words"),
    [(gone, "is missing"), (damaged, "cannot be read"), (of_another_run, "belongs to run ")],
)
def test_a_sheet_without_its_parquet_file_is_not_compared(
    desk: Desk, become: Callable[[Desk, Path], None], words: str
) -> None:
    """If the Parquet file is missing, damaged or from a different run, its sheet is not compared.

    The other sheets are still compared, and the message says why this one was not.
    """
    ran = desk.run()
    copy = Path(shutil.copy(ran.files[0], desk.home / "copy.xlsx"))
    become(desk, ran.files[2])
    found = service.verify(desk.folder.root, copy)
    assert found.is_whole
    assert "rows of All positions" not in found.message
    start = "All positions was not compared: positions_2026-11-20.parquet "
    (told,) = (one for one in found.uncompared if one.startswith(start))
    assert words in told


def test_only_stored_tables_are_compared_without_the_stored_cells(desk: Desk) -> None:
    """Without the cells of a run, the tables are compared with its result, and nothing else."""
    book = written(desk)
    desk.run()
    with desk.folder.transaction() as connection:
        connection.execute("update runs set written = ''")
        connection.execute("delete from imprints")
    found = service.verify(desk.folder.root, book)
    assert found.is_whole
    assert found.compared[0] == "15 rows of Breaks"
    assert len(found.compared) == 4
    (told,) = found.uncompared
    assert told.startswith("number cells, Summary and other sheets were not compared, because")


def test_a_workbook_of_another_wording_is_refused(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workbook of an older version may have other titles, so it is refused with the remedy."""
    book = written(desk)
    monkeypatch.setattr("warehouse.reconcile.workbook.verify.WORDING", 10)
    with pytest.raises(NotReconciled, match=r"an older version of nightbook.* rerun its day"):
        service.verify(desk.folder.root, book)


def test_a_sheet_with_many_differences_is_reported_briefly(
    settled: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If many rows of a sheet differ, the first ones are reported, and the others are counted."""
    monkeypatch.setattr("warehouse.reconcile.workbook.row_comparison.MAX_ROWS", 2)
    found = changed(settled, lambda book: book["All positions"].delete_rows(2, 5))
    assert len(found.differences) == 3
    assert found.differences[-1] == "All positions: 3 more rows differ"


def test_a_file_that_is_not_a_workbook_is_refused(settled: Desk) -> None:
    """A missing file, an empty file and a file that is not a workbook are refused."""
    written(settled)
    (settled.home / "empty.xlsx").touch()
    for name in ("none.xlsx", "empty.xlsx", "reconcile/inbox/ledger.csv"):
        with pytest.raises(NotReconciled, match="Nothing was verified"):
            service.verify(settled.folder.root, settled.home / name)


def test_verify_reports_that_a_result_was_replaced(desk: Desk) -> None:
    """If a later run replaced the result, `verify` reports this for the earlier workbook."""
    copy = Path(shutil.copy(desk.run().files[0], desk.home / "earlier.xlsx"))
    checked = service.verify(desk.folder.root, copy)
    assert not any("replaced" in words for words in checked.uncompared)
    desk.put(HEAD + "p1;BTC;v1;main;77\n")
    desk.run()
    checked = service.verify(desk.folder.root, copy)
    assert any("replaced" in words for words in checked.uncompared)
