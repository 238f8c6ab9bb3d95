"""Tests of details in a ledger, its name or recon.toml: each is used or reported."""

from contextlib import nullcontext
from datetime import date
from pathlib import Path

import pytest

from tests.support.books import Amount
from tests.support.pasted_answers import answer
from tests.support.reconciliation_home import Desk, ledger
from tests.warehouse.reconcile.conftest import Read, Write
from warehouse.reconcile import service
from warehouse.reconcile.ledger.titles import fingerprint
from warehouse.reconcile.settings.config import Config, read_config
from warehouse.reconcile.settings.layout import Shape, day_in
from warehouse.reconcile.terms import Ambiguous, NotReconciled

pytestmark = pytest.mark.usefixtures("no_workbook")

HEAD = "asset;account;amount;date\n"
BOOK = [Amount("1.5"), Amount("2", asset="ETH")]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create a desk with a published book of two amounts for 2026-11-20."""
    made = Desk(tmp_path)
    made.publish(BOOK)
    return made


@pytest.mark.parametrize(
    "line", ['"p1;BTC;v1;Ghost;1000000\n', 'p1;"BTC;v1;Ghost;1000000\n', 'p1;"BTC"x;v1;main;1\n']
)
def test_an_unclosed_quote_is_refused_with_its_line_number(desk: Desk, line: str) -> None:
    """An unclosed quote stops the run with its line number.

    Otherwise, the rows below would become a single cell of a row that looks like a note, and
    everything would match.
    """
    desk.put(ledger(BOOK) + line + "p1;SOL;v1;main;5\n" * 500)
    with pytest.raises(
        NotReconciled, match=r"ledger\.csv line 4 is not valid CSV .* Correct the quotes"
    ):
        desk.run()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_name_in_a_tab_separated_file_may_begin_with_a_quote(tmp_path: Path, end: str) -> None:
    """In a tab-separated file without quoted cells, a name may begin with a quote."""
    desk, name = Desk(tmp_path), '"Genesis" carry'
    desk.publish([Amount("1.5", account=name), Amount("2", asset="ETH")])
    lines = ["portfolio\tasset\tvenue\taccount\tamount", f"p1\tBTC\tv1\t{name}\t1.5"]
    desk.put(end.join([*lines, "p1\tETH\tv1\tmain\t2", ""]))
    assert desk.run().counts["Matched"] == 2


def test_an_unclosed_quote_in_a_tab_separated_file_is_refused(desk: Desk) -> None:
    """If a tab-separated file has any quoted cell, an unclosed quote in this file stops the run."""
    rows = '"p1"\tBTC\tv1\tmain\t1.5\n"p1\tETH\tv1\tmain\t2\n'
    desk.put(f"portfolio\tasset\tvenue\taccount\tamount\n{rows}")
    with pytest.raises(NotReconciled, match=r"line 3 is not valid CSV"):
        desk.run()


def test_a_long_quoted_cell_does_not_hide_the_delimiter(desk: Desk) -> None:
    """A quoted cell may be longer than the part of the file that is used to find the delimiter.

    Quotes must be valid in the whole file, but not in this part alone.
    """
    note = "several\nlines;" * 20_000
    desk.put("portfolio;asset;venue;account;amount;note\n" + f'p1;BTC;v1;main;1.5;"{note}"\n')
    assert desk.run().counts["Matched"] == 1


@pytest.mark.parametrize(
    "written",
    [
        *("2026-11-19", "2026/11/19", "2026.11.19", "2026/11/19 17:00", "2026-11-19T17:00:00Z"),
        *("20261119", "19.11.2026", "19-Nov-2026", "19 november 2026", "Nov 19, 2026"),
        "Sept 19, 2026",
    ],
)
def test_an_unambiguous_date_is_read(write: Write, read: Read, written: str) -> None:
    """A row with an unambiguous date counts for that date, and is not used for tonight's book."""
    month = 9 if written.startswith("Sept") else 11
    found = read(write(HEAD + f"BTC;a;1;{written}\n"))
    assert [one.as_of for one in found.sources] == [date(2026, month, 19)]
    both = read(write(HEAD + f"BTC;a;1;{written}\nBTC;a;2;2026-11-20\n"))
    assert [line.amount.text for line in both.lines] == ["2"]


