"""Tests of homes from older nightbooks: the first command that needs it upgrades them."""

import subprocess
import tarfile
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path

import pytest

from pipelines.landing import snapshots
from tests.homes.__main__ import BEFORE_THE_MOVE, COMMITS, HOMES
from tests.homes.world import SmallWorld
from tests.support import environments
from tests.support.operator_home import Keeper, Sandbox, amounts_of, sandbox
from tests.support.shared import some_daily
from warehouse.contract import states

A_PERSON_MUST_DECIDE = 3
FIRST, SECOND, HELD, TONIGHT = (date(2026, 3, day) for day in (3, 4, 5, 6))


@pytest.fixture(scope="module")
def served() -> Iterator[Sandbox]:
    """Start a sandbox that serves the world of those homes."""
    with sandbox() as shown:
        shown.show(world=SmallWorld())
        yield shown


@pytest.fixture
def older(served: Sandbox, tmp_path: Path) -> Callable[[str], Keeper]:
    """Return a function that unpacks the home of a commit."""

    def unpack(commit: str) -> Keeper:
        with tarfile.open(HOMES / f"{commit}.tar.xz") as tar:
            tar.extractall(tmp_path / "home", filter="data")
        served.clock.night(TONIGHT)
        return Keeper(tmp_path / "home", served)

    return unpack


def has_book(keeper: Keeper, day: date) -> bool:
    """Return True if the warehouse has exactly the amounts of the world of a day."""
    rows = keeper.ask(
        "select portfolio_id, asset_id, venue_id, account_name, bucket, state, amount_text "
        f"from history.balances where snapshot_date = '{day}'"
    )
    return sorted(rows) == amounts_of(day, SmallWorld())


# Older homes are upgraded in the same way as the newest, so they run only with --torture.
OLDEST, *BETWEEN, NEWEST = COMMITS


@pytest.mark.parametrize(
    "commit",
    some_daily([NEWEST, OLDEST, *BETWEEN], len(COMMITS)),
)
def test_the_first_run_upgrades_an_older_home(commit: str, older: Callable[[str], Keeper]) -> None:
    """The first run takes its night, and rebuilds the older nights completely in their states."""
    keeper = older(commit)
    said = keeper.run(TONIGHT)
    assert (said.code, said.err) == (0, "")
    assert "rebuilt from the landing folder" in said.out
    assert all(has_book(keeper, day) for day in (FIRST, SECOND, TONIGHT))
    reached = [snapshot.state for snapshot in snapshots.landed_snapshots(keeper.layout)]
    assert reached == [states.ACCEPTED, states.ACCEPTED, states.HELD, states.ACCEPTED]
    [(version,)] = keeper.ask("select upgraded_from from ops.build")
    assert version.startswith("0.1.0, contract ")
    assert keeper("reconcile", "status", "--as-of", str(SECOND)).code == A_PERSON_MUST_DECIDE
    assert keeper("verify").code == 0


@pytest.mark.torture
@pytest.mark.parametrize(
    ("commit", "words"),
    [
        (OLDEST, ("rebuild", "--from-landing")),
        (NEWEST, ("rebuild",)),
        (BEFORE_THE_MOVE, ("rebuild", "--from-landing")),
        pytest.param(OLDEST, ("rebuild",), marks=pytest.mark.torture),
        pytest.param(NEWEST, ("rebuild", "--from-landing"), marks=pytest.mark.torture),
    ],
)
def test_rebuild_upgrades_an_older_home(
    commit: str, words: tuple[str, ...], older: Callable[[str], Keeper]
) -> None:
    """The rebuild that error messages recommend gives the same books, which pass verification."""
    keeper = older(commit)
    said = keeper(*words)
    assert (said.code, said.err) == (0, "")
    assert all(has_book(keeper, day) for day in (FIRST, SECOND))
    assert keeper("verify").code == 0


