"""Tests of the reconciliation with real nights: in the nightly job, and by finance's page."""

import re
import shlex
from datetime import timedelta
from pathlib import Path

import openpyxl
import pytest

from tests.house.pages import ROOT, blocks
from tests.support.operator_home import THIRD, Keeper, Said
from warehouse.reconcile import service
from warehouse.reconcile.record.record import Record

PAGE = ROOT / "warehouse" / "reconcile" / "FINANCE.md"
OPEN = 3


def later(keeper: Keeper, *words: str) -> Said:
    """Run a command, a minute after the last one."""
    keeper.sandbox.clock.moment += timedelta(minutes=1)
    return keeper(*words)


def planted(keeper: Keeper) -> Path:
    """Write a ledger of the newest book into the inbox, with errors in it."""
    path, errors = service.rehearse(keeper.layout.database, keeper.home / "reconcile")
    assert len(errors) >= 8
    return path


@pytest.mark.torture
def test_reconciliations_are_in_ops_even_after_a_rebuild(copied: Keeper) -> None:
    """Breaks, comments and signatures are in `ops` immediately, and also after a rebuild."""
    planted(copied)
    assert later(copied, "reconcile", "run").code == OPEN
    breaks = copied.ask("select break_id, result, cause from ops.breaks order by all")
    assert {"Amount differs", "Not in ledger", "Rejected"} <= {row[1] for row in breaks}
    assert {row[2] for row in breaks} >= {
        "Wrong sign (plus and minus swapped)",
        "The row is in the ledger twice",
    }
    (book,) = (copied.home / "reconcile" / "out").rglob("recon_*.xlsx")
    made = openpyxl.load_workbook(book)
    made["Breaks"]["P3"] = "asked the venue"
    made.save(book)
    assert later(copied, "reconcile", "run").code == OPEN
    assert copied.ask("select value from ops.annotations") == [("asked the venue",)]
    signed = later(copied, "reconcile", "sign", "--role", "preparer", "--who", "Ada")
    assert (signed.code, signed.err) == (0, "")
    assert re.match(r"Signed by Ada as preparer at \S+ \S+ UTC with [0-9]+ open break", signed.out)
    asked = "select role, who, is_valid from ops.signoffs"
    assert copied.ask(asked) == [("preparer", "Ada", True)]
    everything = copied.everything()
    assert later(copied, "rebuild", "--from-landing").code == 0
    again = copied.everything()
    kept = ("ops.breaks", "ops.annotations", "ops.signoffs")
    assert {name: again[name] for name in kept} == {name: everything[name] for name in kept}


@pytest.mark.torture
def test_verify_counts_compared_rows_and_names_edits(copied: Keeper) -> None:
    """`verify` exits with 0 and the numbers of compared rows, or with 1 and each changed cell.

    Without the file of all keys, it reports that the sheet All positions was not compared.
    """
    planted(copied)
    later(copied, "reconcile", "run")
    (book,) = (copied.home / "reconcile" / "out").rglob("recon_*.xlsx")
    whole = later(copied, "reconcile", "verify", str(book))
    assert whole.code == 0
    assert re.search(r"✓ .* rows of Tie-out, .* rows of All positions and .* wrote them", whole.out)
    made = openpyxl.load_workbook(book)
    made["Tie-out"]["K3"] = "1e9"
    made.save(copied.home / "forged.xlsx")
    (every,) = book.parent.glob("*.parquet")
    every.unlink()
    forged = later(copied, "reconcile", "verify", str(copied.home / "forged.xlsx"))
    assert forged.code == 1
    assert re.search(r"✗ Tie-out, asset / .*: Ledger, exact was .* and is now '1e9'", forged.out)
    assert "All positions was not compared" in forged.out


@pytest.mark.torture
def test_a_damaged_record_does_not_stop_the_night(copied: Keeper) -> None:
    """If the record is damaged, the next night is still published, warns, and keeps ops.breaks."""
    planted(copied)
    later(copied, "reconcile", "run")
    before = copied.ask("select count(*) from ops.breaks")
    assert before[0][0] > 0
    (copied.home / "reconcile" / "record.db").write_bytes(b"half")
    said = copied.run(THIRD + timedelta(days=1))
    assert said.code == 0, said.out
    assert "cannot be read" in said.out + said.err
    assert copied.ask("select max(snapshot_date) from portfolios") == [(THIRD + timedelta(days=1),)]
    assert copied.ask("select count(*) from ops.breaks") == before
    refused = later(copied, "reconcile", "status")
    assert refused.code == 2
    assert "Restore its folder from the backup" in refused.err


def test_a_nightly_run_reconciles_the_ledger_of_its_day(copied: Keeper) -> None:
    """A night with a ledger in the inbox reconciles it and exits with 0, even if it has breaks."""
    path = planted(copied)
    assert path.name == f"ledger-{THIRD}.xlsx"
    said = copied.run(THIRD, hour=11)
    assert said.code == 0, said.out + said.err
    found = copied.ask("select distinct snapshot_date from ops.breaks")
    assert found == [(THIRD,)]


@pytest.mark.torture
def test_the_report_states_the_compared_part_of_the_book(copied: Keeper) -> None:
    """If a ledger covers one venue, output and report state the compared part of the book."""
    path = planted(copied)
    ((venue,),) = copied.ask("select min(venue_id) from account_balances")
    (copied.home / "reconcile" / "recon.toml").write_text(
        f'[file."{path.name}"]\nvenue = "{venue}"\n', encoding="utf-8"
    )
    ran = later(copied, "reconcile", "run")
    extent = re.search(r"[0-9,]+ of [0-9,]+ positions compared", ran.out)
    assert extent, ran.out + ran.err
    assert extent[0] in later(copied, "reconcile", "status").out
    assert later(copied, "report").code == 0
    page = (copied.home / "reports" / "latest.html").read_text(encoding="utf-8")
    assert page.count(extent[0].replace(",", "\N{NARROW NO-BREAK SPACE}")) == 2


@pytest.mark.torture
def test_a_late_ledger_is_a_notice(copied: Keeper) -> None:
    """Without a ledger, `reconcile run` only reports that, and the night has no breaks."""
    said = later(copied, "reconcile", "run")
    assert said.code == 0
    assert f"the inbox has no ledger for {THIRD}" in said.out
    assert copied.run(THIRD, hour=11).code == 0
    assert copied.ask("select count(*) from ops.breaks") == [(0,)]


@pytest.mark.torture
def test_the_commands_of_the_finance_page_work_in_order(copied: Keeper) -> None:
    """Every command of finance's page works in the order of the page, and both signatures exist."""
    planted(copied)
    lines = [
        line.split("#")[0].strip() for block in blocks("sh", PAGE) for line in block.splitlines()
    ]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("nightbook ")]
    assert {words[1] for words in commands} >= {"init", "run", "status", "history", "sign"}
    for words in commands:
        given = [
            copied.ask("select min(break_id) from ops.breaks")[0][0] if one == "B-1A2B3C4D" else one
            for one in words
        ]
        given = [one.replace("data/", f"{copied.home}/") for one in given]
        given = [one.replace("2026-11-20", str(THIRD)) for one in given]
        given = [one.replace("2026-11", f"{THIRD:%Y-%m}") for one in given]
        said = later(copied, *given)
        assert said.code == (OPEN if given[1] in ("run", "status") else 0), (given, said)
    standing = service.status(Record(copied.home / "reconcile").root)
    assert {one.role for one in standing.signatures} == {"preparer", "reviewer"}
