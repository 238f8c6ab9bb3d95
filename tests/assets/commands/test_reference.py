"""Tests of `nightbook reference`, and of prices in a real night, a backup and a check."""

import csv
import json
import shutil
from pathlib import Path

import pytest

from tests.support.ledgers import HEAD
from tests.support.operator_home import FIRST, SECOND, THIRD, Keeper, Sandbox
from tests.support.priced_books import ask, drop

PRICE = f"BTC,,USD,91000.5,{SECOND},manual"


@pytest.fixture
def keeper(two: Path, shown: Sandbox, tmp_path: Path) -> Keeper:
    """Return the keeper of a home with two nights."""
    shutil.copytree(two, tmp_path / "home", symlinks=True)
    shown.show()
    shown.clock.night(THIRD)
    return Keeper(tmp_path / "home", shown)


def test_a_home_without_files_says_how_to_start(keeper: Keeper) -> None:
    """Without files, the command names the folder and the command for a template."""
    said = keeper("reference")
    assert (said.code, said.err) == (0, "")
    assert "No file was received yet" in said.out
    assert "reference init prices --quote USD" in said.out


def test_a_check_shows_the_rejects_and_changes_nothing(keeper: Keeper) -> None:
    """The check prints rows and rejects of new files, exits with 1, and writes nothing."""
    drop(keeper.home, "a.csv", PRICE, "ETH,,USD,x,2026-03-04,")
    (keeper.home / "reference" / "prices" / "b.doc").touch()
    said = keeper("reference", "check")
    assert said.code == 1
    assert "prices/a.csv: 1 row, 1 reject\n  line 3: price_text is not a number" in said.out
    assert "prices/b.doc: not read, only files of these types are read" in said.out
    assert not (keeper.home / "reference" / "kept").exists()


def test_a_night_loads_the_files_and_the_status_names_the_others(keeper: Keeper) -> None:
    """The next night loads the prices. Bad files are in the status, and do not fail the night."""
    drop(keeper.home, "a.csv", PRICE)
    drop(keeper.home, "bad.csv", "ETH,,USD,x,2026-03-04,")
    drop(keeper.home, "desks/a.csv", "portfolio_id,desk", "p1,Rates")
    assert keeper("run").code == 0
    assert ask(keeper.layout, "select price_text from reference.prices") == [("91000.5",)]
    query = "select price_text, price_state from prices_as_of('9999-12-31', 'USD')"
    [found] = ask(keeper.layout, f"{query} where asset_id = 'BTC' and not is_custom_asset")
    assert found == ("91000.5", "priced")
    assert "reference/prices/bad.csv was not used completely" in keeper("status").out
    said = keeper("reference", "list", "--format", "json")
    rows = {(row["table"], row["file"]): row["rows"] for row in json.loads(said.out)}
    assert rows == {("desks", "a.csv"): 1, ("prices", "a.csv"): 1, ("prices", "bad.csv"): 0}
    assert "prices/a.csv: 1 row, 0 rejects" in keeper("reference").out


def test_a_template_has_the_assets_without_a_valid_price(keeper: Keeper) -> None:
    """The template lists each asset without a price. After it is filled in, none is missing."""
    said = keeper("reference", "init", "prices", "--quote", "USD")
    assert said.code == 0
    file = keeper.layout.exports / f"prices-{SECOND}.csv"
    text = file.read_text()
    held = ask(keeper.layout, "select count(*) from holdings_by_asset where asset_id <> 'USD'")
    assert [(len(text.splitlines()) - 1,)] == held
    target = keeper.home / "reference" / "prices" / "all.csv"
    target.parent.mkdir(parents=True)
    target.write_text(text.replace(",USD,,", ",USD,2,"))
    assert keeper("rebuild").code == 0
    missing = "select unpriced_assets, stale_assets from value_by_night('USD') order by all"
    assert (0, 0) in ask(keeper.layout, missing)
    assert (
        "All assets of the newest book"
        in keeper("reference", "init", "prices", "--quote", "USD").out
    )


def test_received_files_are_backed_up_restored_and_verified(keeper: Keeper, tmp_path: Path) -> None:
    """A restored home has the same prices, without the folder of dropped files."""
    drop(keeper.home, "a.csv", PRICE)
    assert keeper("rebuild").code == 0
    assert keeper("backup", str(tmp_path / "b.tar")).code == 0
    other = Keeper(tmp_path / "restored", keeper.sandbox)
    assert other("restore", str(tmp_path / "b.tar")).code == 0
    assert ask(other.layout, "select price_text from reference.prices") == [("91000.5",)]
    assert other("verify").code == 0
    [kept] = (other.home / "reference" / "kept" / "prices").glob("*[0-9a-f]")
    kept.chmod(0o640)
    kept.write_text("changed")
    assert "restore reference/kept from the backup" in other("verify").err


