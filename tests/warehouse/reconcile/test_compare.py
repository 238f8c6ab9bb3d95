"""Tests of matching with a published book: cases 16 to 31 and 41 to 46 of `test_run_cases`."""

from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import msgspec
import openpyxl
import pytest

from tests.support.books import Amount, make_macros, night
from tests.support.reconciliation_home import HEAD, SNAPSHOT, Desk, ledger
from warehouse.exact import exact
from warehouse.query import book as export_source
from warehouse.reconcile import book, service
from warehouse.reconcile.match import classify, compare, sides
from warehouse.reconcile.match.inputs import MatchInputs
from warehouse.reconcile.match.sides import Scope
from warehouse.reconcile.model import LINES, Ledger, LedgerRows, LedgerSource, Result
from warehouse.reconcile.settings.config import Config
from warehouse.reconcile.terms import LateError, NotReconciled

pytestmark = pytest.mark.usefixtures("no_workbook")

STALE = datetime(2025, 12, 1, tzinfo=UTC)
ONE = Amount("1523.123456789012345678")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Create an empty home."""
    return Desk(tmp_path)


def results(desk: Desk) -> dict[str, int]:
    """Run, and return the counts that are not zero."""
    found = desk.run()
    return {name: count for name, count in found.counts.items() if count}


def line(amount: str, **names: str) -> str:
    """Return a row of a ledger for the account of `ONE`. `names` replaces parts of its key."""
    key = {"portfolio": "p1", "asset": "BTC", "venue": "v1", "account": "main"} | names
    return ";".join([*key.values(), amount]) + "\n"


SMALLEST = {
    "case_16": ("BTC", "1523.123456789012345678", "1523.123456789012345679", f"0.{'0' * 17}1"),
    "case_17": ("SHIB", "589000000000000.12", "589000000000000.15", "0.03"),
    "case_11_places": ("NEAR", f"0.{'0' * 23}1", f"0.{'0' * 23}2", f"0.{'0' * 23}1"),
    "case_11_digits": ("BIG", "123456789012345678901234", "123456789012345678901235", "1"),
}


@pytest.fixture(scope="module")
def smallest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Return each asset's result and difference, after checking that correct ledgers match."""
    desk = Desk(tmp_path_factory.mktemp("smallest"))
    desk.publish(Amount(theirs, asset=asset) for asset, theirs, _, _ in SMALLEST.values())
    desk.put(HEAD + "".join(line(ours, asset=asset) for asset, _, ours, _ in SMALLEST.values()))
    assert results(desk) == {"Amount differs": len(SMALLEST)}
    found = {one["key"][1]: (one["result"], one["difference"]) for one in desk.breaks()}
    mended = (
        line(theirs + ("0" if "." in theirs else ".0"), asset=asset)
        for asset, theirs, _, _ in SMALLEST.values()
    )
    desk.put(HEAD + "".join(mended))
    assert results(desk) == {"Matched": len(SMALLEST)}
    return found


@pytest.mark.parametrize("case", SMALLEST)
def test_the_smallest_difference_is_a_break(
    smallest: dict[str, tuple[str, str]], case: str
) -> None:
    """One unit in the last digit is a break with its exact difference, whatever the amount."""
    asset, _, _, difference = SMALLEST[case]
    assert smallest[asset] == ("Amount differs", difference)


def test_case_18_a_number_cell_matches_its_first_15_digits(desk: Desk) -> None:
    """A number cell with 15 digits matches an amount with 22 digits, but a text cell does not.

    Such matches have their own count. The setting `ledger_rounding` allows them for text, too.
    """
    desk.publish([ONE])
    desk.folder.make()
    book_path = desk.folder.inbox / "ledger.xlsx"
    made = openpyxl.Workbook()
    made.active.append(["asset", "amount"])
    made.active.append(["BTC", 1523.12345678901])
    made.save(book_path)
    assert results(desk) == {"Ledger precision": 1}
    book_path.unlink()
    desk.put("asset;amount\nBTC;1523.12345678901\n")
    assert results(desk) == {"Amount differs": 1}
    desk.settle('ledger_rounding = "written"\n')
    assert results(desk) == {"Ledger precision": 1}


