"""Tests that close a month with ledgers from four custodians and verify the pack elsewhere.

Each week, one file is late, one is corrected the morning after, and one never arrives. The errors
are planted, so the tests know which breaks each result must have.
"""

import csv
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest

from tests.support.books import Amount
from tests.support.reconciliation_home import Desk
from warehouse.reconcile import service
from warehouse.reconcile.close.close import close
from warehouse.reconcile.close.verify import verify_pack
from warehouse.reconcile.model import Run

OFFICE, ROOT = shutil.which("soffice"), Path(__file__).parents[3]
CUSTODIANS = ("coinbase", "kraken", "bitgo", "fireblocks")
SETTINGS = "".join(f'[file."{name}*"]\nvenue = "{name}"\n' for name in CUSTODIANS)
PORTFOLIOS, ASSETS = ("alpha", "beta"), ("BTC", "ETH", "SOL", "USDC")
DOUBLED = ("beta", "SOL")  # wrong in a file that is corrected the morning after
FIRST = date(2026, 11, 1)
LATE, CORRECTED, MISSING = 2, 4, 5  # nights of each week, counted from 0
Key = tuple[str, str, str]  # portfolio, asset, custodian


@dataclass(slots=True)
class Month:
    """The book, the planted errors and the comments of a simulated month.

    `wrong` maps a key to the amount that is added, and to the first night without the error.
    """

    desk: Desk
    rng: Random = field(default_factory=lambda: Random(7))
    book: dict[Key, Decimal] = field(default_factory=dict)
    wrong: dict[Key, tuple[Decimal, int]] = field(default_factory=dict)
    comments: set[str] = field(default_factory=set)

    def night(self, number: int) -> None:
        """Change all amounts, plant an error and publish the book.

        The amounts at the venue `elsewhere` are in no ledger.
        """
        for portfolio in PORTFOLIOS:
            for asset in ASSETS:
                for custodian in (*CUSTODIANS, "elsewhere"):
                    moved = Decimal(self.rng.randrange(10**8)).scaleb(-6)
                    key = portfolio, asset, custodian
                    self.book[key] = self.book.get(key, Decimal(1000)) + moved
        self.wrong = {key: error for key, error in self.wrong.items() if error[1] > number}
        free = [key for key in self.book if key not in self.wrong and key[2] in CUSTODIANS]
        self.wrong[self.rng.choice(sorted(free))] = (Decimal("0.000001"), number + 1 + number % 4)
        rows = [Amount(f"{amount:f}", *key) for key, amount in self.book.items()]
        self.desk.publish(rows, f"{FIRST + timedelta(number):%Y%m%d}T021500Z")

    def deliver(self, custodian: str, number: int, *, is_wrong: bool = False) -> None:
        """Write a custodian's file into the inbox. It has no column for the venue."""
        table = io.StringIO()
        lines = csv.writer(table)
        lines.writerow(("portfolio", "asset", "account", "amount"))
        for key, amount in self.book.items():
            added, _ = self.wrong.get(key, (Decimal(0), 0))
            if key[2] == custodian:
                is_doubled = is_wrong and key[:2] == DOUBLED
                lines.writerow((*key[:2], "main", (amount + added) * (1 + is_doubled)))
        self.desk.put(table.getvalue(), f"{custodian}_{FIRST + timedelta(number)}.csv")

    def run(self, number: int, hour: int) -> Run:
        """Run a night for the first or second time and return its result."""
        day = FIRST + timedelta(number)
        moment = datetime.combine(day, datetime.min.time(), UTC) + timedelta(days=1, hours=hour)
        self.desk.run(day, moment)
        result = self.desk.folder.result(day)
        assert result is not None
        return result

    def require(self, result: Run, *also: Key, missing: str = "") -> None:
        """Check that the breaks are exactly the planted errors and `also`.

        The errors of the custodian `missing` do not count, because its file was not delivered.
        """
        told = {(names["portfolio"], names["asset"], names["venue"]) for names in _names(result)}
        planted = {key for key in self.wrong if key[2] != missing}
        assert told == planted | set(also), result.day

    def comment(self, result: Run, number: int) -> None:
        """Write a comment on the first break into a copy of the night's workbook."""
        id_ = min(break_.id for break_ in result.breaks)
        text = f"asked on night {number}"
        self.comments.add(text)
        book = self.desk.folder.out / f"{result.day}" / f"recon_{result.day}.xlsx"
        copy = self.desk.folder.out / f"by_ada_{number}.xlsx"
        self.desk.edit(book, {id_: {"Comment": text, "Owner": "Ada"}}, copy)


def _names(result: Run) -> Iterator[dict[str, str]]:
    for break_ in result.breaks:
        yield dict(zip(result.fields, break_.key, strict=True))


