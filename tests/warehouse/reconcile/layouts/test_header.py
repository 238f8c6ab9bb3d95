"""Tests of common ledger layouts: each is correct after at most one round of pasted answers."""

from collections import defaultdict
from datetime import date
from pathlib import Path

import pytest

from tests.support.books import Amount
from tests.support.ledger_samples import (
    BOOK,
    ERRORS,
    Key,
    LedgerSample,
    ledger_rows,
    ledger_samples,
)
from tests.support.pasted_answers import answer
from tests.support.reconciliation_home import Desk
from tests.support.shared import some_daily
from tests.warehouse.reconcile.conftest import DAY
from warehouse.exact import total
from warehouse.reconcile.book import KnownNames
from warehouse.reconcile.ledger.header_settings import ReadingContext
from warehouse.reconcile.ledger.read import read_ledger
from warehouse.reconcile.ledger.titles import count_fields
from warehouse.reconcile.model import Ledger
from warehouse.reconcile.settings.config import Config, read_config
from warehouse.reconcile.terms import Ambiguous, reading_files
from warehouse.spreadsheet.reading.grid import open_file

pytestmark = pytest.mark.usefixtures("no_workbook")

OWN = [sample for sample in ledger_samples() if sample.path.parent.parent == Path(__file__).parent]
NAMES = {
    "portfolio": {amount.portfolio: () for amount in BOOK},
    "asset": {amount.asset: () for amount in BOOK},
    "venue": {amount.venue: () for amount in BOOK},
}


def read_with_answers(sample: LedgerSample, settings: Path) -> tuple[Ledger, int]:
    """Return the ledger of a sample, and how many rounds of questions it took to read it."""
    with reading_files():
        file = open_file(sample.path, count_fields)
    settings.write_text(sample.settings, encoding="utf-8")
    for rounds in range(3):
        config = read_config(settings)
        known = KnownNames.of(NAMES, config.aliases)
        try:
            return read_ledger([file], ReadingContext(config=config, day=DAY, known=known)), rounds
        except Ambiguous as question:
            with settings.open("a", encoding="utf-8") as answers:
                answers.write(f"{answer(question.line)}\n")
    raise AssertionError(settings.read_text(encoding="utf-8"))


@pytest.mark.parametrize("sample", OWN, ids=lambda sample: sample.path.name)
def test_every_row_of_a_layout_is_read_after_one_answer(
    sample: LedgerSample, tmp_path: Path
) -> None:
    """Each key has the sum that was written, no row is rejected, and one answer is enough."""
    ledger, rounds = read_with_answers(sample, tmp_path / "recon.toml")
    sums: dict[Key, list[str]] = defaultdict(list)
    for line in ledger.lines:
        portfolio, asset, venue, account, _ = line.names
        sums[portfolio, asset, venue.strip(), account].append(line.amount.text)
    assert {key: total(texts) for key, texts in sums.items()} == {
        key: total(texts) for key, texts in ledger_rows().items()
    }
    assert not ledger.rejected
    assert all(source.is_complete for source in ledger.sources)
    assert rounds <= 1


@pytest.mark.torture
@pytest.mark.parametrize("sample", ledger_samples(), ids=lambda sample: sample.path.name)
def test_the_breaks_are_the_six_planted_errors(sample: LedgerSample, tmp_path: Path) -> None:
    """After at most one round of pasted answers, the breaks are exactly the six planted errors."""
    desk = Desk(tmp_path)
    desk.publish(BOOK)
    desk.folder.make()
    copy = desk.folder.inbox / sample.path.name
    copy.write_bytes(sample.path.read_bytes())
    settings = sample.settings
    desk.settle(settings)
    try:
        desk.run()
    except Ambiguous as question:
        desk.settle(f"{settings}\n{answer(question.line)}\n")
        desk.run()
    assert {tuple(break_["key"][:4]) for break_ in desk.breaks()} == {
        key for error in ERRORS for key in error.rows
    }


TOTALS = (
    "Portfolio;Asset;Venue;Account;Quantity\np;BTC;kraken;a;1\np;BTC;vault;b;2\nTotal BTC;;;;{}\n"
)


@pytest.mark.parametrize(("stated", "severity"), [("3", "low"), ("4", "high")])
def test_a_subtotal_is_compared_with_the_sum_of_its_rows(
    tmp_path: Path, stated: str, severity: str
) -> None:
    """A subtotal that differs from the sum of its rows gives a high notice with both figures.

    A correct subtotal gives a low notice.
    """
    path = tmp_path / "ledger.csv"
    path.write_text(TOTALS.format(stated), encoding="utf-8")
    sample = LedgerSample(path=path, program="by hand")
    ledger, _ = read_with_answers(sample, tmp_path / "recon.toml")
    (notice,) = ledger.notices
    assert notice.severity == severity
    assert ("says 4, but its 2 rows add up to 3" in notice.message) == (severity == "high")


def test_a_total_of_different_assets_is_counted_as_unchecked(tmp_path: Path) -> None:
    """A total over several assets cannot be checked, because it may be a value in one currency."""
    path = tmp_path / "ledger.csv"
    lines = TOTALS.format("4").replace("p;BTC;vault", "p;ETH;vault").replace("Total BTC", "Total")
    path.write_text(lines, encoding="utf-8")
    sample = LedgerSample(path=path, program="by hand")
    ledger, _ = read_with_answers(sample, tmp_path / "recon.toml")
    (notice,) = ledger.notices
    assert (notice.severity, "1 total line could not be checked" in notice.message) == ("low", True)