def test_case_20_totals_beyond_every_decimal_type_are_exact(desk: Desk) -> None:
    """Two rows of 99999999999999999999.9 are added exactly on both sides, without an overflow."""
    huge = "99999999999999999999.9"
    desk.publish([Amount(huge), Amount(huge, account="b")])
    desk.put(f"asset;amount\nBTC;{huge}\nBTC;{huge}\n")
    assert results(desk) == {"Matched": 1}


@pytest.mark.parametrize(
    ("settings", "ours", "wanted"),
    [
        ('[tolerance]\nabsolute = "0.01"\n', "10.01", "Within tolerance"),
        ('[tolerance]\nabsolute = "0.01"\n', "10.010000000000000001", "Amount differs"),
        ('[tolerance]\nabsolute = "0.01"\n', f"10.01{'0' * 30}1", "Amount differs"),
        ('[tolerance]\nrelative = "0.001"\n', "9.99", "Within tolerance"),
        ('[tolerance]\nrelative = "0.001"\n', "9.989999999999999999", "Amount differs"),
        ('[tolerance.asset]\nBTC = "0.01"\n', "10.01", "Within tolerance"),
        ('[tolerance.asset]\nETH = "0.01"\n', "10.01", "Amount differs"),
    ],
)
def test_case_21_a_tolerance_is_exact_to_the_last_digit(
    desk: Desk, settings: str, ours: str, wanted: str
) -> None:
    """A difference equal to the tolerance is within it. 1e-18 or 1e-33 more is a break."""
    desk.publish([Amount("10")])
    desk.settle(settings)
    desk.put(HEAD + line(ours))
    assert results(desk) == {wanted: 1}


def test_cases_22_and_23_case_and_spaces_in_names_are_ignored(desk: Desk) -> None:
    """Case, spaces and zero-width characters in names are ignored. XBT needs an alias."""
    desk.publish([Amount("6", venue="kraken")])
    desk.put(
        HEAD
        + line("1", asset="btc ", venue="Kraken ")
        + line("2", asset="BTC\u200b", venue="kraken")
        + line("3", asset="XBT", venue="Venue kraken")
    )
    assert results(desk) == {"Unmapped": 1, "Amount differs": 1}
    told = [one.message for one in desk.run().notices]
    assert any('if it is "BTC"' in words for words in told)
    assert any("although capitals or spaces differ" in words for words in told)
    desk.settle('[alias.asset]\nXBT = "BTC"\n')
    assert results(desk) == {"Matched": 1}


def test_case_24_lookalike_characters_are_different(desk: Desk) -> None:
    """BTC with a Cyrillic letter is unmapped, and BTC is suggested."""
    desk.publish([Amount("1")])
    desk.put(HEAD + line("1", asset="\u0412TC"))
    assert results(desk) == {"Unmapped": 1, "Not in ledger": 1}
    assert any('if it is "BTC"' in one.message for one in desk.run().notices)


def test_an_alias_to_an_unknown_name_is_reported(desk: Desk) -> None:
    """The notice names the wrong alias, and does not offer a sentence as the correct name."""
    desk.publish([Amount("1")])
    desk.settle('[alias.asset]\nXBT = "BTCC"\n')
    desk.put(HEAD + line("1", asset="XBT"))
    assert results(desk) == {"Unmapped": 1, "Not in ledger": 1}
    (notice,) = (one for one in desk.run().notices if one.message.startswith("unknown asset"))
    assert notice.message == (
        'unknown asset in 1 row: [alias.asset] in recon.toml reads it as "BTCC", which is not in '
        "the book: correct it"
    )