def _night(month: Month, number: int) -> None:
    """Deliver, run and sign one night. Run it a second time if a file was late or wrong."""
    month.night(number)
    custodian, weekday = CUSTODIANS[number // 7 % 4], number % 7
    for name in CUSTODIANS:
        if name != custodian or weekday not in (LATE, MISSING):
            is_wrong = weekday == CORRECTED and name == custodian
            month.deliver(name, number, is_wrong=is_wrong)
    away = custodian if weekday in (LATE, MISSING) else ""
    result = month.run(number, 3)
    doubled: list[Key] = [(*DOUBLED, custodian)] if weekday == CORRECTED else []
    month.require(result, *doubled, missing=away)
    if weekday in (LATE, CORRECTED):
        month.deliver(custodian, number)
        result = month.run(number, 8)
        month.require(result)
    if result.breaks:
        month.comment(result, number)
    for role, who in (("preparer", "ada"), ("reviewer", "grace")):
        now = datetime.combine(result.day, datetime.min.time(), UTC) + timedelta(days=1, hours=9)
        service.sign(month.desk.folder.root, role=role, who=who, day=result.day, now=now)


@pytest.mark.torture
@pytest.mark.parametrize("nights", [6, 30])
def test_a_month_of_four_custodians_closes_and_verifies(nights: int, tmp_path: Path) -> None:
    """No comment is lost, every break was planted, and the pack verifies in a different folder."""
    month = Month(Desk(tmp_path / "home"))
    month.desk.settle(SETTINGS)
    for number in range(nights):
        _night(month, number)
    summary = close(
        month.desk.layout.database,
        month.desk.folder.root,
        "2026-11",
        who="margaret",
        now=datetime(2026, 12, 1, 12, tzinfo=UTC),
        program_version="0.0.0",
    )
    other = tmp_path / "other" / summary.pack.name
    other.parent.mkdir()
    other.write_bytes(summary.pack.read_bytes())
    check = verify_pack(other, "0.0.0")
    assert (check.differences, check.uncompared) == ([], [])
    assert check.compared[3] == f"{2 * nights} signatures with the result that was signed"
    assert f"{nights} workbooks with every cell that nightbook wrote" in check.compared
    kept = {
        entry.value
        for note in month.desk.folder.annotations
        for entry in note.entries
        if entry.field == "comment"
    }
    assert month.comments <= kept


def _save_in_libreoffice(month: Month, number: int, place: Path) -> None:
    """Save a night's workbook in LibreOffice as xlsx (to replace it) and ods, and verify both."""
    desk = month.desk
    book = desk.folder.day_files(FIRST + timedelta(number)).workbook
    for ending in ("xlsx", "ods"):
        command = [OFFICE or "", f"-env:UserInstallation=file://{place}/profile", "--headless"]
        command += ["--convert-to", ending, "--outdir", str(place), str(book)]
        subprocess.run(command, check=True, capture_output=True, timeout=180)
        saved = place / f"{book.stem}.{ending}"
        found = service.verify(desk.folder.root, saved)
        assert (found.differences, found.uncompared) == ((), ()), saved.name
    shutil.copy(place / book.name, book)


@pytest.mark.torture
@pytest.mark.skipif(OFFICE is None, reason="LibreOffice is not installed")
@pytest.mark.parametrize("nights", [6, 30])
def test_a_month_saved_in_libreoffice_closes_and_verifies(nights: int, tmp_path: Path) -> None:
    """Each workbook verifies after LibreOffice saved it, and the pack verifies in a fresh clone."""
    month = Month(Desk(tmp_path / "home"))
    month.desk.settle(SETTINGS)
    for number in range(nights):
        _night(month, number)
        _save_in_libreoffice(month, number, tmp_path / "office")
    told = [notice for note in month.desk.folder.annotations for notice in note.notices]
    assert [notice for notice in told if "outside the yellow" in notice.message] == []
    summary = close(
        month.desk.layout.database,
        month.desk.folder.root,
        "2026-11",
        who="margaret",
        now=datetime(2026, 12, 1, 12, tzinfo=UTC),
        program_version="0.0.0",
    )
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    proof = "from assets.cli import main; import sys; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-P", "-c", proof, "reconcile", "verify", str(summary.pack)]
    variables = os.environ | {"PYTHONPATH": str(clone), "NIGHTBOOK_HOME": str(tmp_path / "none")}
    said = subprocess.run(
        command, cwd=clone, env=variables, check=False, capture_output=True, text=True
    )
    assert said.returncode == 0, said.stdout + said.stderr
    assert f"{nights} workbooks with every cell that nightbook wrote" in said.stdout
