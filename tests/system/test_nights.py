"""Tests of three nights of a changing world through the real job, over real loopback HTTP."""

import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from assets.graph.step import failure_message
from tests.support.books import exact
from tests.support.dagster_runs import launched
from tests.support.operator_home import FIRST, SECOND, THIRD, Keeper, Said, amounts_of
from tests.support.shared import some_daily

NIGHTS = (FIRST, SECOND, THIRD)
COLUMNS = "portfolio_id, asset_id, venue_id, account_name, bucket, state, amount_text"


def test_a_good_night_reports_its_responses(taken: tuple[Keeper, Said]) -> None:
    """A good night exits with 0, reports its responses and its acceptance, and has no warnings."""
    said = taken[1]
    assert (said.code, said.err) == (0, "")
    assert "landed 28 responses" in said.out
    assert "accepted: snapshot" in said.out


@pytest.mark.parametrize("day", NIGHTS)
def test_history_has_every_amount_of_every_night(nights: Keeper, day: date) -> None:
    """Each date in history has exactly the amounts of the world on that date, as sent."""
    assert len(amounts_of(day)) > 2000
    query = f"select {COLUMNS} from history.balances where snapshot_date = '{day}' order by all"
    assert sorted(nights.ask(query)) == amounts_of(day)


@pytest.mark.parametrize("day", NIGHTS)
def test_as_of_macros_show_the_book_of_the_date(nights: Keeper, day: date) -> None:
    """Each as-of macro returns the book of its date: the amounts and their exact sums."""
    rows = nights.ask(f"select {COLUMNS} from balances_as_of('{day}') order by all")
    assert sorted(rows) == amounts_of(day)
    sums: dict[tuple[str, str], list[str]] = defaultdict(list)
    for portfolio, asset, *_, text in amounts_of(day):
        sums[portfolio, asset].append(text)
    found = nights.ask(f"select portfolio_id, asset_id, total_text from holdings_as_of('{day}')")
    totals = {(portfolio, asset): text for portfolio, asset, text in found if text != "0"}
    expected = {key: exact(texts) for key, texts in sums.items()}
    assert totals == {key: text for key, text in expected.items() if text != "0"}


def test_unqualified_names_show_the_newest_night(nights: Keeper) -> None:
    """Schema main and later as-of dates show the third night. Dates before the first book fail."""
    assert sorted(nights.ask(f"select {COLUMNS} from balances")) == amounts_of(THIRD)
    later = nights.ask(f"select {COLUMNS} from balances_as_of('2026-12-31')")
    assert sorted(later) == amounts_of(THIRD)
    with pytest.raises(duckdb.Error, match="no book on or before 2026-03-02"):
        nights.ask("from balances_as_of('2026-03-02')")
    assert amounts_of(SECOND) != amounts_of(THIRD) != amounts_of(FIRST)


def test_every_response_is_stored_as_received(nights: Keeper) -> None:
    """Each response of each night is in the landing folder, with its stated size and digest."""
    rows = nights.ask(
        "select snapshot_date, snapshot_id, file, status, byte_count, sha256 from ops.requests "
        "where purpose = 'book'"
    )
    assert len(rows) == 3 * 26
    for day, snapshot_id, file, status, size, sha256 in rows:
        assert status == 200
        stored = (nights.layout.snapshot(day, snapshot_id) / file).read_bytes()
        body = pa.Codec("zstd").decompress(stored, size, asbytes=True)
        assert hashlib.sha256(body).hexdigest() == sha256


@pytest.mark.torture
def test_a_run_for_a_past_date_changes_no_row(copied: Keeper) -> None:
    """A run for a past date rebuilds the night from its landed bytes and changes no row."""
    before = copied.everything()
    copied.sandbox.show("portfolios-empty")
    said = copied("run", "--date", str(SECOND))
    assert (said.code, said.err) == (0, "")
    assert copied.everything() == before


@pytest.mark.torture
def test_a_second_run_today_keeps_the_book(copied: Keeper) -> None:
    """A second run on one day takes a second snapshot, which is the book. The first one is kept."""
    before = copied.history()
    said = copied("run")
    assert (said.code, said.err) == (0, "")
    assert copied.history() == before
    query = f"select state, is_book from ops.snapshots where snapshot_date = '{THIRD}' order by 2"
    assert copied.ask(query) == [("accepted", False), ("accepted", True)]
    assert "superseded" in copied("snapshots").out