def test_an_alias_to_an_empty_account_is_reported(desk: Desk) -> None:
    """An account whose alias is an empty string is not treated as a new account."""
    desk.publish([Amount("1", account="main")])
    desk.settle('[alias.account]\ncold = ""\n')
    desk.put(HEAD + line("1", account="cold"))
    assert results(desk) == {"Unmapped": 1, "Not in ledger": 1}


def test_an_ambiguous_name_is_never_suggested(desk: Desk) -> None:
    """The line to paste has a gap for the name, because the notice lists both possible names."""
    desk.publish([Amount("1", venue="Alpha"), Amount("2", venue="ALPHA")])
    desk.put(HEAD + line("1", venue="alpha"))
    (notice,) = (one for one in desk.run().notices if one.message.startswith("unknown venue"))
    assert "it may be Venue ALPHA or Venue Alpha: replace ... with one of" in notice.message
    assert notice.message.endswith('alpha = "..."')
    desk.settle('[alias.venue]\nalpha = "Venue Alpha"\n')
    assert results(desk) == {"Matched": 1, "Not in ledger": 1}


def test_case_25_leading_zeros_are_kept(desk: Desk) -> None:
    """Account 123 does not match the book's 00123, but the notice suggests the book's name."""
    desk.publish([Amount("1", account="00123")])
    desk.put(HEAD + line("1", account="00123"))
    assert results(desk) == {"Matched": 1}
    desk.put(HEAD + line("1", account="123"))
    assert results(desk) == {"Unmapped": 1, "Not in ledger": 1}
    assert any('if it is "00123"' in one.message for one in desk.run().notices)


HOSTILE = [
    "=cmd|'/c calc'!A0",
    "+x",
    "@x",
    "-2+3",
    "\tx",
    'a,"b"\nc',
    "n" * 300,
    "\U0001f4b0",
    "../x",
    "a\x1fb",
]


def test_case_26_hostile_names_are_read_as_names(desk: Desk) -> None:
    """Formulas, control characters, quotes and emoji in names are read as names, and match."""
    rows = [Amount(str(n + 1), account=name) for n, name in enumerate(HOSTILE)]
    desk.publish(rows)
    quoted = [f'"{row.account.replace(chr(34), chr(34) * 2)}"' for row in rows]
    desk.put(
        HEAD + "".join(line(row.text, account=name) for row, name in zip(rows, quoted, strict=True))
    )
    assert results(desk) == {"Matched": len(HOSTILE)}


def test_case_27_a_custom_asset_is_not_the_listed_asset(desk: Desk) -> None:
    """BTC is the listed asset, and the organisation's custom asset is written BTC (custom)."""
    desk.publish([Amount("1"), Amount("2", custom=True)])
    desk.put(HEAD + line("1") + line("2", asset="BTC (custom)"))
    assert results(desk) == {"Matched": 2}
    desk.put(HEAD + line("3"))
    assert results(desk) == {"Amount differs": 1, "Not in ledger": 1}


def test_a_custom_asset_with_a_unique_name_needs_no_mark(desk: Desk) -> None:
    """If no listed asset has the name, the name alone is the custom asset."""
    desk.publish([Amount("2", asset="FUND", custom=True)])
    desk.put(HEAD + line("2", asset="FUND"))
    assert results(desk) == {"Matched": 1}


def test_case_28_the_same_account_name_at_two_venues_is_two_keys(desk: Desk) -> None:
    """Accounts with the same name at two venues are different keys."""
    desk.publish([Amount("1"), Amount("2", venue="v2")])
    desk.put(HEAD + line("1") + line("2", venue="v2"))
    assert results(desk) == {"Matched": 2}


def test_case_29_duplicate_rows_are_added_up_and_counted(desk: Desk) -> None:
    """Rows of one key are added up. If the sum is twice the book's amount, a cause is suggested."""
    desk.publish([Amount("5")])
    desk.put(HEAD + line("2") + line("3"))
    assert results(desk) == {"Matched": 1}
    desk.put(HEAD + line("5") + line("5"))
    assert results(desk) == {"Amount differs": 1}
    (found,) = desk.breaks()
    assert (found["rows"], found["cause"]) == (2, "The row is in the ledger twice")
    assert found["source"] == "ledger.csv:2, ledger.csv:3"


