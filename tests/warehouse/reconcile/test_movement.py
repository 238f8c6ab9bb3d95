"""Tests of the movement proof: an earlier book plus the transactions, compared with a book."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.books import Amount
from tests.support.priced_books import drop, publish, read_at
from warehouse.reconcile import service
from warehouse.reconcile.close.close import CloseSummary, close
from warehouse.reconcile.close.verify import verify_pack
from warehouse.reconcile.model import Run
from warehouse.reconcile.record.record import Record
from warehouse.reconcile.terms import NotReconciled
from warehouse.storage.layout import Layout

pytestmark = pytest.mark.usefixtures("no_workbook")
TITLES = "time,portfolio,venue,account,asset_id,is_custom_asset,amount,kind,reference"
NOW = datetime(2026, 11, 24, 8, tzinfo=UTC)
ROW = "2026-11-20T12:00:00Z,{},v1,{},BTC,,{},trade,{}"


@dataclass
class Proof:
    """A home with a book for each night, starting on 2026-11-20, and its movement proof."""

    home: Path
    nights: Sequence[Sequence[Amount]]
    versions: int = 0
    is_published: bool = False

    @property
    def record(self) -> Record:
        """The movement record."""
        return Record(self.home / "movements")

    def bring(self, *lines: str, name: str = "a") -> None:
        """Drop a file of transactions."""
        drop(self.home, f"transactions/{name}.csv", TITLES, *lines)
        self.is_published = False

    def run(self, day: int, **options: Any) -> Run:
        """Prove the movement of a day. Publish the nights first if there are new transactions."""
        books = [read_at(f"202611{20 + n}T021500Z", night) for n, night in enumerate(self.nights)]
        if not self.is_published:
            self.versions += 1
            publish(self.home, books, f"v{self.versions}")
            self.is_published = True
        ran = service.run(
            Layout(self.home).database,
            self.record.root,
            as_of=date(2026, 11, day),
            program_version="0.0.0",
            now=NOW,
            pause=lambda: None,
            **options,
        )
        assert ran.run is not None, ran.message
        return ran.run

    def sign(self) -> None:
        """Sign the latest result in both roles."""
        for role, who in (("preparer", "ada"), ("reviewer", "grace")):
            service.sign(self.record.root, role=role, who=who, now=NOW)

    def close(self) -> CloseSummary:
        """Close November."""
        database = Layout(self.home).database
        now = datetime(2026, 12, 1, tzinfo=UTC)
        return close(
            database, self.record.root, "2026-11", who="eva", now=now, program_version="0.0.0"
        )


def broken(run: Run) -> list[tuple[str, str, str, str]]:
    """Return the portfolio, the account, the result and the difference of each break."""
    return sorted(
        (break_.key[0].lstrip("?"), break_.key[3], break_.result_words, break_.difference)
        for break_ in run.breaks
    )


def test_wrong_transactions_are_exactly_the_breaks(tmp_path: Path) -> None:
    """A missing, repeated, negated or misplaced transaction is a break of its account."""
    names = ("p1", "p2", "p3", "p4", "p5", "gone")
    before = [Amount("10", name) for name in names]
    after = [Amount("12", name) for name in names[:-1]]
    proof = Proof(tmp_path, [before, [*after, Amount("1", "p4", account='=cold;1, "x"')]])
    proof.bring(
        ROW.format("p2", "main", "2", "b"),
        ROW.format("p2", "main", "2", "b"),
        ROW.format("p3", "main", "-2", "c"),
        ROW.format("p4", "hot", "2", "d"),
        ROW.format("p4", '"=cold;1, ""x"""', "1", "d"),
        ROW.format("p5", "main", "2", "e"),
        ROW.format("nobody", "main", "7", "f"),
    )
    run = proof.run(21)
    assert broken(run) == [
        ("gone", "main", "Not in book", "10"),
        ("nobody", "main", "Unmapped", "7"),
        ("p1", "main", "Amount differs", "-2"),
        ("p2", "main", "Amount differs", "2"),
        ("p3", "main", "Amount differs", "-4"),
        ("p4", "hot", "Not in book", "2"),
        ("p4", "main", "Amount differs", "-2"),
    ]
    assert proof.run(21).run_id == run.run_id


def test_any_name_and_amount_is_compared_exactly(tmp_path: Path) -> None:
    """The ledger that nightbook writes asks no questions, whatever accounts are called."""
    names = ("Total", " spaced ", "", "1.234", "2026-11-21", "a\nb", "-", "#N/A", "x" * 400, "Δ,;")
    amounts = ("1.234", "1,5".replace(",", "."), "-3", "0", "1e3".replace("e3", "000"))
    long = "123456789012345678901234567890123456789012.345678901234567890123"
    book = [
        Amount(text, account=name, asset=f"A{no}", custom=no == 1)
        for name in names
        for no, text in enumerate((*amounts, long))
    ]
    proof = Proof(tmp_path, [book, book])
    proof.bring(ROW.format("p1", "main", "0", "a"))
    run = proof.run(21)
    assert (broken(run), run.rejected, run.exit_code) == ([], 0, 0)
    assert sum(run.counts.values()) == len(book)


