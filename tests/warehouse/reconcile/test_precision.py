"""Tests of ledgers with fewer digits than the book: a notice proposes a setting for the file."""

import re
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq
import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import HEAD, Desk, DeskRun
from tests.support.shared import some_daily
from warehouse.reconcile import service
from warehouse.reconcile.match.precision import is_left_of
from warehouse.reconcile.settings.layout import Kept, Precision
from warehouse.reconcile.terms import Ambiguous

pytestmark = pytest.mark.usefixtures("no_workbook")

# Amounts of all sizes. Two of them are exactly halfway between two numbers with 8 decimals.
_BOOK = [
    f"{(7919 * place) ** 2 % 100_000 / 100:.2f}{9_176_543_211_731_987 * place % 10**16:016d}"
    for place in range(1, 25)
]
_BOOK += ["3.000000125", "3.000000135"]
_WRONG = "12.5"
Writer = Callable[[str], str]


def _places(number: int, rounding: str) -> Writer:
    unit = Decimal(1).scaleb(-number)
    return lambda text: format(Decimal(text).quantize(unit, rounding), "f")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """Create a home with a book of amounts with 18 decimals, each in its own account."""
    made = Desk(tmp_path_factory.mktemp("home"))
    made.publish([Amount(text, account=f"a{no}") for no, text in enumerate(_BOOK)])
    return made


def _put(desk: Desk, writer: Writer, **wrong: str) -> None:
    """Write a ledger with amounts formatted by `writer`. `wrong` replaces some, by account."""
    rows = [
        f"p1;BTC;v1;a{no};{wrong.get(f'a{no}', writer(text))}\n" for no, text in enumerate(_BOOK)
    ]
    desk.put(HEAD + "".join(rows))


def _run(desk: Desk, settings: str = "") -> tuple[DeskRun, dict[str, int]]:
    desk.settle(settings)
    summary = desk.run()
    return summary, {name: count for name, count in summary.counts.items() if count}


def _proposed(summary: DeskRun) -> str:
    """Return the setting that the first notice proposes, including its table header."""
    match = re.search(
        r'under (\[file\.".*?"\]), the line (keeps = ".*?")', summary.notices[0].message
    )
    assert match, summary.notices
    return f"{match[1]}\n{match[2]}\n"


@pytest.mark.parametrize(
    ("writer", "words"),
    some_daily(
        [
            (_places(8, ROUND_HALF_EVEN), "8 decimals"),
            (_places(8, ROUND_HALF_UP), "8 decimals"),
            (_places(8, ROUND_DOWN), "8 decimals, cut off"),
            (_places(6, ROUND_HALF_EVEN), "6 decimals"),
            (lambda text: format(float(text), ".8f"), "8 decimals"),
            (lambda text: format(float(text), ".10e"), "11 digits"),
            (lambda text: repr(float(text)), "doubles"),
            (lambda text: format(float(text), ".15g"), "15 digits"),
        ],
        3,
    ),
)
def test_the_proposed_line_settles_a_rounded_file(desk: Desk, writer: Writer, words: str) -> None:
    """The proposed line settles a rounded file's breaks, but a real error stays a break.

    Settled breaks are counted as *Ledger precision*.
    """
    _put(desk, writer, a3=_WRONG)
    summary, counts = _run(desk)
    assert counts["Amount differs"] > 20
    assert f"rounded amounts ({words})" in summary.notices[0].message
    rounded = [row for row in desk.breaks() if row["cause"].startswith("Rounding: ")]
    assert len(rounded) == counts["Amount differs"] - 1
    settled, after = _run(desk, _proposed(summary))
    assert after["Amount differs"] == 1
    assert after["Ledger precision"] == len(rounded)
    assert settled.exit_code == 3
    assert not any(" keeps " in f" {notice.message}" for notice in settled.notices)


def test_errors_in_digit_15_are_proposed_as_calculated(desk: Desk) -> None:
    """For amounts off by one unit in digit 15, the notice proposes "15 digits, calculated"."""

    def added_up(text: str) -> str:
        shown = Decimal(format(float(text), ".15g"))
        return format(shown + Decimal(1).scaleb(shown.adjusted() - 14), "f")

    _put(desk, added_up)
    summary, _ = _run(desk)
    assert 'keeps = "15 digits, calculated"' in summary.notices[0].message
    _, after = _run(desk, _proposed(summary))
    assert "Amount differs" not in after