def test_case_30_a_venue_may_be_written_by_id_or_name(desk: Desk) -> None:
    """A venue or portfolio matches by its ID and by its display name."""
    desk.publish([Amount("5"), Amount("6", venue="v2")])
    desk.put(HEAD + line("5", venue="Venue v1", portfolio="Portfolio p1") + line("6", venue="v2"))
    assert results(desk) == {"Matched": 2}


def test_case_31_aliases_in_a_circle_are_refused(desk: Desk) -> None:
    """A circle of aliases stops the run with its names. Two aliases of one asset are added up."""
    desk.publish([Amount("3")])
    desk.put(HEAD + line("1", asset="A") + line("2", asset="B"))
    desk.settle('[alias.asset]\nA = "B"\nB = "A"\n')
    with pytest.raises(NotReconciled, match="circle: a = b = a"):
        desk.run()
    desk.settle('[alias.asset]\nA = "BTC"\nB = "btc"\n')
    assert results(desk) == {"Matched": 1}


def test_case_41_ledgers_of_the_day_are_combined(desk: Desk) -> None:
    """Ledgers from two custodians are combined. A file as of a different day stops the run.

    If file names have dates, only the file for the day is used.
    """
    rows = [Amount("1"), Amount("2", venue="v2")]
    desk.publish(rows)
    desk.put(ledger(rows[:1]), "alpha 2026-11-20.csv")
    desk.put(ledger([Amount("9")]), "alpha 2026-11-19.csv")
    desk.put(ledger(rows[1:]), "beta.csv")
    desk.put(ledger([Amount("8")]), "alpha 2026-11-21.csv")
    assert results(desk) == {"Matched": 2}
    assert any("alpha 2026-11-20.csv is newer" in one.reason for one in desk.run().unused)
    desk.put("asset;amount;date\nBTC;3;2026-11-18\n", "beta.csv")
    with pytest.raises(LateError, match=r"is as of 2026-11-20, but beta.csv is as of 2026-11-18"):
        desk.run()


@pytest.mark.usefixtures("workbook")
def test_case_42_a_copy_of_a_file_is_not_counted(desk: Desk) -> None:
    """A copy is not counted, and a rerun keeps the digest, run ID, episode and workbook."""
    desk.publish([Amount("1")])
    desk.put(HEAD + line("2"), "alpha.csv")
    first = desk.run()
    made = first.files[0].read_bytes()
    desk.put(HEAD + line("2"), "beta.csv")
    again = desk.run()
    assert (again.digest, again.run_id) == (first.digest, first.run_id)
    assert desk.breaks()[0]["episode"] == 1
    assert any("same content as alpha.csv" in one.message for one in again.notices)
    (desk.folder.inbox / "beta.csv").unlink()
    assert desk.run().files[0].read_bytes() == made


def test_case_43_a_zero_matches_a_missing_balance_part(desk: Desk) -> None:
    """At bucket level, a zero in the ledger matches a balance part that is not in the book."""
    desk.publish([Amount("1"), Amount("2", state="locked")])
    head = "asset;bucket;amount\n"
    desk.put(head + "BTC;trading free;1\nBTC;trading_locked;2\nBTC;staking locked;0\n")
    assert results(desk) == {"Matched": 2, "Matched (zero)": 1}
    desk.put("asset;amount\nBTC;3\n")
    assert results(desk) == {"Matched": 1}


def test_a_zero_on_only_one_side_is_not_a_break(desk: Desk) -> None:
    """A zero amount on only one side is not a break and has its own count."""
    desk.publish([Amount("1"), Amount("0", account="empty")])
    desk.put(HEAD + line("1") + line("0.00", account="other"))
    assert results(desk) == {"Matched": 1, "Matched (zero)": 2}


