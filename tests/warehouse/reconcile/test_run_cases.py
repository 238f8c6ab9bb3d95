"""The list of the 56 nasty cases, and tests that each case has a test."""

import re
from pathlib import Path

import pytest

CASES = {
    1: "1,234.56, (2,000), 12.5- and a minus sign of typographers",
    2: "1.234,56 and -1.000: a decimal comma",
    3: "1.234 and 12.345 only: exit code 3",
    4: "1'234.50, no-break space, narrow no-break space",
    5: "Indian 12,34,567.89",
    6: "1e-7 and 1E+3",
    7: "full-width digits",
    8: "1.5 BTC in a row of BTC, and of ETH",
    9: "#N/A, TBC, NaN, 0x10, 12.3.4 are rejected",
    10: "blank, - and -- are blank, never 0",
    11: "19 and 24 decimals, 21 and more integer digits are exact",
    12: "-0.0 is 0",
    13: "mixed conventions in one column: exit code 3",
    14: "CR and DR by setting",
    15: "1_000 is rejected",
    16: "1e-18 on 1,523 BTC is a break",
    17: "0.03 on 589e12 SHIB is a break",
    18: "a number cell against 18 decimals: Ledger precision",
    19: "0.1+0.2 in a cell is 0.3",
    20: "two rows of 99999999999999999999.9: no wrap",
    21: "the edge of the tolerance",
    22: "XBT, `btc `, BTC with a zero-width space",
    23: "`Kraken ` and kraken",
    24: "a Cyrillic letter: unmapped, with a suggestion",
    25: "account 00123 stays text, 123 is suggested",
    26: "names like formulas, with control letters, quotes, 300 letters, emoji, ../x",
    27: "a custom asset with the id of a listed one",
    28: "the same account name at two venues",
    29: "duplicate rows, equal and unequal",
    30: "venue id and display name",
    31: "aliases in a circle, two aliases to one key",
    32: "cp1252, UTF-16, byte order mark, sep=;",
    33: "titles, blank lines, totals, merged and hidden cells, two header rows",
    34: "two sheets, a wrong sheet name",
    35: "xls, ods, xlsm, xlsb, dates of 1904, a password",
    36: "formula cells without a cached value",
    37: "text numbers",
    38: "empty, header only, 0 bytes, HTML, half copied, lock files",
    39: "01/02/2026 is ambiguous",
    40: "1,048,576 rows and a header; a zip bomb",
    41: "two ledgers of one day; a ledger as of another day",
    42: "the same file twice",
    43: "an absent part of a balance is no row",
    44: "a portfolio that vanished is not 200 breaks",
    45: "a stale updatedAt",
    46: "a suspended venue",
    47: "a workbook sorted, filtered, renamed, thinned, saved as ods or copy (2)",
    48: "two edited copies",
    49: "a status outside the list",
    50: "a comment like a formula, and of 32,767 letters and more",
    51: "an accepted break that moves by 1e-18",
    52: "a break that returns",
    53: "reviewer and preparer are one",
    54: "edited numbers are ignored, and verify says so",
    55: "an old day run again",
    56: "another level changes ids",
}


def cases_of(test: str) -> set[int]:
    """Return the numbers of the cases in a test's name or in the ID of its parameters."""
    said = re.search(r"cases?_((?:[0-9]{2}(?:_and_|_)?)+)", test)
    return {int(number) for number in re.findall("[0-9]{2}", said[1])} if said else set()


@pytest.fixture(scope="module")
def collected() -> list[str]:
    """Return the names of all tests in this folder, and the parameter IDs that name a case."""
    sources = [path.read_text("utf-8") for path in Path(__file__).parent.rglob("test_*.py")]
    named = r'^def (test_\w+)\(|^ +"(cases?_[0-9]\w*)"[:,]'
    return ["".join(name) for text in sources for name in re.findall(named, text, re.MULTILINE)]


def test_every_numbered_case_has_a_test(collected: list[str]) -> None:
    """The cases are numbered from 1 to 56. Each has a test, and no test names an unknown case."""
    tested = set().union(*map(cases_of, collected))
    assert sorted(CASES) == list(range(1, 57))
    assert sorted(set(CASES) - tested) == []
    assert sorted(tested - set(CASES)) == []


def test_a_missing_test_of_a_case_would_be_noticed(collected: list[str]) -> None:
    """If the tests of case 51 were missing, the test above would fail."""
    others = [test for test in collected if 51 not in cases_of(test)]
    assert len(others) < len(collected)
    assert 51 not in set().union(*map(cases_of, others))