def test_a_dry_run_uses_the_received_files_and_does_not_change_them(keeper: Keeper) -> None:
    """A dry run links the archive, and the result of a query cannot replace a file of it."""
    drop(keeper.home, "a.csv", PRICE)
    assert keeper("rebuild").code == 0
    index = keeper.home / "reference" / "kept" / "files.json"
    before = index.read_bytes()
    drop(keeper.home, "b.csv", PRICE.replace("manual", "other"))
    assert keeper("rebuild", "--dry-run").code == 0
    assert index.read_bytes() == before
    assert keeper("query", "select 1 as x", "-o", str(index.with_suffix(".csv"))).code == 2


def test_own_checks_run_each_night_and_survive_backup_and_restore(
    keeper: Keeper, tmp_path: Path
) -> None:
    """A check's rows are findings and an alert, in this home and in a restored one."""
    check = keeper.home / "checks" / "held.sql"
    check.parent.mkdir()
    check.write_text(
        "-- alert: yes\n-- BTC is held.\nselect 'BTC' as asset_id from portfolios limit 1\n"
    )
    said = keeper("reference", "check")
    assert (said.code, "medium: held.sql: BTC is held. asset_id=BTC" in said.out) == (1, True)
    assert keeper("run").code == 0
    query = "select snapshot_date::text, words from history.findings where kind = 'own_check'"
    found = ask(keeper.layout, query)
    assert found == [(str(THIRD), "held.sql: BTC is held. asset_id=BTC")]
    assert "held.sql: 1 finding" in keeper("status").out
    assert keeper("backup", str(tmp_path / "b.tar")).code == 0
    other = Keeper(tmp_path / "restored", keeper.sandbox)
    assert other("restore", str(tmp_path / "b.tar")).code == 0
    assert ask(other.layout, query) == found
    assert (other.home / "checks" / "held.sql").is_file()
    assert other("verify").code == 0
    [kept] = (other.home / "reference" / "kept").glob("findings-*.json")
    kept.chmod(0o640)
    kept.write_bytes(kept.read_bytes().replace(b"BTC", b"ETH"))
    assert "has changed; restore reference/kept from the backup" in other("verify").err


def write_ledger(file: Path, rows: list[tuple[str, ...]]) -> None:
    """Write a ledger with these rows."""
    with file.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, delimiter=";").writerows([HEAD, *rows])


def test_an_old_book_is_imported_listed_backed_up_and_rebuilt(
    keeper: Keeper, tmp_path: Path
) -> None:
    """A book with a difference is hidden and says why. An equal one is shown, also if restored."""
    query = (
        "select portfolio_id, asset_id || case when is_custom_asset then ' (custom)' else '' end, "
        "venue_id, account_name, amount_text from history.positions_with_imported "
        f"where origin = 'api' and snapshot_date = '{FIRST}' order by all"
    )
    rows = ask(keeper.layout, query)
    file = tmp_path / "old.csv"
    command = ("reference", "import", str(file), "--as-of", "2025-12-31")
    write_ledger(file, rows[1:])
    said = keeper(*command, "--preview")
    assert (said.code, said.err, "Nothing was imported" in said.out) == (0, "", True)
    assert not (keeper.home / "reference").exists()
    said = keeper(*command)
    assert said.code == 3
    assert (
        "old.csv of 2025-12-31, the last imported day, has 1 difference and 0 rejects" in said.out
    )
    assert "1 difference" in keeper(*command).out
    write_ledger(file, rows)
    assert keeper(*command).code == 0
    said = keeper("reference")
    assert f"positions/2025-12-31/old.csv: {len(rows):,} rows, 0 rejects, shown" in said.out
    assert f"{len(rows) - 1:,} rows, 0 rejects, replaced" in said.out
    found = "select count(*) from history.positions_with_imported where origin = 'old.csv'"
    assert keeper("rebuild").code == 0
    assert ask(keeper.layout, found) == [(len(rows),)]
    assert keeper("backup", str(tmp_path / "b.tar")).code == 0
    other = Keeper(tmp_path / "restored", keeper.sandbox)
    assert other("restore", str(tmp_path / "b.tar")).code == 0
    assert ask(other.layout, found) == [(len(rows),)]
    assert other("verify").code == 0
    kept = next((other.home / "reference" / "kept").glob("positions/*/*[0-9a-f]"))
    kept.chmod(0o640)
    kept.write_text("changed")
    assert "restore reference/kept from the backup" in other("verify").err