def test_case_44_a_missing_portfolio_is_one_notice(desk: Desk) -> None:
    """A portfolio that the API left out is reported in one notice, and its keys are not breaks."""
    gone = [Amount(str(n + 1), portfolio="p2", account=f"a{n}") for n in range(20)]
    desk.publish([Amount("1"), *gone], "20261119T021500Z")
    desk.publish([Amount("1")])
    desk.put(ledger([Amount("1"), *gone]))
    found = desk.run()
    assert (found.breaks, found.counts["Portfolio not delivered"]) == (0, 20)
    assert found.exit_code == 3
    told = [one.message for one in found.notices if one.severity == "high"]
    assert len(told) == 1
    assert "did not deliver portfolio Portfolio p2: 20 positions" in told[0]


def test_case_45_a_stale_portfolio_is_reported(desk: Desk) -> None:
    """A notice reports a portfolio that was last updated days before the snapshot."""
    desk.publish([Amount("1")], change={"portfolios": {"updated_at": STALE}})
    desk.put(HEAD + line("1"))
    found = desk.run()
    assert any("updated at 2025-12-01" in one.message for one in found.notices)
    desk.settle("stale_hours = 1000000000000000\n")
    assert not any("was last updated" in one.message for one in desk.run().notices)


def test_a_stale_portfolio_that_is_known_is_news_after_its_next_update(desk: Desk) -> None:
    """The line of the notice makes it low, until the portfolio is updated and stale once more."""
    desk.publish([Amount("1")], change={"portfolios": {"updated_at": STALE}})
    desk.put(HEAD + line("1"))
    severities, line_of_notice = [], ""
    for earlier in ("", "2025-12", "2025-11"):
        desk.settle(f"[stale]\n{line_of_notice.replace('2025-12', earlier)}\n")
        [notice] = [one for one in desk.run().notices if "was last updated" in one.message]
        line_of_notice = line_of_notice or notice.message.rpartition("[stale]: ")[2]
        severities.append(notice.severity)
    assert severities == ["medium", "low", "medium"]


def test_case_46_a_closed_venue_is_noted_on_its_breaks(desk: Desk) -> None:
    """The note on a break says that its venue does not trade."""
    desk.publish([Amount("1")], change={"venues": {"trading_status": "suspended"}})
    desk.put(HEAD + line("2"))
    desk.run()
    assert desk.breaks()[0]["note"] == "the venue is suspended"


def test_a_key_with_a_rejected_row_is_rejected(desk: Desk) -> None:
    """A key with a rejected row is Rejected, although its other rows match."""
    desk.publish([Amount("1")])
    desk.put(HEAD + line("1") + line("TBC"))
    assert results(desk) == {"Rejected": 1}


def test_breaks_that_net_to_zero_within_a_venue_are_placements(desk: Desk) -> None:
    """Breaks that add up to zero within a venue have the placement `venue`."""
    rows = [Amount("1", account="a"), Amount("2", account="b"), Amount("4", account="c")]
    desk.publish(rows)
    ours = [Amount("2", account="a"), Amount("3", account="b"), Amount("2", account="c")]
    desk.put(ledger(ours))
    assert results(desk) == {"Amount differs": 3}
    assert {one["placement"] for one in desk.breaks()} == {"venue"}


CAUSES = [
    ("123.4567", "-123.4567", "Wrong sign"),
    ("1.2345", "1234500000000000000", "Different unit"),
    ("1234.5", "1243.5", "Two digits transposed"),
    ("1.23456789", "1.23", "Rounded to 2 decimal places"),
    (f"1.{'1' * 30}2", f"-1.{'1' * 30}2", "Wrong sign"),
    (f"1.{'1' * 30}2", f"-1.{'1' * 27}", ""),
    ("77", "55", "A day behind"),
    ("77", "56", ""),
]