def test_rounded_number_cells_get_the_same_proposal_as_text(desk: Desk) -> None:
    """A workbook with rounded number cells gets the same proposal as a text file."""
    _put(desk, str)
    path = desk.folder.inbox / "ledger.xlsx"
    book = openpyxl.Workbook()
    book.active.append(["portfolio", "asset", "venue", "account", "amount"])
    for no, text in enumerate(_BOOK):
        book.active.append(["p1", "BTC", "v1", f"a{no}", round(float(text), 8)])
    book.save(path)
    (desk.folder.inbox / "ledger.csv").unlink()
    try:
        summary, _ = _run(desk)
        assert 'keeps = "8 decimals"' in summary.notices[0].message
        _, after = _run(desk, _proposed(summary))
        assert "Amount differs" not in after
    finally:
        path.unlink()


def test_rounding_never_hides_a_full_unit_or_an_extra_digit(desk: Desk) -> None:
    """A difference of a whole unit or an extra digit is a break. The sum of the others is shown."""
    writer = _places(8, ROUND_HALF_EVEN)
    next_unit = format(Decimal(writer(_BOOK[4])) + Decimal("0.00000001"), "f")
    finer = format(Decimal(writer(_BOOK[5])) + Decimal("0.000000001"), "f")
    _put(desk, writer, a4=next_unit, a5=finer)
    _, counts = _run(desk, '[file."ledger*"]\nkeeps = "8 decimals"\n')
    assert counts["Amount differs"] == 2
    result = desk.folder.result(desk.folder.days()[-1])
    assert result is not None
    assert result.coverage is not None
    asset, by, amount, of = result.coverage.forgiven[0]
    assert (asset, by) == ("BTC", f"{counts['Ledger precision']} positions by ledger precision")
    assert 0 < Decimal(amount) < Decimal("0.00000013")
    assert of.endswith("of it)")


@pytest.mark.parametrize("places", [0, 2])
def test_a_setting_that_allows_too_much_needs_a_higher_limit(desk: Desk, places: int) -> None:
    """A setting that allows too much is proposed with a warning. Its differences stay breaks.

    A higher limit settles them.
    """
    few = [f"{number / 7:.18f}" for number in range(1, len(_BOOK) + 1)]
    small = Desk(desk.home.parent / f"coarse{places}")
    small.publish([Amount(text, account=f"a{no}") for no, text in enumerate(few)])
    writer = _places(places, ROUND_HALF_EVEN)
    rows = [f"p1;BTC;v1;a{no};{writer(text)}\n" for no, text in enumerate(few)]
    small.put(HEAD + "".join(rows))
    summary, _ = _run(small)
    assert f'keeps = "{places} decimals"' in summary.notices[0].message
    assert "For BTC, the sum of these differences exceeds the limit" in summary.notices[0].message
    settled, after = _run(small, _proposed(summary))
    assert "Ledger precision" not in after
    assert settled.notices[0].message.startswith("the differences allowed by ledger precision are")
    wider = '[tolerance]\nlimit = "0.5"\nlimit_in_all = "0.5"\n'
    _, widest = _run(small, wider + _proposed(summary))
    assert "Amount differs" not in widest


def test_a_mostly_unrounded_file_gets_no_proposal(desk: Desk) -> None:
    """A file with a few amounts cut off and all others unrounded gets no proposal."""
    cut = _places(2, ROUND_DOWN)
    _put(desk, str, **{f"a{no}": cut(_BOOK[no]) for no in range(5)})
    summary, counts = _run(desk)
    assert counts["Amount differs"] == 5
    assert not any("keeps" in notice.message for notice in summary.notices)


def test_each_row_of_a_key_may_be_rounded(tmp_path: Path) -> None:
    """Three rounded rows of one account may differ by three half units, but not by more."""
    desk = Desk(tmp_path)
    desk.publish([Amount("0.333333333333"), Amount("3.999999987999", account="b")])
    lots = "p1;BTC;v1;main;0.11111111\n" * 3 + "p1;BTC;v1;b;1.33333333\n" * 3
    desk.put(HEAD + lots)
    _, counts = _run(desk, '[file."ledger*"]\nkeeps = "8 decimals"\n')
    assert counts == {"Ledger precision": 2}
    desk.put(HEAD + lots.replace("1.33333333", "1.33333334", 2))
    _, counts = _run(desk, '[file."ledger*"]\nkeeps = "8 decimals"\n')
    assert counts == {"Ledger precision": 1, "Amount differs": 1}


