"""Tests of texts for finance: usual terms, one order of columns, and no page without rows."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, NOW, Desk, ledger
from warehouse.reconcile import service
from warehouse.reconcile.close.close import close
from warehouse.reconcile.model import SETTINGS_DIGEST
from warehouse.reconcile.record import views
from warehouse.reconcile.record.views import history_lines, trends

OFFICE = shutil.which("soffice")
# Terms that readers in finance do not use, except in the texts for machines below.
UNUSED = re.compile(
    r"snapshot|(?<!\")\bkeys?\b|nobody|(?-i:OPEN BREAKS)|\b1 open breaks|\bstood\b|ever seen"
    r"|\bepisode|no part of the|proves itself|10\^|^(was|words|about|perhaps|per|of|in all)$",
    re.IGNORECASE,
)
MACHINES = (SETTINGS_DIGEST, "Key")  # a title for lookups, and a digest
DAYS = ("20261119", "20261120", "20261121")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Create a home with a closed month of three nights and a break of each result.

    One break returned on the third night, and one was resolved.
    """
    made = Desk(tmp_path_factory.mktemp("words"))
    rows = [
        Amount("1523.123456789012345678"),
        Amount("5", asset="ETH"),
        Amount("12.5", asset="SOL", account="cold-1"),
        Amount("3", asset="DOT"),
        Amount("7", asset="ADA"),
        Amount("8", asset="XRP"),
    ]
    same = "p1;SOL;v1;Vault;12.5\np1;??;v1;main;1\np1;DOT;v1;main;TBC\np1;XRP;v1;main;8000\n"
    ledgers = (
        f"p1;BTC;v1;main;11\np1;ETH;v1;main;6\n{same}",
        f"p1;BTC;v1;main;1523.123456789012345678\np1;ETH;v1;main;5\n{same}",
        f"p1;BTC;v1;main;12\np1;ETH;v1;main;5\n{same}",
    )
    for day, lines in zip(DAYS, ledgers, strict=True):
        made.publish(rows, f"{day}T021500Z")
        made.put(HEAD + lines)
        made.run()
    database, root = made.layout.database, made.folder.root
    close(database, root, "2026-11", who="Cy", now=NOW, program_version="0.0.0")
    return made


def books(desk: Desk) -> list[Path]:
    """Return the paths of the workbooks of all nights."""
    return sorted(desk.folder.out.glob("*/recon_*.xlsx"))


def texts(book: Path) -> Iterator[tuple[str, str]]:
    """Yield each text and each cell comment in a workbook with its location."""
    for sheet in openpyxl.load_workbook(book, data_only=True):
        for cell in (cell for row in sheet.iter_rows() for cell in row):
            for text in (cell.value, cell.comment and cell.comment.text):
                if isinstance(text, str):
                    yield f"{sheet.title}!{cell.coordinate}", text


def test_texts_for_finance_use_the_usual_terms(desk: Desk) -> None:
    """Workbooks, the first page of the pack and histories use the usual terms of finance."""
    said = [pair for book in books(desk) for pair in texts(book)]
    page = (desk.folder.root / "packs" / "2026-11.html").read_text("utf-8")
    said.append(("page", re.sub(r"<style>.*</style>|<[^>]*>", " ", page, flags=re.DOTALL)))
    for one in desk.breaks():
        history = service.history(desk.folder.root, str(one["id"]))
        said += [("history", line) for line in history_lines(history)]
    found = [(place, text) for place, text in said if UNUSED.search(text) and text not in MACHINES]
    assert found == []
    assert len(said) > 1000


@pytest.mark.parametrize(("count", "banner"), [(0, "0 open breaks"), (1, "1 open break")])
def test_one_open_break_is_singular(tmp_path: Path, count: int, banner: str) -> None:
    """The banner says "1 open break", but "0 open breaks"."""
    made = Desk(tmp_path)
    made.publish([Amount("1")])
    made.put(HEAD + f"p1;BTC;v1;main;{1 + count}\n")
    book = made.run().files[0]
    shown = [text for place, text in texts(book) if place.startswith("Summary!A")]
    assert f"{banner} ({count} in total)" in shown