@pytest.mark.parametrize(
    "written", ["31.11.2026", "11/20/2026", "20.11.26", "45000", "soon", "2026-1120", "5 Ju 2026"]
)
def test_a_row_with_an_unreadable_date_is_rejected(write: Write, read: Read, written: str) -> None:
    """A row with an unreadable date is rejected, because it may be of a different day."""
    found = read(write(HEAD + f"BTC;a;1;20.11.2026\nBTC;a;2;{written}\n;;;as of close\n"))
    assert [line.amount.text for line in found.lines] == ["1"]
    told = [(row.reason, row.raw) for row in found.rejected]
    assert told == [(f"the date '{written}' cannot be read", "2")]


def test_a_date_column_without_dates_raises_a_question(write: Write, read: Read) -> None:
    """If no cell of a date column is a date, a question asks what it contains.

    After the answer that it does not contain dates, every row is read.
    """
    path = write(HEAD + "BTC;a;1;Q3\nETH;a;2;Q4\n")
    with pytest.raises(Ambiguous, match=r"'date' column seems to contain .* like 'Q3'") as asked:
        read(path)
    assert 'as_of = ""' in str(asked.value)
    shape = fingerprint(HEAD.strip().split(";"))
    settled = Config(shapes={shape: Shape(columns={"as_of": ""})})
    assert len(list(read(path, config=settled).lines)) == 2


@pytest.mark.parametrize("name", ["ledger-2026-11-19.csv", "ledger 19.11.2026.csv"])
def test_a_different_date_in_a_file_name_is_reported(desk: Desk, name: str) -> None:
    """If recon.toml allows a ledger with a different date in its name, a high notice says so."""
    desk.put(ledger(BOOK), name)
    desk.settle(f'[late.2026-11-20]\n"{name}" = "used"\n')
    (notice,) = desk.run().notices
    words = "the ledger is as of 2026-11-19, but the book is as of 2026-11-20. It was used"
    assert (notice.severity, notice.location) == ("high", name)
    assert notice.message.startswith(words)


def test_dates_in_rows_take_precedence_over_the_file_name(desk: Desk) -> None:
    """Dates in the rows take precedence over the date in the file name."""
    head, *rows = ledger(BOOK).splitlines()
    dated = [f"{head};date", *(f"{row};2026-11-20" for row in rows)]
    desk.put("\n".join(dated), "ledger-2026-11-21.csv")
    desk.put("\n".join(dated), "ledger-2026-11-19.csv")
    assert desk.run().notices == ()


@pytest.mark.parametrize(
    ("name", "day"),
    [
        ("ledger 2.3.2026.csv", date(2026, 3, 2)),
        ("ledger_20260302.csv", date(2026, 3, 2)),
        ("ledger 30.2.2026.csv", None),
        ("ledger 7.csv", None),
    ],
)
def test_a_date_in_a_file_name_is_read_as_people_write_it(name: str, day: date | None) -> None:
    """A date in a file name is written year first, or day first with dots. The rest is ignored."""
    assert day_in(name) == day


@pytest.mark.torture
@pytest.mark.parametrize("other", ["Fund 2.csv", "Fund 1 (2).csv"])
def test_file_names_that_differ_in_a_number_raise_a_question(desk: Desk, other: str) -> None:
    """If two file names differ only in a number, a question asks if one file replaces the other."""
    desk.put(ledger(BOOK[1:]), "Fund 1.csv")
    desk.put(ledger(BOOK[:1]), other)
    with pytest.raises(Ambiguous, match="may be versions of one day's ledger") as asked:
        desk.run()
    first = answer(asked.value.line)
    desk.settle(first)
    assert desk.run().breaks == 1
    desk.settle(first.replace('"unused"', '"ledger"'))
    assert desk.run().breaks == 0


def test_status_has_the_exit_code_of_the_run(desk: Desk) -> None:
    """The exit code of `status` is the exit code of the run, also if a row was rejected."""
    desk.put(ledger(BOOK) + "p1;BTC;v1;cold;much\n")
    assert desk.run().exit_code == service.status(desk.folder.root).run.exit_code == 3
    desk.put(ledger(BOOK))
    assert desk.run().exit_code == service.status(desk.folder.root).run.exit_code == 0


@pytest.mark.parametrize("word", ["dates", "negative_word", "decimal"])
def test_an_unknown_value_of_a_ledger_setting_is_refused(tmp_path: Path, word: str) -> None:
    """An unknown value is refused, because `month-first` would otherwise be read as day first."""
    path = tmp_path / "recon.toml"
    path.write_text(f'[ledger."0a1b2c3d"]\n{word} = "month-first"\n', encoding="utf-8")
    with pytest.raises(NotReconciled, match=f"{word} is 'month-first', expected \""):
        read_config(path)


