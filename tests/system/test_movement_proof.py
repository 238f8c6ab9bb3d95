"""Tests of the movement proof with real nights, by its commands."""

import csv
import shlex
import tarfile
from collections.abc import Sequence
from datetime import timedelta

from tests.support.ledgers import reconciled, rows
from tests.support.operator_home import THIRD, Keeper, Said

OPEN = 3
TITLES = "time,portfolio,venue,account,asset_id,is_custom_asset,amount,kind,reference"


def later(keeper: Keeper, *words: str) -> Said:
    """Run a command, a minute after the last one."""
    keeper.sandbox.clock.moment += timedelta(minutes=1)
    return keeper(*words)


def bring(keeper: Keeper, *lines: Sequence[object]) -> None:
    """Drop a file of transactions."""
    path = keeper.home / "reference" / "transactions" / f"{len(lines)}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([TITLES.split(","), *lines])


def unexplained(keeper: Keeper) -> list[tuple[str, ...]]:
    """Return the amounts that no transaction explains, as the macro says."""
    days = f"'{THIRD - timedelta(days=1)}', '{THIRD}'"
    return keeper.ask(
        "select portfolio_id, venue_id, account_name, asset_id, is_custom_asset, unexplained_text "
        f"from movement_between({days}) "
        "where unexplained_text <> '0' order by all"
    )


def test_a_controller_proves_and_closes_a_month(copied: Keeper) -> None:
    """Missing transactions are breaks, the corrected file explains them, and the pack verifies."""
    assert reconciled(copied, next(iter(rows(copied)))) == OPEN
    assert not (copied.home / "movements").exists()
    refused = later(copied, "reconcile", "run", "--movements")
    assert (refused.code, "Nobody has brought transactions" in refused.err) == (2, True)
    bring(copied, ("2020-01-01T00:00:00Z", "p", "v", "a", "BTC", "", "1", "trade", "old"))
    said = later(copied, "reconcile", "run", "--movements")
    moved = unexplained(copied)
    assert (said.code, "opening cut-off" in said.out) == (OPEN, True), said.out + said.err
    breaks = "select reconciliation, count(*), count(distinct break_id) from ops.breaks group by 1"
    counts = [("ledger", 1, 1), ("movements", len(moved), len(moved))]
    assert copied.ask(f"{breaks} order by 1") == counts
    status = later(copied, "status")
    assert "open in the movement proof" in status.out
    assert "reconcile status --movements" in status.out
    assert later(copied, "reconcile", "status").out.count("\n  B-") == 1
    assert later(copied, "reconcile", "status", "--movements").code == OPEN
    time = f"{THIRD - timedelta(days=1)}T12:00:00Z"
    lines = [[time, *key, amount, "trade", f"t{no}"] for no, (*key, amount) in enumerate(moved)]
    bring(copied, *lines)
    said = later(copied, "reconcile", "run", "--movements")
    assert said.code == 0, said.out
    assert copied.ask(f"{breaks} order by 1") == counts[:1]
    for role, who in (("preparer", "ada"), ("reviewer", "grace")):
        signed = ("reconcile", "sign", "--movements", "--role", role, "--who", who)
        assert later(copied, *signed).code == 0
    assert copied.ask("select distinct reconciliation from ops.signoffs") == [("movements",)]
    closed = later(copied, "reconcile", "close", "--movements", f"{THIRD:%Y-%m}")
    assert closed.code == 0, closed.err
    [command] = [line for line in closed.out.splitlines() if "reconcile verify" in line]
    words = shlex.split(command)
    assert later(copied, *words[words.index("reconcile") :]).code == 0
    [workbook] = (copied.home / "movements" / "out").rglob("recon_*.xlsx")
    assert later(copied, "reconcile", "verify", "--movements", str(workbook)).code == 0
    assert later(copied, "verify").code == 0
    backup = copied.home.parent / "backup.tar"
    assert later(copied, "backup", str(backup)).code == 0
    with tarfile.open(backup) as names:
        assert "movements/record.db" in names.getnames()