def test_all_tables_have_the_same_column_order(desk: Desk) -> None:
    """All tables use the order Portfolio, Asset, Venue, Account, Ledger, Book, Difference."""
    book = openpyxl.load_workbook(books(desk)[-1], data_only=True)
    heads = [
        [cell for cell in row if cell]
        for sheet in book
        for row in sheet.iter_rows(values_only=True)
        if {"Ledger", "Book"} <= set(row)
    ]
    assert len(heads) == 4
    order = ("Portfolio", "Asset", "Venue", "Account", "Ledger", "Book", "Difference")
    for head in heads:
        known = [title for title in head if title in order]
        assert known == sorted(known, key=order.index), head
    assert next(head for head in heads if "Breaks" in head)[-2:] == ["Breaks", "Result"]
    place = "Portfolio p1 / BTC / Venue v1 / main"
    assert place in {one.place for one in service.status(desk.folder.root).run.breaks}
    assert place in (desk.folder.root / "packs" / "2026-11.html").read_text("utf-8")


def test_a_suggested_cause_contains_no_toml(desk: Desk) -> None:
    """A suggested cause contains no TOML. The line to paste is on the Mapping sheet."""
    book: Any = openpyxl.load_workbook(books(desk)[-1], data_only=True)
    causes = {one["cause"] for one in desk.breaks()}
    assert not [cause for cause in causes if "=" in cause or "[" in cause or "toml" in cause]
    assert any(
        cause.endswith("one account under two names? See the Mapping sheet") for cause in causes
    )
    assert "Different unit: the ledger is 1,000 times the book" in causes
    (line,) = _lines(book)
    assert line == 'add this line under [alias.account] in recon.toml: "Vault" = "cold-1"'


def _lines(book: Any) -> list[str]:
    """Return the suggestions on the Mapping sheet that contain a line for recon.toml."""
    rows = book["Mapping"].iter_rows(min_row=3, values_only=True)
    return [row[5] for row in rows if row[5] and "recon.toml" in row[5]]


def test_the_suggested_line_settles_both_breaks(tmp_path: Path) -> None:
    """The line that Mapping suggests for an account settles both breaks if it is pasted."""
    made = Desk(tmp_path)
    made.publish([Amount("12.5", account="cold-1"), Amount("1", asset="ETH")])
    made.put(HEAD + "p1;BTC;v1;Vault;12.5\np1;ETH;v1;main;1\n")
    done = made.run()
    (line,) = _lines(openpyxl.load_workbook(done.files[0]))
    assert any(line.partition(": ")[2] in notice.message for notice in done.notices)
    where, _, setting = line.partition(" in recon.toml: ")
    made.settle(f"{where.removeprefix('add this line under ')}\n{setting}\n")
    assert (made.run().exit_code, made.breaks()) == (0, ())


def test_a_returning_break_has_the_same_age_in_all_outputs(desk: Desk) -> None:
    """The age of a break that returned starts at its last occurrence, in all outputs.

    The outputs are the workbook, the history, the trend, the pack's first page and the ops table.
    """
    (back,) = [one for one in desk.breaks() if one["names"]["asset"] == "BTC"]
    assert (back["episode"], back["first_seen"], back["ever_seen"], back["age_days"]) == (
        2,
        "2026-11-21",
        "2026-11-19",
        0,
    )
    book: Any = openpyxl.load_workbook(books(desk)[-1], data_only=True)
    rows = list(book["Breaks"].iter_rows(min_row=2, values_only=True))
    (row,) = [dict(zip(rows[0], line, strict=True)) for line in rows if line[0] == back["id"]]
    assert (row["Age days"], row["Occurrence"]) == (0, 2)
    assert [row[title].isoformat()[:10] for title in ("Occurred on", "First seen")] == [
        "2026-11-21",
        "2026-11-19",
    ]
    formula = openpyxl.load_workbook(books(desk)[-1])["Breaks"].cell(3, 11).value
    assert re.fullmatch(r"=as_of-Q3", formula)
    history = list(history_lines(service.history(desk.folder.root, str(back["id"]))))
    assert history[-1].endswith("returned, 0 days old")
    (ops,) = [
        line
        for line in views.ops_rows(desk.folder)["breaks"]
        if (line["break_id"], f"{line['snapshot_date']:%Y%m%d}") == (back["id"], DAYS[-1])
    ]
    assert ops["age_days"] == 0
    summary = list(book["Summary"].iter_rows(values_only=True))
    by_age = next(line for line in summary if line[0] == "Open")[1:5]
    [trend] = trends(desk.folder, desk.folder.days()[-1:])
    assert by_age == trend.ages
    page = (desk.folder.root / "packs" / "2026-11.html").read_text("utf-8")
    assert re.search(rf'{back["id"]}</td>(<td.*?</td>){{3}}<td class="n">0</td>', page)