@pytest.mark.torture
def test_a_run_after_the_clock_was_set_back_holds_its_snapshot(
    empty: Callable[..., Keeper],
) -> None:
    """A run judges and holds its own snapshot, which is the book of its date after an accept."""
    keeper = empty()
    keeper.sandbox.show("portfolio-vanished")
    assert keeper.run(THIRD, hour=4).code == 0
    keeper.sandbox.show()
    said = keeper.run(THIRD, hour=3)
    ids = ("20260305T041500Z", "20260305T041501Z")
    assert said.code == 3
    assert ids[1] in said.err
    assert keeper("accept", ids[1], "--why", "the clock was mended").code == 0
    assert sorted(keeper.ask(f"select {COLUMNS} from balances")) == amounts_of(THIRD)
    query = "select snapshot_id, hour(started_at), is_book from ops.snapshots order by all"
    assert keeper.ask(query) == [(ids[0], 4, False), (ids[1], 3, True)]


@pytest.mark.torture
def test_copies_in_landing_stop_no_command(copied: Keeper) -> None:
    """Copies of days and nights in the landing folder are reported only by `verify`."""
    before, landed = copied.everything(), copied.layout.landing
    for folder in sorted(landed.glob("*/*")):
        shutil.copytree(folder, folder.with_name(f"{folder.name}-copy"))
    shutil.copytree(landed / str(FIRST), landed / "1999-01-01.bak")
    assert copied("rebuild").code == 0
    assert copied.everything() == before
    assert copied("snapshots").out.count("accepted") == 3
    assert copied.run(THIRD, hour=10).code == 0
    said = copied("verify")
    assert said.code == 1
    assert all(name in said.out + said.err for name in ("1999-01-01.bak", "Z-copy"))


@pytest.mark.parametrize(
    ("day", "words"), [("2026-02-01", "was never pulled"), ("2999-01-01", "is in the future")]
)
def test_a_date_without_landed_bytes_is_rejected(copied: Keeper, day: str, words: str) -> None:
    """A date without landed bytes is rejected with the reason, and nothing is read or written."""
    before = sorted(copied.home.rglob("*"))
    said = copied("run", "--date", day)
    assert (said.code, said.out) == (2, "")
    assert f"{day} {words}" in said.err
    assert "Nothing was read or written" in said.err
    assert sorted(copied.home.rglob("*")) == before


def test_a_run_rejects_a_date_without_landed_bytes(copied: Keeper) -> None:
    """A run of a gap fails once, with the same message, and changes no book."""
    shutil.rmtree(copied.layout.landing / str(SECOND))
    before = copied.ask("select version from ops.build")
    ran = launched(copied, SECOND)
    [failed] = [event for event in ran.all_events if event.is_step_failure]
    assert "was never pulled" in failure_message(failed)
    assert copied.ask("select version from ops.build") == before
    assert not (copied.layout.landing / str(SECOND)).exists()


@pytest.mark.parametrize("words", some_daily([(("--from-landing",),), ((),)], 2))
def test_a_rebuild_gives_the_same_rows(copied: Keeper, words: tuple[str, ...]) -> None:
    """The warehouse, rebuilt from the lake or from landing, has the same rows as before."""
    before = copied.everything()
    said = copied("rebuild", *words)
    assert (said.code, said.err) == (0, "")
    assert "3 nights" in said.out
    assert copied.everything() == before


@pytest.mark.torture
def test_landing_alone_restores_lake_and_warehouse(nights: Keeper, tmp_path: Path) -> None:
    """The landing folder, copied into an empty home, gives the same lake and warehouse offline."""
    alone = Keeper(tmp_path / "home", nights.sandbox, {"NIGHTBOOK_API_URL": ""})
    shutil.copytree(nights.layout.landing, alone.layout.landing)
    said = alone("rebuild", "--from-landing")
    assert (said.code, said.err) == (0, "")
    assert alone.everything() == nights.everything()
    files = {path.relative_to(nights.layout.lake) for path in nights.layout.lake.rglob("*.parquet")}
    assert {p.relative_to(alone.layout.lake) for p in alone.layout.lake.rglob("*.parquet")} == files