@pytest.mark.torture
def test_a_run_upgrades_a_home_of_earlier_rules(older: Callable[[str], Keeper]) -> None:
    """Old DuckDB clients cannot read a home of earlier rules until a run rebuilds it.

    `verify` finds nothing else, and after the run, the ledger is compared.
    """
    keeper = older(BEFORE_THE_MOVE)
    said = keeper("verify")
    assert (said.code, said.err.count("\N{BALLOT X}")) == (1, 1)
    assert "DuckDB 1.2 and 1.3 cannot read all of it" in said.err
    said = keeper.run(TONIGHT)
    assert (said.code, said.err) == (0, "")
    assert "rebuilt from the landing folder" in said.out
    assert keeper("reconcile", "status", "--as-of", str(SECOND)).code == A_PERSON_MUST_DECIDE
    assert all(has_book(keeper, day) for day in (FIRST, SECOND, TONIGHT))
    assert keeper("verify").code == 0


def test_a_file_unreadable_to_old_duckdb_is_named_and_rebuilt(
    older: Callable[[str], Keeper],
) -> None:
    """`doctor` and `verify` name a file that old DuckDB versions cannot read. A rebuild fixes it.

    All other bytes of that home are as the older nightbook wrote them.
    """
    keeper = older(OLDEST)
    assert "Failed to load metadata pointer" in _read_by_1_2(keeper)
    doctor, verify = keeper("doctor"), keeper("verify")
    assert (doctor.code, verify.code) == (1, 1)
    assert "✗ warehouse  DuckDB 1.2 and 1.3 cannot read the published file" in doctor.out
    [line] = [line for line in verify.err.splitlines() if line.startswith("✗")]
    assert "unreadable; DuckDB 1.2 and 1.3 cannot read all of it" in line
    assert keeper("rebuild").code == 0
    assert _read_by_1_2(keeper) == ""
    assert keeper("verify").code == 0


def _read_by_1_2(keeper: Keeper) -> str:
    """Return the error of DuckDB 1.2 when it reads the tables of the published file."""
    script = """
import duckdb, sys
book = duckdb.connect(sys.argv[1], read_only=True)
tables = book.execute("select schema_name || '.' || table_name from duckdb_tables()").fetchall()
for (table,) in tables:
    book.execute("select count(columns(*)) from " + table).fetchall()
"""
    return subprocess.run(
        [environments.python("duckdb12"), "-c", script, keeper.layout.database],
        capture_output=True,
        check=False,
        text=True,
    ).stderr


@pytest.mark.torture
def test_a_reconciliation_upgrades_an_older_home(older: Callable[[str], Keeper]) -> None:
    """A reconciliation first publishes the book again, because the older file lacks needed data."""
    keeper = older(OLDEST)
    said = keeper("reconcile", "run", "--as-of", str(SECOND))
    assert said.code == A_PERSON_MUST_DECIDE, said.err
    assert all(has_book(keeper, day) for day in (FIRST, SECOND))


@pytest.mark.torture
def test_the_next_run_completes_a_stopped_upgrade(older: Callable[[str], Keeper]) -> None:
    """A night without a manifest and with incomplete tables is rebuilt by the next run."""
    keeper = older(NEWEST)
    first = snapshots.landed_snapshots(keeper.layout)[0]
    keeper.layout.manifest(first.snapshot_id).unlink()
    keeper.layout.parquet("balances", FIRST, first.snapshot_id).unlink()
    assert keeper.run(TONIGHT).code == 0
    assert all(has_book(keeper, day) for day in (FIRST, SECOND, TONIGHT))


@pytest.mark.torture
def test_a_damaged_old_night_does_not_block_other_nights(
    older: Callable[[str], Keeper],
) -> None:
    """The damaged file is reported, and tonight and all other nights are in the warehouse."""
    keeper = older(NEWEST)
    [body] = keeper.layout.landing.glob(f"{FIRST}/*/0001-portfolios.json.zst")
    body.chmod(0o640)
    body.write_bytes(b"not what was landed")
    said = keeper.run(TONIGHT)
    assert said.code == 0
    assert str(body) in said.out
    assert not has_book(keeper, FIRST)
    assert all(has_book(keeper, day) for day in (SECOND, TONIGHT))
