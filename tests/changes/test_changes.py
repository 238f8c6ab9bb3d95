"""Tests of changes of a beta API: harmless ones ask at most once, and lost money is held."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from pipelines.lake import lessons
from pipelines.landing import snapshots
from pipelines.landing.snapshots import Snapshot
from tests.changes import api, harmless, losing, vanishing
from tests.changes.api import Answers, Change
from tests.support.shared import some_daily
from warehouse.contract.states import ACCEPTED, HELD
from warehouse.storage.layout import Layout

GOOD = 2
LASTING = 3
LOSING = losing.LOSING | vanishing.CHANGES


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync, because no test here kills a process. Other tests cover durability."""
    monkeypatch.setattr("os.fsync", lambda _: None)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a home with two ordinary nights."""
    home = tmp_path_factory.mktemp("changes") / "home"
    for number in range(GOOD):
        night = take(Layout(home), api.ordinary(number))
        assert night.state == ACCEPTED, night.decisions
    return home


@pytest.fixture
def layout(good: Path, tmp_path: Path) -> Layout:
    """Return the layout of a copy of that home."""
    shutil.copytree(good, tmp_path / "home")
    return Layout(tmp_path / "home")


def take(layout: Layout, answers: Answers) -> Snapshot:
    """Take the night of these answers."""
    return api.taken(layout, answers, api.STARTED + timedelta(days=answers.number))


def accept(layout: Layout, night: Snapshot) -> Snapshot:
    """Accept a night as a person does, in the morning after it."""
    at = api.STARTED + timedelta(days=(night.snapshot_date - api.STARTED.date()).days, hours=6)
    return snapshots.decide_by_hand(
        layout, night.snapshot_id, ACCEPTED, by="ann", at=at, why="it is as it should be"
    )


def lasting(layout: Layout, change: Change) -> list[Snapshot]:
    """Take the nights of a lasting change, and accept each held night in the morning."""
    nights = []
    for number in range(GOOD, GOOD + LASTING):
        nights.append(take(layout, api.changed(number, change)))
        if nights[-1].state == HELD:
            accept(layout, nights[-1])
        elif len(nights) > 1 and not words(nights):
            break  # no night was held, so there is no lesson to remember
    return nights


def words(nights: list[Snapshot]) -> list[tuple[str, ...]]:
    """Return the reasons of each held night."""
    return [one.decision.reasons for one in nights if one.decision and one.state == HELD]


@pytest.mark.parametrize("name", some_daily(harmless.CHANGES, 12))
def test_a_harmless_change_is_accepted_at_most_once(layout: Layout, name: str) -> None:
    """A lasting harmless change is accepted at most once, and the later nights are not held."""
    held = words(lasting(layout, harmless.CHANGES[name]))
    assert len(held) <= 1, held


@pytest.mark.parametrize("name", some_daily(LOSING, 12))
def test_a_night_that_hides_or_loses_money_is_held(layout: Layout, name: str) -> None:
    """The night is held with a reason."""
    night = take(layout, api.changed(GOOD, LOSING[name]))
    assert night.state == HELD
    assert night.decision
    assert all(night.decision.reasons)


def test_a_lesson_covers_only_a_similar_share_of_the_book(layout: Layout) -> None:
    """A lesson applies only to about the share of the book on which a person taught it."""

    def idle(answers: Answers) -> None:
        for account in list(answers.accounts())[: answers.number]:
            account["balance"]["custody"]["locked"] = None

    assert len(words(lasting(layout, idle))) == 1
    every = losing.LOSING["amounts with a decimal comma"]
    number = GOOD + LASTING
    assert take(layout, api.changed(number, every)).state == HELD

    def all_null(answers: Answers) -> None:
        for account in answers.accounts():
            account["balance"]["custody"]["locked"] = None

    assert take(layout, api.changed(number + 1, all_null)).state == HELD


def test_a_duplicate_account_is_a_reason_only_once(layout: Layout) -> None:
    """The reason names the duplicate money. Once accepted, only a new duplicate is a new reason."""

    def repeat(answers: Answers, place: int) -> None:
        accounts = answers.portfolios[0]["positions"][place]["accounts"]
        accounts.append(accounts[0])

    [[reason]] = words(lasting(layout, lambda answers: repeat(answers, 0)))
    assert reason == (
        "accounts are listed more than once with the same amounts, which would count at least "
        "twice: 1 account at venue venue01 with 1055.75 BTC. The first one is account main0 of "
        "portfolio 00000000-0000-4000-8000-000000000000"
    )

    def also(answers: Answers) -> None:
        repeat(answers, 0)
        repeat(answers, 1)

    night = take(layout, api.changed(GOOD + LASTING, also))
    assert night.state == HELD
    new, known = night.held_for
    assert (known.is_known, new.is_known) == (True, False)
    assert "ETH" in new.words


def test_one_decision_accepts_all_nights_with_the_same_reason(layout: Layout) -> None:
    """One decision accepts all nights with the same reason, and the other nights stay held."""
    change = harmless.CHANGES["locked is null"]
    weekend = [take(layout, api.changed(number, change)) for number in (GOOD, GOOD + 1)]
    other = take(layout, api.changed(GOOD + 2, vanishing.CHANGES["one portfolio is missing"]))
    assert {one.state for one in (*weekend, other)} == {HELD}
    accept(layout, weekend[0])
    [through] = lessons.let_through(layout, at=api.STARTED + timedelta(days=9))
    assert (through.snapshot_id, through.state) == (weekend[1].snapshot_id, ACCEPTED)
    assert snapshots.find(layout, other.snapshot_id).state == HELD


def test_there_are_sixty_harmless_and_forty_losing_changes() -> None:
    """There are at least 60 harmless and 40 losing changes, and all names are different."""
    assert len(harmless.CHANGES) >= 60
    assert len(LOSING) >= 40
    assert not harmless.CHANGES.keys() & LOSING.keys()