def test_a_break_ages_until_a_transaction_explains_it(tmp_path: Path) -> None:
    """The opening book stays while a break is open, so its ID and its age continue."""
    proof = Proof(tmp_path, [[Amount(text)] for text in ("10", "12", "12", "12", "12")])
    proof.bring(ROW.format("p1", "main", "20", "a"))
    first, second = proof.run(21), proof.run(22)
    [before], [after] = first.breaks, second.breaks
    assert (before.id, before.difference) == (after.id, "18") == (after.id, after.difference)
    assert (before.age_days, after.age_days, after.change) == (0, 1, "unchanged")
    proof.bring(ROW.format("p1", "main", "2", "a"), name="corrected")
    third, fourth = proof.run(23), proof.run(24)
    assert (third.breaks, [break_.id for break_ in third.resolved]) == ((), [before.id])
    openings = [run.evidence["opening book"][-2:] for run in (first, second, third, fourth)]
    assert openings == ["20", "20", "20", "23"]
    assert proof.run(24, since=date(2026, 11, 21)).evidence["opening book"] == "2026-11-21"
    days = [line["at"] for line in service.history(proof.record.root, before.id)]
    assert days == ["2026-11-21", "2026-11-22"]


def test_the_result_names_the_cuts_and_the_transactions_at_them(tmp_path: Path) -> None:
    """The notices have both times to the second, all counts, and each transaction at a cut."""
    proof = Proof(tmp_path, [[Amount("1")], [Amount("2")]])
    at_cut = "2026-11-21T02:15:00Z,p1,v1,main,BTC,,1,trade,{}"
    old = "2026-11-01T02:15:00Z,p1,v1,main,BTC,,1,trade,old"
    same = ROW.format("p1", "main", "0", "same")
    bad = ROW.format("p1", "main", "much", "bad")
    proof.bring(old, same, same, bad, *(at_cut.format(f"t{number:02}") for number in range(22)))
    run = proof.run(21)
    [facts] = [notice.message for notice in run.notices if "cut-off 2026" in notice.message]
    assert facts == (
        "opening book 2026-11-20, opening cut-off 2026-11-20 02:15:00 UTC, "
        "closing cut-off 2026-11-21 02:15:00 UTC, transactions between the cut-offs 2, "
        "transactions at a cut-off 22, transactions outside 1, transactions repeated 2. To list "
        "all transactions, type nightbook query "
        "\"from transactions_between('2026-11-20', '2026-11-21')\""
    )
    listed = [notice for notice in run.notices if notice.location.startswith("transaction t")]
    assert [notice.location[-3:] for notice in listed] == [f"t{number:02}" for number in range(20)]
    assert any("1 reject in reference/transactions" in notice.message for notice in run.notices)
    assert any("2 more transactions at a cut-off" in notice.message for notice in run.notices)
    assert broken(run) == [("p1", "main", "Amount differs", "-1")]


@pytest.mark.usefixtures("workbook")
def test_a_month_with_a_movement_proof_is_signed_closed_and_verified(tmp_path: Path) -> None:
    """The pack of the movement proof verifies, and a closed day needs a reason."""
    proof = Proof(tmp_path, [[Amount("10")], [Amount("12")]])
    proof.bring(ROW.format("p1", "main", "2", "a"))
    assert proof.run(21).exit_code == 0
    proof.sign()
    closed = proof.close()
    check = verify_pack(closed.pack, "0.0.0")
    assert (check.differences, closed.pack.parent) == ([], tmp_path / "movements" / "packs")
    with pytest.raises(Exception, match="nightbook reconcile run --movements --as-of 2026-11-21"):
        proof.run(21)
    assert proof.run(21, restate="a late fee", by="eva").exit_code == 0


def test_nothing_is_proven_without_transactions_or_an_earlier_book(tmp_path: Path) -> None:
    """Without transactions, or without an earlier book, nothing is written."""
    proof = Proof(tmp_path, [[Amount("1")], [Amount("2")]])
    with pytest.raises(NotReconciled, match="Nobody has brought transactions"):
        proof.run(21)
    proof.bring(ROW.format("p1", "main", "1", "a"))
    for day, options in ((20, {}), (21, {"since": date(2026, 11, 21)})):
        with pytest.raises(NotReconciled, match="A book on or before"):
            proof.run(day, **options)
    assert not proof.record.root.exists()


def test_only_nightbook_writes_the_ledger_of_a_proof(tmp_path: Path) -> None:
    """A file of a person is never replaced or compared, and its name is in the message."""
    proof = Proof(tmp_path, [[Amount("1")], [Amount("2")]])
    proof.bring(ROW.format("p1", "main", "1", "a"))
    proof.run(21)
    [ledger] = proof.record.inbox.iterdir()
    ledger.write_text(ledger.read_text().replace("2", "3"))
    with pytest.raises(NotReconciled, match=r"movement-2026-11-21\.csv was not written by"):
        proof.run(21)
    assert "3" in ledger.read_text()
    ledger.rename(ledger.with_name("plug.csv"))
    with pytest.raises(NotReconciled, match=r"nightbook did not write: plug\.csv"):
        proof.run(21)