@pytest.mark.parametrize("unit", ['"bushel"', "1000", '"-1"', '"0"'])
def test_an_invalid_unit_gives_one_error(tmp_path: Path, unit: str) -> None:
    """An invalid unit gives one error, which lists the words and the numbers that are allowed."""
    path = tmp_path / "recon.toml"
    path.write_text(f'[ledger."0a1b2c3d"]\nunit = {unit}\n', encoding="utf-8")
    with pytest.raises(NotReconciled, match=r"unit must be one of .*, or a number above 0") as told:
        read_config(path)
    assert str(told.value).count("unit") == 1


def test_an_invalid_level_is_shown_in_the_error(tmp_path: Path) -> None:
    """If a level is not the name of a field, the error shows it, even if it is a list."""
    path = tmp_path / "recon.toml"
    path.write_text('level = [["asset"]]\n', encoding="utf-8")
    with pytest.raises(NotReconciled, match=r"level is \[\['asset'\]\], expected"):
        read_config(path)


def test_recon_toml_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """recon.toml may begin with a UTF-8 byte order mark, which some Windows editors write."""
    path = tmp_path / "recon.toml"
    path.write_text('\ufeffname = "cash"\n', encoding="utf-8")
    assert read_config(path).name == "cash"


@pytest.mark.parametrize("written", ["btc", "BTC (custom)", "xbt"])
def test_a_tolerance_may_name_its_asset_in_any_spelling(tmp_path: Path, written: str) -> None:
    """A tolerance may name its asset in any case, by an alias or as a custom asset."""
    desk = Desk(tmp_path)
    is_custom = written == "BTC (custom)"
    desk.publish([Amount("1.5", custom=is_custom), Amount("1")][: 1 + is_custom])
    desk.settle(f'[tolerance.asset]\n"{written}" = "0.1"\n\n[alias.asset]\nxbt = "BTC"\n')
    asset = "BTC (custom)" if is_custom else "BTC"
    desk.put(ledger([Amount("1.4", asset=asset), Amount("1")][: 1 + is_custom]))
    found = desk.run()
    assert (found.counts["Within tolerance"], found.breaks, found.notices) == (1, 0, ())


def test_a_tolerance_for_an_unknown_asset_is_reported(desk: Desk) -> None:
    """A tolerance for an unknown asset gives a notice that names the asset that may be meant."""
    desk.settle('[tolerance.asset]\nBTCC = "0.1"\n')
    desk.put(ledger(BOOK))
    (notice,) = desk.run().notices
    assert (notice.severity, notice.raw) == ("low", "BTCC")
    assert 'is not used: unknown asset; perhaps you mean "BTC"' in notice.message


def test_an_account_that_begins_with_a_question_mark_keeps_it(tmp_path: Path) -> None:
    """A leading `?`, which also marks unknown names, stays part of an account's name."""
    desk = Desk(tmp_path)
    desk.publish([Amount("1", account="?x"), *BOOK])
    desk.put(ledger([Amount("2", account="?x"), *BOOK]))
    assert desk.run().breaks == 1
    assert [one["names"]["account"] for one in desk.breaks()] == ["?x"]


@pytest.mark.parametrize("line", ["[tolerance]\nlimit", '[file."*"]\nunit'])
def test_a_number_with_a_huge_exponent_is_refused(tmp_path: Path, line: str) -> None:
    """A number with a huge exponent is refused, because sums with it overflow or take minutes."""
    path = tmp_path / "recon.toml"
    for exponent, is_refused in (("1e200", False), ("1e200000", True), ("1e-999999", True)):
        path.write_text(f'{line} = "{exponent}"\n', encoding="utf-8")
        with pytest.raises(NotReconciled) if is_refused else nullcontext():
            read_config(path)


def test_a_single_asset_file_with_only_amounts_asks_about_dates(desk: Desk) -> None:
    """If recon.toml sets the asset and the header names only amounts, the run asks about dates.

    All rows have the same key, so each date could be a different balance.
    """
    desk.settle('[file."ledger.csv"]\nasset = "BTC"\n')
    desk.put("Quantity;When;Remark\n1.0;2026-11-19;a\n0.5;2026-11-20;b\n")
    with pytest.raises(Ambiguous, match=r"as_of|unused"):
        desk.run()
