"""Tests of nights with less data than before: held, reported with numbers, decided by a person.

One home goes through bad nights of every kind. Each test checks one promise about these nights.
"""

import shutil
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from assets.monitoring.conditions import find_alerts
from pipelines.landing.snapshots import DECISION
from tests.support.operator_home import THIRD, WORLD, Keeper, Said, amounts_of

pytestmark = pytest.mark.torture

LOST, GONE, HALF, BUCKET, ERROR, DRIFT = (THIRD + timedelta(days=n) for n in range(1, 7))
LAST = DRIFT + timedelta(days=1)
FAULTS = {
    LOST: ("access-lost",),
    GONE: ("portfolio-vanished",),
    HALF: ("accounts-halved",),
    BUCKET: ("bucket-gone",),
    ERROR: ("internal-error-200,path=/portfolios*",),
    DRIFT: ("unknown-field", "unknown-value", "unknown-bucket", "timestamp-number,path=/venues"),
}
HELD = {
    LOST: (
        "the list of portfolios is empty, but had 14 before. This is how the API responds if the "
        "key has lost its access (4.1); a second read 0 s later returned 0; requested by ID, 10 of "
        "14: 10 with access removed"
    ),
    GONE: "1 portfolio that held money is missing: ",
    HALF: "accounts fell from ",
    BUCKET: "balance kind trading is now empty",
}


class Bad(NamedTuple):
    """The home after its bad nights, with each night's output, visible rows and alerts."""

    keeper: Keeper
    said: dict[date, Said]
    shown: dict[date, list[tuple[object, ...]]]
    alerts: dict[date, dict[str, str]]


@pytest.fixture(scope="module")
def bad(taken: tuple[Keeper, Said], tmp_path_factory: pytest.TempPathFactory) -> Bad:
    """Run a bad night of each kind after three good ones."""
    home = tmp_path_factory.mktemp("emptiness") / "home"
    shutil.copytree(taken[0].home, home, symlinks=True)
    keeper = Keeper(home, taken[0].sandbox)
    made = Bad(keeper, {}, {}, {})
    for day, faults in FAULTS.items():
        keeper.sandbox.show(*faults)
        made.said[day] = keeper.run(day)
        made.shown[day] = keeper.ask("select snapshot_date, count(*) from balances group by all")
        made.alerts[day] = {one.cause: one.body for one in find_alerts(keeper.nightbook)}
    keeper.sandbox.show()
    return made


@pytest.fixture
def after(bad: Bad, tmp_path: Path) -> Keeper:
    """Return a copy of that home in which a test can make decisions."""
    shutil.copytree(bad.keeper.home, tmp_path / "home", symlinks=True)
    bad.keeper.sandbox.show()
    bad.keeper.sandbox.clock.night(LAST)
    return Keeper(tmp_path / "home", bad.keeper.sandbox)


def snapshot_of(keeper: Keeper, day: date) -> str:
    """Return the ID of the snapshot of a date."""
    [folder] = (keeper.layout.landing / str(day)).iterdir()
    return folder.name


@pytest.mark.parametrize("day", HELD)
def test_a_night_that_lost_data_is_held(bad: Bad, day: date) -> None:
    """A night that lost data exits with 3 and states the numbers, and the last book stays whole."""
    said = bad.said[day]
    assert said.code == 3
    assert HELD[day] in said.err
    assert bad.shown[day] == [(THIRD, len(amounts_of(THIRD)))]


@pytest.mark.parametrize("day", HELD)
def test_the_alert_contains_numbers_and_a_command(bad: Bad, day: date) -> None:
    """The alert has the numbers of the reason, the book that stays, and the command to type."""
    snapshot_id = snapshot_of(bad.keeper, day)
    body = bad.alerts[day][f"held:{snapshot_id}"]
    assert HELD[day] in body
    assert f"The book of {THIRD} was not changed." in body
    assert f"accept {snapshot_id}" in body


def test_the_reason_states_the_numbers_of_each_fall(bad: Bad) -> None:
    """The reason states the numbers of each fall: before, now and limit."""
    accounts = sum(
        len(position["accounts"])
        for portfolio in WORLD.at(THIRD).portfolios
        for position in portfolio["positions"]
    )
    assert f"accounts fell from {accounts} to " in bad.said[HALF].err
    assert "limit 40 %)" in bad.said[HALF].err
    assert " assets fell by more than a fifth: " in bad.said[HALF].err