@pytest.fixture(scope="module")
def causes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the suggested cause of each case by asset. Each case has its own asset."""
    desk = Desk(tmp_path_factory.mktemp("causes"))
    desk.publish((Amount("55", asset=f"A{n}") for n in range(len(CAUSES))), "20261119T021500Z")
    desk.publish(Amount(theirs, asset=f"A{n}") for n, (theirs, _, _) in enumerate(CAUSES))
    lines = (line(ours, asset=f"A{n}") for n, (_, ours, _) in enumerate(CAUSES))
    desk.put(HEAD + "".join(lines))
    desk.run()
    return {one["key"][1]: one["cause"] for one in desk.breaks()}


@pytest.mark.parametrize("number", range(len(CAUSES)), ids=lambda n: CAUSES[n][2] or "none")
def test_causes_are_suggested_from_the_digits(causes: dict[str, str], number: int) -> None:
    """Sign, unit, transposition, rounding and a day behind are suggested, and nothing else."""
    found, cause = causes[f"A{number}"], CAUSES[number][2]
    assert found.startswith(cause)
    assert bool(found) == bool(cause)


def test_one_amount_under_two_names_is_suggested_as_an_alias(desk: Desk) -> None:
    """If only the name of an account differs, the cause of both breaks suggests an alias."""
    desk.publish([Amount("12.5", account="cold-1")])
    desk.put(HEAD + line("12.5", account="Vault"))
    desk.run()
    assert all("under two names? See the Mapping sheet" in one["cause"] for one in desk.breaks())


def test_a_position_in_the_wrong_portfolio_gets_no_alias(desk: Desk) -> None:
    """If the book has both portfolios, the cause is a wrong booking, and no alias is suggested."""
    desk.publish([Amount("12.5"), Amount("1", portfolio="p2", asset="ETH")])
    desk.put(HEAD + "p2;BTC;v1;main;12.5\np2;ETH;v1;main;1\n")
    told = desk.run().notices
    for one in desk.breaks():
        assert one["cause"].startswith(
            "Booked under a different portfolio? 'Portfolio p2' in the ledger"
        )
    assert not [notice for notice in told if "alias" in notice.message]


def test_a_position_in_the_wrong_account_gets_no_alias(desk: Desk) -> None:
    """If the book has both accounts, the cause is a wrong booking, and no alias is suggested."""
    desk.publish([Amount("12.5", account="cold"), Amount("1", venue="v2", account="hot")])
    desk.put(HEAD + "p1;BTC;v1;hot;12.5\np1;BTC;v2;hot;1\n")
    told = desk.run().notices
    assert {one["cause"].partition("?")[0] for one in desk.breaks()} == {
        "Booked under a different account"
    }
    assert not [notice for notice in told if "alias" in notice.message]


@pytest.mark.usefixtures("workbook")
def test_a_rejected_row_has_blank_amounts_and_a_note(desk: Desk) -> None:
    """A rejected row has blank amount cells, and the note shows its text and its location."""
    desk.publish([Amount("3"), Amount("1", asset="ETH")])
    desk.put(HEAD + line("TBC") + line("1", asset="ETH"))
    done = desk.run()
    (found,) = desk.breaks()
    assert (found["result"], found["source"]) == ("Rejected", "ledger.csv:2")
    assert found["note"] == "'TBC' in ledger.csv:2 could not be read as an amount"
    rows = list(openpyxl.load_workbook(done.files[0])["Breaks"].iter_rows(min_row=2))
    cells = {head.value: cell.value or "" for head, cell in zip(*rows, strict=True)}
    blank = ("Ledger", "Difference", "Ledger, exact", "Difference, exact")
    assert [cells[title] for title in blank] == [""] * 4
    assert (cells["Book"], cells["Ledger source"]) == (3, "ledger.csv:2")
    assert service.verify(desk.folder.root, done.files[0]).is_whole


def test_a_late_ledger_is_a_notice(desk: Desk) -> None:
    """A run without a ledger exits with code 0 and reports that there is no ledger."""
    desk.publish([Amount("1")])
    found = desk.run()
    assert (found.exit_code, found.run_id) == (0, "")
    assert "no ledger for 2026-11-20" in found.message


def test_many_keys_are_matched_exactly() -> None:
    """Of 50,000 keys, matching finds exactly 50 differences of 1e-18 and 75 one-sided keys."""
    count = 50_000
    connection = duckdb.connect()
    make_macros(connection)
    connection.execute(
        "create schema history; create table history.balances as select date '2026-11-20' as "
        "snapshot_date, 'p' || i % 50 as portfolio_id, 'A' || i % 300 as asset_id, "
        "false as is_custom_asset, 'v' || i % 20 as venue_id, 'account-' || i as account_name, "
        "i || '.' || lpad(i::varchar, 17, '0') || '1' as amount_text, "
        f"amount_text::decimal(38, 18) as amount from range({count}) as t(i); "
        "create table history.accounts as select *, 1 as balance_count from history.balances"
    )
    fields = ("portfolio", "asset", "venue", "account")
    rows: list[tuple[object, ...]] = []
    for i in range(count):
        if i % 2000 == 7:
            continue
        name = f"only-{i}" if i % 2000 == 1007 else f"account-{i}"
        amount = f"{i}.{i:017}{2 if i % 1000 == 3 else 1}"
        key = (f"p{i % 50}", f"A{i % 300}", f"v{i % 20}", name, "")
        rows.append((*key, amount, 18, False, "", 0, i))
    lines = LedgerRows()
    lines.add_all(dict(zip(LINES.names, zip(*rows, strict=True), strict=True)))
    file = LedgerSource(
        name="l",
        sheet="",
        sha256="",
        as_of=None,
        rows=0,
        used=0,
        skipped={},
        rejected=0,
        fingerprint="",
        fields=fields,
        covers={},
        profile="",
    )
    read = Ledger(
        fields=fields, lines=lines, rejected=(), sources=(file,), notices=(), remembered={}
    )
    names = {
        "portfolio": {f"p{n}": () for n in range(50)},
        "asset": {f"A{n}": () for n in range(300)},
        "venue": {f"v{n}": () for n in range(20)},
    }
    known = book.Reference(
        names=names,
        display_names={},
        delivered=frozenset(names["portfolio"]),
        closed={},
        notices=(),
    )
    whole = Scope(files=({},))
    book.make_book_rows(connection, date(2026, 11, 20), fields)
    source: Any = SimpleNamespace(connection=connection)
    inputs = MatchInputs(source=source, ledger=read, config=Config(), reference=known)
    sides.make_covered_rows(inputs, whole)
    taken = sides.make_ledger_side(inputs, whole)
    sides.make_book_side(inputs, whole)
    compare.join_sides(connection, fields)
    rules = classify.MatchRules(
        fields=fields,
        config=Config(),
        undelivered=frozenset(),
        rejected=taken.rejected,
        kept={},
        totals={},
    )
    classify.judge(connection, rules)
    found = classify.broken_pairs(connection, fields)
    planted = count // 1000
    counted = compare.counts(connection)
    assert counted[Result.DIFFERS] == planted
    assert {abs(one.difference) for one in found if one.result is Result.DIFFERS} == {
        exact("0.000000000000000001")
    }
    assert counted[Result.NOT_IN_LEDGER] == planted
    assert counted[Result.UNMAPPED] + counted[Result.NOT_IN_SNAPSHOT] == planted // 2
    assert counted[Result.MATCHED] == count - 2 * planted


def test_a_day_without_a_book_uses_the_newest_earlier_book(desk: Desk) -> None:
    """A run for a day without a book reconciles the newest earlier book, under that book's date."""
    desk.publish([Amount("1")], SNAPSHOT)
    desk.put(HEAD + line("1"))
    assert desk.run(date(2026, 11, 25)).day == date(2026, 11, 20)


