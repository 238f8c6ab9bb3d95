"""Tests of alerts about open breaks and unusable ledgers: one alert for each cause."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.dagster_runs import ended, scheduled
from tests.support.ledgers import inbox, reconciled, rows
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import SECOND, THIRD

pytestmark = pytest.mark.torture

Make = Callable[..., Watched]
FOURTH, LATER = (THIRD + timedelta(days=n) for n in (1, 8))


def test_new_breaks_send_one_alert(watched: Make, receiver: Receiver) -> None:
    """New breaks cause one alert. Breaks that are a week old cause one more."""
    home = watched()
    keeper = home.keeper
    first, second = list(rows(keeper))[3:5]

    def told() -> list[str]:
        home.look()
        return [title for title in receiver.titles if "was not read" not in title]

    assert reconciled(keeper) == 0, keeper("reconcile", "status").out
    assert told() == []
    assert reconciled(keeper, first) == 3
    home.look()
    [(title, words)] = receiver.alerts
    assert title == "nightbook: 1 break is open"
    assert f"Book against ledger, {SECOND}:" in words
    assert "reconcile status" in words
    assert keeper("status").code == 3
    assert told() == ["1 break is open"]
    home.third()
    assert reconciled(keeper, first) == 3
    assert told() == []
    home.night(FOURTH)
    assert reconciled(keeper, first, second) == 3
    assert told() == ["2 breaks are open"]
    home.night(LATER)
    assert reconciled(keeper, first, second) == 3
    assert told() == [f"1 break is open since {SECOND}", f"1 break is open since {FOURTH}"]
    assert reconciled(keeper) == 0
    assert told() == []
    assert keeper("status").code != 3


def test_an_unreadable_row_sends_one_alert(watched: Make, receiver: Receiver) -> None:
    """If one row is unreadable and all others match, `status` and one alert report that row."""
    home = watched()
    keeper = home.keeper
    assert reconciled(keeper) == 0
    with inbox(keeper).open("a", encoding="utf-8") as file:
        file.write("p;BTC;v;cold;much\n")
    assert keeper("reconcile", "run").code == 3
    said = keeper("reconcile", "status")
    assert said.code == 3
    assert ", 1 row rejected" in said.out
    for _ in range(2):
        home.look()
    told = [one for one in receiver.alerts if "was not read" not in one[0]]
    assert [title for title, _ in told] == ["nightbook: part of the ledger could not be compared"]
    words = told[0][1]
    assert "unreadable rows: 1;" in words
    assert keeper("status").code == 3


def test_an_unreadable_file_is_reported_even_if_all_matches(
    watched: Make, receiver: Receiver
) -> None:
    """If a file in the inbox is unreadable, `status` and an alert report it even if all matches."""
    home = watched()
    keeper = home.keeper
    inbox(keeper).parent.mkdir(parents=True, exist_ok=True)
    (inbox(keeper).parent / "custody.zip").write_bytes(b"PK")
    assert reconciled(keeper) == 3
    said = keeper("reconcile", "status")
    assert (said.code, "custody.zip: it is not a complete archive" in said.out) == (3, True)
    home.look()
    titles = [title for title, _ in receiver.alerts]
    assert "nightbook: not everything in the inbox was read" in titles


def test_a_ledger_without_matching_positions_sends_one_alert(
    watched: Make, receiver: Receiver
) -> None:
    """A ledger whose portfolio and venue have no positions gives exit code 3 and one alert."""
    home = watched()
    keeper = home.keeper
    assert reconciled(keeper) == 0
    ((portfolio, venue),) = keeper.ask(
        "select portfolio_id, venue_id from portfolios cross join venues where (portfolio_id, "
        "venue_id) not in (select (portfolio_id, venue_id) from accounts) order by all limit 1"
    )
    settings = f'[file."{inbox(keeper).name}"]\nportfolio = "{portfolio}"\nvenue = "{venue}"\n'
    (keeper.home / "reconcile" / "recon.toml").write_text(settings, encoding="utf-8")
    assert reconciled(keeper) == 3
    assert ": 0 of " in keeper("reconcile", "status").out
    home.look()
    [(title, words)] = receiver.alerts
    assert title == "nightbook: the ledger was not compared with any position"
    assert " positions compared" in words


def test_a_user_without_a_name_signs_with_a_number(
    watched: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user without a name, for example in a container, signs with the user's number."""
    keeper = watched().keeper
    reconciled(keeper, next(iter(rows(keeper))))
    monkeypatch.setenv("LOGNAME", "somebody else")
    monkeypatch.setattr("os.getuid", lambda: 4711)
    said = keeper("reconcile", "sign")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("Signed by user 4711 as preparer at ")


@pytest.mark.parametrize("is_by_command", [True, False])
def test_an_unusable_ledger_sends_one_alert(
    watched: Make, receiver: Receiver, *, is_by_command: bool
) -> None:
    """If a run cannot use its ledger, it still succeeds, and one alert names the ledger file."""
    home = watched()
    keeper = home.keeper
    inbox(keeper).write_text("no;ledger\n1;2\n", encoding="utf-8")
    keeper.sandbox.show()
    if is_by_command:
        assert keeper.run(THIRD).code == 0
    else:
        assert scheduled(keeper, THIRD).success
        ended(keeper)
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the book of {THIRD} was not reconciled"
    assert "ledger.csv" in words
    assert receiver.fetched == ["/alive"]
