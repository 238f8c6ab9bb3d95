"""Tests of nights that must not become the book: held, reported, decided by a person."""

import json
import re
import shlex
import shutil
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from assets.night.results import AssetCheck
from assets.night.run_log import newest_runs
from pipelines.landing.reasons import Reason
from pipelines.landing.snapshots import DECISION
from tests.support.operator_home import THIRD, Keeper, Said
from warehouse.storage.layout import written_aside

pytestmark = pytest.mark.torture

EMPTY, VANISHED, BROKEN, DOWN, LAST = (THIRD + timedelta(days=n) for n in range(1, 6))
FAULTS = {
    EMPTY: "portfolios-empty",
    VANISHED: "portfolio-vanished",
    BROKEN: "amount-nan",
    DOWN: "not-found-404,path=/venues/meridian/*",
}


class Bad(NamedTuple):
    """A home after troubled nights, with each night's output and the dates in book and history."""

    keeper: Keeper
    said: dict[date, Said]
    newest: dict[date, list[tuple[date]]]
    history: dict[date, list[tuple[date]]]


@pytest.fixture(scope="session")
def bad(taken: tuple[Keeper, Said], tmp_path_factory: pytest.TempPathFactory) -> Bad:
    """Run four troubled nights after the three good ones."""
    home = tmp_path_factory.mktemp("bad") / "home"
    shutil.copytree(taken[0].home, home, symlinks=True)
    keeper = Keeper(home, taken[0].sandbox)
    made = Bad(keeper, {}, {}, {})
    for day, fault in FAULTS.items():
        keeper.sandbox.show(fault)
        made.said[day] = keeper.run(day)
        made.newest[day] = keeper.ask("select distinct snapshot_date from balances")
        made.history[day] = keeper.ask("select distinct snapshot_date from history.balances")
    keeper.sandbox.show()
    return made


@pytest.fixture
def after(bad: Bad, tmp_path: Path) -> Keeper:
    """Return a copy of the troubled home in which a test can make decisions."""
    shutil.copytree(bad.keeper.home, tmp_path / "home", symlinks=True)
    bad.keeper.sandbox.clock.night(LAST, hour=9)
    return Keeper(tmp_path / "home", bad.keeper.sandbox)


def held(keeper: Keeper, day: date) -> str:
    """Return the ID of the held snapshot of a date."""
    query = f"select snapshot_id from ops.snapshots where snapshot_date = '{day}'"
    [(snapshot_id,)] = keeper.ask(query)
    return str(snapshot_id)


@pytest.mark.parametrize(
    ("day", "words"),
    [
        (EMPTY, "the list of portfolios is empty, but had "),
        (VANISHED, "1 portfolio that held money is missing: "),
        (BROKEN, "rejected values that carry money: 1, the first at data["),
    ],
)
def test_a_doubtful_night_is_held(bad: Bad, day: date, words: str) -> None:
    """A doubtful night exits with 3 and names reasons and the next command, and the book stays."""
    said = bad.said[day]
    assert said.code == 3
    assert words in said.err
    assert f"accept {held(bad.keeper, day)}" in said.err
    assert f"the book of {THIRD} was not changed" in said.err
    assert "Traceback" not in said.err
    assert bad.newest[day] == [(THIRD,)]
    assert (day,) not in bad.history[day]


def test_ops_views_list_held_nights_with_their_reasons(bad: Bad) -> None:
    """Held nights are in ops.snapshots with their reasons, and in ops.gaps as held."""
    rows = bad.keeper.ask(
        "select snapshot_date, state, is_book, reason from ops.snapshots "
        f"where snapshot_date > '{THIRD}' order by all"
    )
    assert [(day, state, book) for day, state, book, _ in rows] == [
        (EMPTY, "held", False),
        (VANISHED, "held", False),
        (BROKEN, "held", False),
        (DOWN, "accepted", True),
    ]
    assert all(reason for *_, reason in rows[:3])
    of_missing = bad.keeper.ask(f"select words from ops.reasons where snapshot_date = '{VANISHED}'")
    assert [words.split(": ")[0] for (words,) in of_missing] == [
        "1 portfolio that held money is missing"
    ]
    gaps = bad.keeper.ask("select snapshot_date, reason, book_before from ops.gaps order by all")
    assert gaps == [(day, "held", THIRD) for day in (EMPTY, VANISHED, BROKEN)]