def test_the_books_side_equals_its_view(desk: Desk) -> None:
    """The book's side equals the view for sums, long amounts, empty accounts and custom assets."""
    amounts = [
        *(Amount("0.1", bucket=bucket, state="locked") for bucket in ("margin", "staking")),
        Amount("123456789012345678901234567890.5", asset="HUGE"),
        Amount("1e-24", asset="TINY"),
        Amount("-0", asset="ZERO"),
        Amount("99999999999999999999.9", asset="MAX"),
        Amount("99999999999999999999.9", asset="MAX", state="locked"),
        Amount("3", custom=True),
    ]
    names = {"portfolio_id": "p1", "asset_id": "BTC", "venue_id": "v1", "account_name": "empty"}
    desk.again(night(SNAPSHOT, amounts, {"accounts": [names | {"balance_count": 0}]}))
    fields = ("portfolio", "asset", "venue", "account")
    with export_source.book(desk.layout.database, None, ()) as source:
        book.make_book_rows(source.connection, source.day, fields)
        found = source.connection.execute("select asset, amount from book_rows").fetchall()
        view = source.connection.execute(
            "select asset_id || if(is_custom_asset, chr(31), ''), total_text from account_balances"
        ).fetchall()
    assert sorted(found) == sorted(view)
    assert dict(found)["MAX"] == "199999999999999999999.8"
    assert ("BTC", "0") in found
    assert dict(found)["TINY"] == "0." + "0" * 23 + "1"