def shown(cell: Any) -> tuple[int, bool]:
    """Return how many decimals a cell shows, and whether "≈" marks it as rounded."""
    form = cell.number_format.partition(";")[0]
    decimals = re.search(r"0\.(0+)", form)
    return len(decimals[1]) if decimals else 0, form.startswith('"≈"')


def test_all_amounts_of_a_row_have_the_same_decimals(tmp_path: Path) -> None:
    """In a row, all amounts show the same number of decimals. "≈" marks rounded ones."""
    made = Desk(tmp_path)
    rows = [
        Amount("11062.08861834"),
        Amount("1.123456789012345678", asset="ETH"),
        Amount("2", asset="SOL"),
        Amount("5.000000000000000001", asset="WEI"),
    ]
    made.publish(rows)
    lines = ("BTC;v1;main;11062.088618", "ETH;v1;main;2", "SOL;v1;main;2.5", "WEI;v1;main;5")
    made.put(HEAD + "".join(f"p1;{line}\n" for line in lines))
    book = made.run().files[0]
    (wei,) = [str(one["id"]) for one in made.breaks() if one["names"]["asset"] == "WEI"]
    cells = {wei: {"Status": "Explained - accepted", "Comment": "one wei"}}
    made.edit(book, cells, made.folder.out / "copy.xlsx")
    done = openpyxl.load_workbook(made.run().files[0])
    sheet = {row[3].value: row for row in done["Breaks"].iter_rows(min_row=3)}
    assert [shown(cell) for cell in sheet["BTC"][7:10]] == [(8, False)] * 3
    assert [shown(cell) for cell in sheet["ETH"][7:10]] == [(8, False), (8, True), (8, True)]
    assert [shown(cell) for cell in sheet["SOL"][7:10]] == [(2, False)] * 3
    # One wei is shown in scientific notation by the cell's own number format, because a conditional
    # format could be overridden by other conditions.
    assert sheet["WEI"][12].value == "Explained - accepted"
    assert sheet["WEI"][9].number_format == "0.00#####E+00_)"
    for name, first in (("Tie-out", 3), ("All positions", 4), ("Roll-forward", 1), ("Summary", 1)):
        for row in done[name].iter_rows(min_row=2):
            amounts = [
                cell for cell in row[first : first + 3] if isinstance(cell.value, float | int)
            ]
            scales = {shown(cell)[0] for cell in amounts if "E+" not in cell.number_format}
            assert len(scales) <= 1, (name, row[0].value)


def test_text_outside_the_yellow_cells_is_reported(tmp_path: Path) -> None:
    """Text outside the yellow cells is not read back. A notice has the text and its cell.

    A copy without such text gets no notice.
    """
    made = Desk(tmp_path)
    made.publish([Amount("1"), Amount("2", asset="ETH")])
    made.put(HEAD + "p1;BTC;v1;main;3\np1;ETH;v1;main;2\n")
    first = made.run().files[0]
    book: Any = openpyxl.load_workbook(first)
    book["Breaks"]["L3"] = "not a unit, a fee"
    book["Breaks"]["AH3"] = "ask the custodian"
    book["Breaks"]["P9"] = "below the breaks"
    book["Breaks"]["P3"] = "read back"
    book["Summary"]["G2"] = "beside the date"
    book["Tie-out"]["Z3"] = "BTC"  # our own text, but in a cell that we left blank
    book.create_sheet("My notes")["A1"] = "my own sheet"
    book.save(made.folder.out / "copy.xlsx")
    told = [notice for notice in made.run().notices if "outside the yellow" in notice.message]
    assert {(notice.location, notice.raw) for notice in told} == {
        ("copy.xlsx!Breaks!L3", "not a unit, a fee"),
        ("copy.xlsx!Breaks!AH3", "ask the custodian"),
        ("copy.xlsx!Breaks!P9", "below the breaks"),
        ("copy.xlsx!Summary!G2", "beside the date"),
        ("copy.xlsx!Tie-out!Z3", "BTC"),
    }
    assert [one["comment"] for one in made.breaks()] == ["read back"]
    made.put(HEAD + "p1;BTC;v1;main;3\np1;ETH;v1;main;2.5\n")
    untouched = made.run().files[0]
    openpyxl.load_workbook(untouched).save(made.folder.out / "again.xlsx")
    later = [notice for notice in made.run().notices if notice.location.startswith("again.xlsx")]
    assert later == []