@pytest.mark.parametrize("words", ["8 places", "0 digits", "8 decimals, up", "decimals"])
def test_an_invalid_precision_is_rejected(desk: Desk, words: str) -> None:
    """An invalid precision is rejected with a message that shows a valid one."""
    with pytest.raises(ValueError, match='expected a string like "8 decimals"'):
        _run(desk, f'[file."ledger*"]\nkeeps = "{words}"\n')


def test_a_run_with_too_many_breaks_asks_one_question(desk: Desk) -> None:
    """A run with too many breaks asks one question, and the line to paste answers it."""
    desk.put(HEAD + "".join(f"p1;BTC;v1;other{no};7\n" for no in range(20)))
    desk.settle("most_breaks = 40\n")
    with pytest.raises(Ambiguous) as wrong:
        desk.run()
    assert "about 46 positions are breaks (57% Not in ledger, 43% Not in book), " in str(wrong)
    assert _run(desk, f"most_breaks = 40\n{wrong.value.line}\n")[1] == {
        "Not in ledger": 26,
        "Not in snapshot": 20,
    }
    _put(desk, _places(8, ROUND_HALF_EVEN))
    desk.settle("most_breaks = 9\n")
    with pytest.raises(Ambiguous) as rounded:
        desk.run()
    assert rounded.value.line == '[file."ledger.csv"]\nkeeps = "8 decimals"'
    assert _run(desk, f"most_breaks = 9\n{rounded.value.line}\n")[1] == {"Ledger precision": 26}


@pytest.mark.usefixtures("workbook")
def test_a_run_settles_exactly_the_keys_of_the_rule(tmp_path: Path) -> None:
    """A run settles exactly the keys that `is_left_of` accepts, at and beyond half a unit."""
    kept = Precision(Kept.DECIMALS, 8)
    pairs = [
        *(("1.000000005", "1.00000001"), ("1.0000000049", "1.00000001"), ("-1.000000005", "-1")),
        *(("1.000000015", "1.00000001"), ("-1.0000000051", "-1"), ("0.000000001", "-0.00000001")),
        *(("12345678901234567890.123456785", "12345678901234567890.12345678"), ("-1", "1")),
        *(("1.0000000050000000001", "1"), ("1.0000000049999999999", "1"), ("7.00000001", "7")),
        *(("2.1234567891", "2.123456789"), ("0.000000004", "0"), ("9999999999999999999.5", "1")),
    ]
    made = Desk(tmp_path)
    made.publish([Amount(book, account=f"a{no}") for no, (book, _) in enumerate(pairs)])
    made.put(HEAD + "".join(f"p1;BTC;v1;a{no};{text}\n" for no, (_, text) in enumerate(pairs)))
    made.settle('[file."*"]\nkeeps = "8 decimals"\n[tolerance]\nlimit = "1"\nlimit_in_all = "1"\n')
    done = made.run()
    rows = pq.read_table(done.files[2]).to_pylist()
    is_settled = {row["account_name"]: row["result"] == "Ledger precision" for row in rows}
    assert is_settled == {
        f"a{no}": is_left_of(kept, Decimal(text), Decimal(book))
        for no, (book, text) in enumerate(pairs)
    }
    assert 5 < sum(is_settled.values()) < len(pairs) - 3


@pytest.mark.usefixtures("workbook")
def test_too_many_keys_within_precision_are_not_listed(tmp_path: Path) -> None:
    """If too many keys are within precision, the workbook lists only the break, and it verifies."""
    made = Desk(tmp_path)
    made.publish([Amount(f"{number}.001", asset=f"A{number}") for number in range(1, 8)])
    made.put(HEAD + "".join(f"p1;A{n};v1;main;{n if n != 3 else 4}\n" for n in range(1, 8)))
    limits = '[tolerance]\nlimit = "1"\nlimit_in_all = "1"\n'
    made.settle(f'listed = 5\n[file."*"]\nkeeps = "2 decimals"\n{limits}')
    done = made.run()
    assert (done.counts["Ledger precision"], done.counts["Amount differs"]) == (6, 1)
    sheet = openpyxl.load_workbook(done.files[0])["Not matched"]
    assert [row[1].value for row in sheet.iter_rows(min_row=2)] == ["A3"]
    assert "not within the ledger's precision" in " ".join(item.message for item in done.notices)
    checked = service.verify(made.folder.root, done.files[0])
    assert checked.is_whole, checked.differences