def test_a_venue_that_is_down_does_not_hold_the_night(bad: Bad) -> None:
    """If one venue has no instruments, the night is the book, and its last good rows are marked."""
    assert (bad.said[DOWN].code, bad.newest[DOWN]) == (0, [(DOWN,)])
    assert " failed" in bad.said[DOWN].out
    stale = bad.keeper.ask(
        "select distinct venue_id, stale_since from instruments where stale_since is not null"
    )
    assert stale == [("meridian", THIRD)]
    carried, before = (
        bad.keeper.ask(
            "select count(*) from history.instruments "
            f"where venue_id = 'meridian' and snapshot_date = '{day}'"
        )
        for day in (DOWN, THIRD)
    )
    assert carried == before != [(0,)]


def test_snapshots_lists_waiting_nights_with_reasons(bad: Bad) -> None:
    """`nightbook snapshots` exits with 3 while a night waits, and prints reasons and commands."""
    said = bad.keeper("snapshots")
    assert said.code == 3
    for day in (EMPTY, VANISHED, BROKEN):
        assert held(bad.keeper, day) in said.out
    assert "the list of portfolios is empty" in said.out
    assert "Decide: " in said.out
    assert all(len(line) <= 100 for line in said.out.splitlines() if "Decide" not in line)


def test_doctor_fails_while_a_night_waits(bad: Bad) -> None:
    """`nightbook doctor` fails while a night waits for a decision."""
    bad.keeper.sandbox.clock.night(LAST)
    said = bad.keeper("doctor")
    assert said.code == 1
    assert f"snapshot {held(bad.keeper, BROKEN)} is held and needs your decision" in said.out


def test_the_asset_check_fails_for_held_nights(bad: Bad) -> None:
    """The asset check night_is_accepted fails for held nights, and passes for the others."""
    passed = {
        str(run.day): result.passed
        for run in newest_runs(bad.keeper.layout)
        for result in run.results
        if isinstance(result, AssetCheck) and result.check == "night_is_accepted"
    }
    assert passed == {
        str(THIRD): True,
        str(EMPTY): False,
        str(VANISHED): False,
        str(BROKEN): False,
        str(DOWN): True,
    }


def test_accept_publishes_the_held_night(after: Keeper) -> None:
    """An accepted night is its date's book, and its reason is kept. A second accept is harmless."""
    snapshot_id = held(after, VANISHED)
    said = after("accept", snapshot_id, "--why", "the fund was closed")
    assert (said.code, said.err) == (0, "")
    assert f"{VANISHED}: its book is {snapshot_id}" in said.out
    assert after.ask(
        f"select count(*) > 0 from history.balances where snapshot_date = '{VANISHED}'"
    ) == [(True,)]
    query = f"select state, is_book, reason from ops.snapshots where snapshot_id = '{snapshot_id}'"
    assert after.ask(query) == [("accepted", True, "the fund was closed")]
    assert VANISHED not in {day for (day,) in after.ask("select snapshot_date from ops.gaps")}
    again = after("accept", snapshot_id)
    assert (again.code, again.err) == (0, "")
    assert "is already accepted, so nothing was decided" in again.out
    assert after.ask(query) == [("accepted", True, "the fund was closed")]


@pytest.mark.parametrize("is_today", [True, False])
def test_the_printed_command_keeps_the_accepted_snapshot(after: Keeper, *, is_today: bool) -> None:
    """After an accept, the printed command creates the workbook of exactly that snapshot.

    For a night of today, the command is not `run`, which would pull again and replace the snapshot.
    """
    day = EMPTY
    after.sandbox.clock.night(day if is_today else LAST, hour=9)
    snapshot_id = held(after, day)
    said = after("accept", snapshot_id, "--why", "sold").out.splitlines()
    [typed] = [line.partition(": ")[2] for line in said if line.startswith("To create its")]
    words = shlex.split(typed)
    words = words[words.index(str(after.home)) + 1 :]
    what = ["export", "--as-of"] if is_today else ["run", "--date"]
    assert words == [*what, str(day)]
    assert after(*words).code == 0
    query = f"select snapshot_id from ops.snapshots where is_book and snapshot_date = '{day}'"
    assert after.ask(query) == [(snapshot_id,)]
    assert list(after.layout.exports.glob(f"*{day}*.xlsx"))