@pytest.mark.parametrize("listed", ["", "listed = 1\n"])
def test_text_on_any_sheet_is_reported_with_its_cell(tmp_path: Path, listed: str) -> None:
    """Text to the right of a table, below it or over our cells is reported for every sheet.

    This includes *All positions*. Notices quote some of the texts and list the cells of the others.
    """
    made = Desk(tmp_path)
    book = [Amount("1", account="A &amp; B\n_x0041_"), Amount("2", asset="ETH", custom=True)]
    made.publish(book)
    made.settle(f"{listed}[close]\napprover = true\n")
    made.put(HEAD + "p1;BTC;v1;main;3\np1;ETH;v1;main;2.5\np1;XX;v1;other;1\n")
    made.run()
    first = made.run().files[0]
    made.settle(f"{listed}# changed\n")
    copy: Any = openpyxl.load_workbook(first)
    wanted = set()
    for sheet in copy.worksheets:
        if sheet.sheet_state != "visible":
            continue
        cells = [cell for row in sheet.iter_rows(min_row=2) for cell in row]
        over = [cell for cell in cells if cell.data_type == "s"][-1]
        right = sheet.cell(over.row, sheet.max_column + 2)
        below = sheet.cell(sheet.max_row + 2, 1)
        for what, cell in (("over", over), ("right", right), ("below", below)):
            cell.value = f"{what} on {sheet.title}"
            wanted.add((f"copy.xlsx!{sheet.title}!{cell.coordinate}", cell.value))
    copy.save(made.folder.out / "copy.xlsx")
    assert len(wanted) >= 3 * 8
    (*told, more) = [one for one in made.run().notices if "outside the yellow" in one.message]
    named = {(one.location, one.raw) for one in told}
    assert named < wanted
    others = {f"{more.location}!{place}" for place in more.message.partition(": ")[2].split(", ")}
    assert others == {place for place, _ in wanted - named}


def test_balances_of_the_day_before_are_the_first_notice(tmp_path: Path) -> None:
    """If a ledger has the balances of the day before, the first notice and the summary say so."""
    made = Desk(tmp_path)
    before = [Amount(f"{n}.5", account=f"{n}") for n in range(10, 30)]
    now = [Amount(f"{n + n % 2}.5", account=f"{n}") for n in range(10, 30)]
    made.publish(before, f"{DAYS[0]}T021500Z")
    made.publish(now, f"{DAYS[1]}T021500Z")
    made.put(ledger(before), "ledger_2026-11-20.csv")
    done = made.run()
    words = "these are the balances for 2026-11-19, not for 2026-11-20: 10 of 10 positions"
    assert done.notices[0].message.startswith(words)
    assert done.notices[0].severity == "high"
    shown = [text for place, text in texts(done.files[0]) if place.startswith("Summary!A")]
    assert any(words in text for text in shown)
    late = [Amount(a.text, account=a.account) for a in now[:-2]] + before[-2:]
    made.put(ledger(late), "ledger_2026-11-20.csv")
    assert not [one for one in made.run().notices if "these are the balances" in one.message]


EMPTY = ("Resolved", "Notices", "Mapping", "Audit trail")


@pytest.fixture
def quiet(tmp_path: Path) -> Path:
    """Return the path of the workbook of a first night on which everything matches."""
    made = Desk(tmp_path)
    made.publish([Amount("1")])
    made.put(HEAD + "p1;BTC;v1;main;1\n")
    return made.run().files[0]


def test_a_sheet_without_rows_is_hidden(desk: Desk, quiet: Path) -> None:
    """A sheet without rows is hidden, but it stays in the workbook for lookups."""
    states = {sheet.title: sheet.sheet_state for sheet in openpyxl.load_workbook(quiet)}
    hidden = {name for name, state in states.items() if state == "hidden"}
    assert hidden == {*EMPTY, "Lists"}
    full = openpyxl.load_workbook(books(desk)[1])
    assert [sheet.title for sheet in full if sheet.sheet_state == "hidden"] == ["Lists"]


@pytest.mark.torture
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
def test_no_printed_page_is_empty(quiet: Path, tmp_path: Path) -> None:
    """Sheets without rows give no page if LibreOffice prints the workbook."""
    command = [OFFICE or "", f"-env:UserInstallation=file://{tmp_path}/profile", "--headless"]
    command += ["--convert-to", "pdf", "--outdir", str(tmp_path), str(quiet)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    pages = (tmp_path / f"{quiet.stem}.pdf").read_bytes().count(b"/Type/Page/")
    shown = [sheet for sheet in openpyxl.load_workbook(quiet) if sheet.sheet_state == "visible"]
    assert pages == len(shown)