def test_a_suggested_name_works_as_an_alias(desk: Desk) -> None:
    """A misspelled portfolio is reported with the portfolio's name, and an alias to it works."""
    desk.publish([Amount("7")], change={"portfolios": {"name": "Main Fund"}})
    desk.put(HEAD + line("7", portfolio="Mian Fund"))
    (unknown,) = [notice.message for notice in desk.run().notices if "unknown" in notice.message]
    assert '"Mian Fund" = "Main Fund"' in unknown
    desk.settle('[alias.portfolio]\n"Mian Fund" = "Main Fund"\n')
    assert results(desk) == {"Matched": 1}
    desk.put(HEAD + line("7", portfolio="MAIN fund"))
    (folded,) = [notice.message for notice in desk.run().notices if "read as" in notice.message]
    assert folded == "portfolio read as Main Fund in 1 row, although capitals or spaces differ"


def test_the_notice_for_a_rejected_row_has_the_reason(desk: Desk) -> None:
    """The notice for a rejected row has the row number, the text and the reason."""
    desk.publish([ONE])
    desk.put(HEAD + line("#N/A"))
    assert desk.run().notices[0].message == "row 2 was rejected: '#N/A' is not a number"


def test_the_largest_difference_of_an_asset_is_first(desk: Desk) -> None:
    """Breaks are sorted by the size of their difference as a number, not as text."""
    sizes = {"a": "10", "b": "10.5", "c": "-11", "d": "10.25", "e": "9.75"}
    desk.publish(Amount("100", account=account) for account in sizes)
    ours = {account: str(exact("100") + exact(size)) for account, size in sizes.items()}
    desk.put(HEAD + "".join(line(text, account=account) for account, text in ours.items()))
    desk.run()
    found = [broken["difference"] for broken in desk.breaks()]
    assert found == ["-11", "10.5", "10.25", "10", "9.75"]


def test_a_break_is_shown_on_one_line_with_thousands_separators(desk: Desk) -> None:
    """A name with a line break is shown on one line, and the difference has separators."""
    desk.publish([Amount("1234567.5")])
    desk.put(HEAD + line("0"))
    run = desk.run().run
    assert run is not None
    item = run.breaks[0]
    item = msgspec.structs.replace(item, names=dict(item.names) | {"portfolio": "a\nb"})
    assert (item.place.partition(" / ")[0], item.difference_words) == ("a b", "-1,234,567.5")