def test_control_characters_in_reasons_are_escaped(
    after: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control characters in reasons, from the API or from a person, are printed as escapes."""
    evil = "the total of A\x1b[2J\x1b]0;owned\x07\x9b2J\u202e fell"
    seen = r"A\x1b[2J\x1b]0;owned\x07\x9b2J\u202e fell"
    monkeypatch.setattr(
        "pipelines.lake.guards.find_reasons", lambda *_, **__: (Reason("evil", evil),)
    )
    monkeypatch.setenv("COLUMNS", "100")
    taken = after.run(LAST)
    assert taken.code == 3
    [told] = [one for one in map(json.loads, taken.out.splitlines()) if one["event"] == "held"]
    assert evil in told["words"]
    assert seen in taken.err
    listed = after("snapshots")
    assert seen in listed.out
    decided = after("accept", held(after, EMPTY), "--why", evil)
    again = after("snapshots")
    for said in (taken, listed, decided, again):
        shown = (said.out + said.err).replace("\n", "")
        assert shown.isprintable()
    assert again.out.count(seen) == 2


def test_reject_keeps_the_last_book(after: Keeper) -> None:
    """A rejected night is not a book but stays recorded. Accepting it later requires a reason."""
    before = after.history()
    snapshot_id = held(after, EMPTY)
    said = after("reject", snapshot_id)
    assert (said.code, said.err) == (0, "")
    assert after.history() == before
    query = f"select state, is_book from ops.snapshots where snapshot_id = '{snapshot_id}'"
    assert after.ask(query) == [("rejected", False)]
    again = after("reject", snapshot_id)
    assert (again.code, again.err) == (0, "")
    assert "is already rejected" in again.out
    again = after("accept", snapshot_id)
    assert again.code == 2
    assert "is rejected, and people may have relied on that. Give a reason" in again.err


def test_an_accepted_night_can_be_rejected_later(after: Keeper) -> None:
    """After a rejection with a reason, the date has no book, and its files are marked and named."""
    before = after.history()
    snapshot_id = held(after, BROKEN)
    taught = after("accept", snapshot_id, "--why", "it is only one").out
    [lesson] = re.findall(r"^  ([0-9a-f]{8})  ", taught, re.MULTILINE)
    assert lesson in after("snapshots", "--lessons").out
    assert after("export", "--as-of", str(BROKEN)).code == 0
    [file] = after.layout.exports.glob(f"*{BROKEN}*.xlsx")
    bare = after("reject", snapshot_id)
    assert (bare.code, bare.out) == (2, "")
    assert "Give a reason" in bare.err
    said = after("reject", snapshot_id, "--why", "the amount was real")
    assert (said.code, said.err) == (0, "")
    assert f"{BROKEN}: it has no book, so it is a gap" in said.out
    assert str(file) in said.out
    assert f"No longer known to be harmless: {lesson}" in said.out
    assert snapshot_id in file.with_name(f"{file.name}.rejected.txt").read_text()
    assert after.history() == before
    assert after.ask(
        f"select state, is_book, reason from ops.snapshots where snapshot_id = '{snapshot_id}'"
    ) == [("rejected", False, "the amount was real")]
    told = f"from ops.decisions where snapshot_id = '{snapshot_id}' order by decision_no"
    states = after.ask(f"select decision_no, state {told}")
    assert states == [(1, "held"), (2, "accepted"), (3, "rejected")]
    withdrawn = after.ask("select file, reason from ops.withdrawn")
    assert (f"exports/{file.name}", "the amount was real") in withdrawn
    noted = {name for name, _ in withdrawn if (after.home / f"{name}.rejected.txt").is_file()}
    # The command wrote this page again, and it no longer shows the rejected night.
    assert {name for name, _ in withdrawn} - noted <= {"reports/latest.html"}
    query = "select lesson_id, taken_back_at is not null from ops.lessons"
    assert after.ask(query) == [(lesson, True)]
    assert after("reject", snapshot_id).code == 0
    assert after("verify").code == 0


def test_parts_and_statements_of_a_rejected_night_are_marked(after: Keeper) -> None:
    """They show the night as an export and a report do, and other readers have them."""
    snapshot_id = held(after, BROKEN)
    assert after("accept", snapshot_id, "--why", "it is only one").code == 0
    of = ("--portfolio", after.ask("select min(portfolio_id) from portfolios")[0][0])
    said = [
        after("export", *of, "--as-of", str(BROKEN), "--format", "duckdb", "--format", "csv"),
        after("report", *of, "--at", f"{BROKEN} 23:59:59"),
    ]
    assert [each.code for each in said] == [0, 0]
    files = [*after.layout.exports.glob("*-part-*"), *after.layout.reports.glob("statement-*")]
    assert len(files) == 11
    assert all(str(file) in said[0].out + said[1].out for file in files)
    assert after("reject", snapshot_id, "--why", "the amount was real").code == 0
    for file in files:
        assert snapshot_id in file.with_name(f"{file.name}.rejected.txt").read_text()


def test_a_replaced_file_has_no_note(tmp_path: Path) -> None:
    """A note goes with the file that it is about, and notes about other files stay."""
    for name in ("latest.html.rejected.txt", "2026-11-20.html.rejected.txt"):
        (tmp_path / name).write_text("no longer a book")
    with written_aside(tmp_path / "latest.html") as file:
        file.write(b"a later book")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("2026-11-20.html.rejected.txt", "latest.html")
    ]


def test_a_file_that_is_written_again_loses_its_note(after: Keeper) -> None:
    """A report or an export that is written after a rejection has no note, and none comes back."""
    snapshot_id = held(after, BROKEN)
    assert after("accept", snapshot_id, "--why", "it is only one").code == 0
    assert after("report").code == 0
    assert after("export", "--as-of", str(BROKEN)).code == 0
    assert after("reject", snapshot_id, "--why", "the amount was real").code == 0
    note = after.layout.reports / "latest.html.rejected.txt"
    [export] = after.layout.exports.glob("*.rejected.txt")
    assert not note.exists(), "reject has updated the report"
    assert after("reject", snapshot_id).code == 0  # completes what a killed command left undone
    assert not note.exists()
    export.unlink()
    assert after("reject", snapshot_id).code == 0
    assert export.exists(), "the note of a killed command was not written"
    assert not note.exists()


def test_a_lesson_applies_until_it_is_rejected(after: Keeper) -> None:
    """An accepted defect does not hold later nights, until its lesson is taken back."""
    reply = after("accept", held(after, BROKEN), "--why", "known").out
    [lesson] = re.findall(r"^  ([0-9a-f]{8})  ", reply, re.MULTILINE)
    [folder] = (after.layout.landing / str(BROKEN)).iterdir()
    (folder / DECISION).unlink()  # restored by the next run, with the lesson that it taught
    after.sandbox.show(FAULTS[BROKEN])
    assert after.run(LAST).code == 0
    [(words,)] = after.ask(
        f"select words from ops.reasons where is_known and snapshot_date = '{LAST}'"
    )
    assert "carry money" in words
    said = after("reject", lesson, "--why", "not again")
    assert (said.code, said.err) == (0, "")
    assert after.run(LAST + timedelta(days=1)).code == 3
    after.sandbox.show()
    assert "There is no active lesson" in after("reject", lesson).err


def test_a_decision_on_an_unknown_id_is_rejected(after: Keeper) -> None:
    """An unknown ID is rejected with a message, and a changed decision requires a reason."""
    before = after.everything()
    assert "There is no snapshot '20990101T000000Z'" in after("accept", "20990101T000000Z").err
    assert "Give a reason" in after("reject", held(after, DOWN)).err
    assert after.everything() == before


def test_a_failed_pull_is_not_reported_as_held(after: Keeper) -> None:
    """If tonight's pull fails, this is reported, even if an earlier night of today is held."""
    after.sandbox.show("portfolios-empty")
    assert after.run(LAST).code == 3
    after.sandbox.show("access-denied-400,path=/portfolios")
    said = after.run(LAST, hour=3)
    after.sandbox.show()
    assert said.code == 1
    assert "Held" not in said.err
    assert "ACCESS_DENIED" in said.err