def test_a_partial_ledger_is_compared_with_its_part_of_the_book(tmp_path: Path) -> None:
    """A single notice counts the positions that no ledger covers, and none of them is a break."""
    desk = Desk(tmp_path)
    desk.publish(BOOK)
    desk.put("Portfolio,Asset,Account,Balance\nalpha,ETH,trading,96.0625\n", "coinbase.csv")
    with pytest.raises(Ambiguous, match="The ledger may cover only that venue") as question:
        desk.run()
    desk.settle(question.value.line)
    summary = desk.run()
    assert {break_["names"]["asset"] for break_ in desk.breaks()} == {"SOL", "USDC"}
    (line,) = [notice for notice in summary.notices if "no ledger covers" in notice.message]
    assert "12 positions in the book" in line.message


def coinbase(amount: str) -> str:
    """Return a ledger of one custodian with this amount in its first row."""
    return (
        f"Portfolio,Asset,Account,Balance\nalpha,ETH,trading,{amount}\nalpha,SOL,trading,15320.4\n"
        "alpha,USDC,trading,750000\nbeta,USDC,trading,120450.12\n"
    )


KRAKEN = (
    "Portfolio,Asset,Account,Balance\nalpha,BTC,main,12.5\nalpha,ETH,main,1834.125\n"
    "beta,BTC,main,3.00000001\nbeta,SOL,main,2200.25\n"
)
SCOPES = (
    '[file."coinbase*"]\nvenue = "coinbase"\nexpected = {}\n[file."kraken*"]\nvenue = "kraken"\n'
)


@pytest.mark.parametrize("late", some_daily([False, True], 2), ids=["missing", "late"])
def test_a_break_keeps_its_id_and_age_if_its_ledger_is_missing(
    tmp_path: Path, *, late: bool
) -> None:
    """A break whose ledger is missing for one night keeps its ID, first date and age.

    The break is not resolved in that night, and a high notice names the missing ledger.
    """
    desk = Desk(tmp_path)
    for day in (20, 21, 22):
        desk.publish(BOOK, f"202611{day}T021500Z")
    desk.settle(SCOPES.format("true"))
    desk.put(coinbase("1"), "coinbase-2026-11-20.csv")
    desk.put(KRAKEN, "kraken-2026-11-20.csv")
    assert desk.run(day_of(20)).breaks == 1
    first = desk.breaks()[0]
    if not late:
        (desk.folder.inbox / "coinbase-2026-11-20.csv").unlink()
    desk.put(KRAKEN, "kraken-2026-11-21.csv")
    without = desk.run(day_of(21))
    assert (without.breaks, without.exit_code) == (0, 3)
    assert any(
        "coinbase" in notice.location for notice in without.notices if notice.severity == "high"
    )
    desk.put(coinbase("1"), "coinbase-2026-11-22.csv")
    desk.put(KRAKEN, "kraken-2026-11-22.csv")
    assert desk.run(day_of(22)).breaks == 1
    again = desk.breaks()[0]
    assert (again["id"], again["episode"]) == (first["id"], first["episode"])
    assert (again["first_seen"], again["age_days"]) == (first["first_seen"], 2)


def day_of(number: int) -> date:
    """Return a day in November 2026."""
    return date(2026, 11, number)


def test_rows_that_a_file_does_not_cover_are_not_compared(tmp_path: Path) -> None:
    """A row of a venue that the file does not cover is counted in a notice, and is not a break."""
    desk = Desk(tmp_path)
    desk.publish([Amount("1", "p", "BTC", venue, "a") for venue in ("kraken", "vault")])
    desk.settle('[file."ledger*"]\nvenue = "kraken"\n')
    desk.put("portfolio;asset;venue;account;amount\np;BTC;kraken;a;1\np;BTC;vault;a;9\n")
    summary = desk.run()
    assert summary.breaks == 0
    assert any("1 row is not compared" in notice.message for notice in summary.notices)


def test_an_asset_without_an_amount_is_rejected(tmp_path: Path) -> None:
    """Between lines that name venues, an asset without an amount is rejected and not lost."""
    path = tmp_path / "ledger.csv"
    path.write_text(
        "Asset,Account,Portfolio,Quantity\nkraken,,,\nBTC,main,alpha,1\nETH,,,\nSOL,main,alpha,2\n"
    )
    ledger, _ = read_with_answers(LedgerSample(path=path, program="by hand"), tmp_path / "r.toml")
    assert [line.names[1:3] for line in ledger.lines] == [("BTC", "kraken"), ("SOL", "kraken")]
    assert [row.line for row in ledger.rejected] == [4]


def test_a_portfolio_name_may_begin_with_the_word_total(tmp_path: Path) -> None:
    """A portfolio may be called "Total alpha", even next to a portfolio that is called "alpha"."""
    path = tmp_path / "ledger.csv"
    path.write_text("Portfolio,Asset,Venue,Account,Quantity\nTotal alpha,BTC,kraken,main,1\n")
    file = open_file(path, count_fields)
    names = {**NAMES, "portfolio": {"alpha": (), "Total alpha": ()}}
    context = ReadingContext(config=Config(), day=DAY, known=KnownNames.of(names, {}))
    assert len(read_ledger([file], context).lines) == 1