def test_a_missing_portfolio_is_requested_by_its_id(bad: Bad) -> None:
    """A missing portfolio is requested by its ID, and the request is recorded with its result.

    The response shows if the portfolio was deleted or if the key has lost its access.
    """
    assert "requested by ID, 1 of 1: 1 deleted" in bad.said[GONE].err
    query = (
        "select purpose, operation, status, error is null from ops.requests "
        f"where snapshot_date = '{GONE}' and purpose <> 'book' order by all"
    )
    assert set(bad.keeper.ask(query)) == {
        ("closing", "list_portfolios", 200, True),
        ("closing", "list_venues", 200, True),
        ("confirming", "get_portfolio", 400, False),
    }


def test_an_empty_first_night_is_held(empty: Callable[..., Keeper]) -> None:
    """Without an earlier night, an empty list is held too, because it looks like missing access."""
    keeper = empty()
    keeper.sandbox.show("portfolios-empty")
    said = keeper.run(LAST)
    keeper.sandbox.show()
    assert said.code == 3
    assert "if the key has no access (4.1)" in said.err
    assert keeper.ask("select state, is_book from ops.snapshots") == [("held", False)]


def test_an_error_body_with_status_200_leaves_a_gap(bad: Bad) -> None:
    """An error body with status 200 counts as an error: the night is a gap, and the book stays."""
    said = bad.said[ERROR]
    assert said.code == 1
    assert "INTERNAL_SERVER_ERROR" in said.err
    assert not (bad.keeper.layout.landing / str(ERROR)).exists()
    assert bad.shown[ERROR] == [(THIRD, len(amounts_of(THIRD)))]


def test_drift_is_reported_with_path_count_and_example(bad: Bad) -> None:
    """New fields, values and balance kinds and changed types are in ops.drift, checks and alert."""
    assert bad.said[DRIFT].code == 0
    found = bad.keeper.ask(
        "select kind, path, word, seen > 0, example, first_seen from ops.drift "
        f"where first_seen = '{DRIFT}' order by all"
    )
    kinds = {kind for kind, *_ in found}
    assert kinds == {"unknown field", "unknown value", "unknown balance", "changed type"}
    assert ("changed type", "data[].createdAt", "createdAt", True, "1700000000", DRIFT) in found
    assert all(seen and example for _, _, _, seen, example, _ in found)
    [(passed, wrong)] = bad.keeper.ask(
        "select passed, wrong_rows from ops.checks where check_name = 'drift'"
    )
    assert (passed, wrong) == (False, len(found))
    [alert] = [body for cause, body in bad.alerts[DRIFT].items() if cause.startswith("drift:")]
    assert f"First seen on {DRIFT}" in alert
    assert "changed type: data[].createdAt createdAt, 1 time, for example 1700000000" in alert


def test_accept_publishes_and_reject_does_not(after: Keeper) -> None:
    """An accepted night is the book of its date, a rejected night is not, and both are recorded."""
    half, bucket = snapshot_of(after, HALF), snapshot_of(after, BUCKET)
    assert after("accept", half, "--why", "a custodian was closed").code == 0
    after.sandbox.clock.night(LAST, minute=20)
    assert after("reject", bucket, "--why", "staking was not reported").code == 0
    rows = after.ask(
        "select snapshot_date, count(*) from history.accounts "
        f"where snapshot_date in ('{HALF}', '{BUCKET}') group by all"
    )
    assert [day for day, _ in rows] == [HALF]
    query = (
        "select state, is_book, reason from ops.snapshots "
        f"where snapshot_id in ('{half}', '{bucket}') order by all"
    )
    assert after.ask(query) == [
        ("accepted", True, "a custodian was closed"),
        ("rejected", False, "staking was not reported"),
    ]
    _test_a_lost_decision_is_given_back(after, bucket)


def _test_a_lost_decision_is_given_back(after: Keeper, snapshot_id: str) -> None:
    """Check that a rejected night whose decision is lost stays rejected and is not judged again."""
    history = after.history()
    [folder] = (after.layout.landing / str(BUCKET)).iterdir()
    (folder / DECISION).unlink()
    assert after("verify").code == 1
    said = after.run(LAST, hour=3)
    assert (said.code, said.err) == (0, "")
    assert f"the decision on snapshot {snapshot_id} was missing" in said.out
    query = f"select state, reason from ops.snapshots where snapshot_id = '{snapshot_id}'"
    assert after.ask(query) == [("rejected", "staking was not reported")]
    now = after.history()
    assert all(set(rows) <= set(now[name]) for name, rows in history.items())
    assert after("verify").code == 0
