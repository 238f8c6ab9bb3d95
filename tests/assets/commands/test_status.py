"""Tests of `status`, `backup`, `restore` and other commands, and of the files they leave."""

import errno
import io
import json
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Callable
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assets.cli import main
from assets.monitoring.conditions import late_alert
from assets.night.run_log import STOPPED, RunLog
from tests.support.books import night, published
from tests.support.ledgers import reconciled, rows
from tests.support.operator import Watched
from tests.support.operator_home import FIRST, FOURTH, SECOND, THIRD, Keeper
from warehouse.storage.layout import Layout, digest_of

Make = Callable[..., Watched]


def lines(keeper: Keeper) -> tuple[int, dict[str, str]]:
    """Return the exit code of `status` while a daemon is running, and its lines by their labels."""
    keeper.report()
    said = keeper("status")
    assert said.err == ""
    found = [line for line in said.out.splitlines() if not line.startswith(" ")]
    return said.code, {line[:12].strip(): line[12:] for line in found}


def test_status_of_a_good_home_shows_no_problem(watched: Make) -> None:
    """After a good night, `status` prints five lines without a problem, and exits with 0."""
    keeper = watched().keeper
    keeper.sandbox.clock.night(SECOND, hour=9)
    code, said = lines(keeper)
    assert code == 0
    assert list(said) == ["last night", "book", "next", "alerts", "problems"]
    assert said["last night"].startswith(f"{SECOND}, snapshot ")
    assert said["last night"].endswith(", accepted")
    assert said["next"].startswith(f"{THIRD} 02:15 UTC")
    assert said["alerts"] == "2 channels; and a dead-man's switch"
    assert said["problems"] == "none"


def test_status_shows_the_failed_attempt_and_the_night_before(watched: Make) -> None:
    """After a failed read, `status` shows the reason, then the last night, until a run succeeds."""
    keeper = watched().keeper
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    assert keeper.run(THIRD, "--unless-taken").code == 1
    said = keeper("status").out.splitlines()
    assert said[0].startswith(f"last night  {THIRD} was not read: ")
    assert "ACCESS_DENIED" in said[0]
    assert said[1].startswith(f"            the night before it: {SECOND}, snapshot ")
    [row] = json.loads(keeper("status", "--format", "json").out)
    assert (row["last_night"], row["failed_night"]) == (str(SECOND), str(THIRD))
    assert "ACCESS_DENIED" in row["failed_reason"]
    keeper.sandbox.show()
    assert keeper.run(THIRD, "--unless-taken", hour=4).code == 0
    assert keeper("status").out.startswith(f"last night  {THIRD}, snapshot ")
    [row] = json.loads(keeper("status", "--format", "json").out)
    assert (row["failed_night"], row["failed_reason"]) == (None, None)


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_status_shows_a_run_that_ended_early(watched: Make, end: str) -> None:
    """A run that a person stopped, or that was killed, is shown like a failed one."""
    keeper = watched().keeper
    keeper.sandbox.clock.night(THIRD)
    with RunLog(keeper.nightbook, "ours", THIRD) as log:
        assert "was not read" not in keeper("status").out, "the run has not ended"
        if end == "stopped":
            log.end(STOPPED)
    said = keeper("status").out
    assert said.startswith(f"last night  {THIRD} was not read: the run ended before it had read ")


def test_status_needs_no_write_permission(watched: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who may only read the home gets the same status as its owner."""
    keeper = watched().keeper
    keeper.sandbox.clock.night(SECOND, hour=9)
    expected = lines(keeper)
    really_open = os.open

    def open_to_read(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        is_in_home = str(path).startswith(str(keeper.layout.home))
        if is_in_home and flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return really_open(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", open_to_read)
    assert lines(keeper) == expected


def test_status_of_a_held_night_prints_the_command(watched: Make) -> None:
    """While a night is held, `status` exits with 3 and prints the command to decide."""
    home = watched()
    home.third("portfolios-empty")
    code, said = lines(home.keeper)
    assert code == 3
    assert said["problems"] == f"the night of {THIRD} is held"
    assert said["book"].startswith(str(SECOND))
    assert f"accept {THIRD:%Y%m%d}T021500Z" in home.keeper("status").out


def test_equal_problems_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status` prints problems with the same title and command once, with their number."""
    venues = ("v1", "v2")
    tables: dict[str, list[dict[str, Any]]] = {
        "venues": [{"venue_id": venue} for venue in venues],
        "instruments": [
            {"venue_id": venue, "type": "spot", "instrument_id": f"i{number}"}
            for venue in venues
            for number in range(100)
        ],
    }
    layout = Layout(tmp_path)
    published(layout, [night("20261120T021500Z", [], tables)], "a")
    monkeypatch.setenv("NIGHTBOOK_HOME", str(tmp_path))
    main(["status"])
    title = "a list has a round number of records (2 times)"
    printed = capsys.readouterr().out
    assert [printed.count(text) for text in (title, f"{title}: ")] == [2, 1]


def test_a_repeated_account_holds_one_night_and_is_a_finding(watched: Make) -> None:
    """A repeated account holds a night, and is a finding after a person accepts the night.

    The reason and the finding name the repeated amounts. Later nights with the same repeated
    account are not held.
    """
    home = watched()
    keeper = home.keeper
    assert home.night(THIRD, "account-repeated") == "held"
    [(reason,)] = keeper.ask(f"select words from ops.reasons where snapshot_date = '{THIRD}'")
    assert reason in " ".join(keeper("snapshots").out.split())
    match = re.fullmatch(
        "accounts are listed more than once with the same amounts, which would count at least "
        "twice: 1 account at venue .+ with (.+) BTC. The first one is account (.+) of portfolio .+",
        reason,
    )
    assert match
    assert keeper("accept", f"{THIRD:%Y%m%d}T021500Z", "--why", "two accounts").code == 0
    query = "select severity, words from findings where kind = 'account_repeated'"
    words = (
        f'Account "{match[2]}" is listed 2 times for BTC with the same amounts, which may '
        f"be counted more than once: {match[1]}."
    )
    assert json.loads(keeper("query", query, "--format", "json").out) == [
        {"severity": "high", "words": words}
    ]
    assert home.night(FOURTH, "account-repeated") == "accepted"
    assert "repeated accounts: " in str(keeper.ask("select * from ops.lessons"))


def test_a_decision_updates_the_report(watched: Make) -> None:
    """`accept` updates the report, which no longer says that a person must decide."""
    home = watched()
    home.third("portfolios-empty")
    assert home.keeper("report").code == 0
    latest = home.keeper.nightbook.layout.reports / "latest.html"
    assert "a person must decide" in latest.read_text("utf-8")
    said = home.keeper("accept", f"{THIRD:%Y%m%d}T021500Z", "--why", "the desk was closed")
    assert (said.code, "The report was updated: " in said.out) == (0, True)
    assert "a person must decide" not in latest.read_text("utf-8")


@pytest.mark.parametrize("macro", ["changes_between", "roll_forward_between"])
def test_comparing_with_a_pruned_day_is_an_error(watched: Make, macro: str) -> None:
    """After `prune`, comparing with a pruned date is an error instead of an empty result."""
    home = watched()
    assert home.third() == "accepted"
    assert home.keeper("prune", "--keep", "2").code == 0
    kept = home.keeper("query", f"select count(*) from {macro}('{SECOND}', '{THIRD}')")
    assert kept.code == 0
    said = home.keeper("query", f"select count(*) from {macro}('{FIRST}', '{THIRD}')")
    assert (said.code, said.out) == (2, "")
    assert f"no book on or before {FIRST}: see ops.snapshots and ops.gaps" in said.err


def test_status_reports_a_night_that_did_not_start(watched: Make) -> None:
    """A night that did not start is a problem hours after its tick, but not before."""
    keeper = watched().keeper
    keeper.sandbox.clock.night(THIRD, hour=3)
    assert lines(keeper)[1]["problems"] == "none"
    keeper.sandbox.clock.night(THIRD, hour=5)
    code, said = lines(keeper)
    assert (code, said["problems"]) == (1, f"no book for {THIRD} yet")


def test_a_failed_run_is_not_reported_as_not_started(watched: Make) -> None:
    """After a failed run, the alert about the missing book does not claim that no run started."""
    keeper = watched().keeper
    keeper.sandbox.show("access-denied-400,path=/portfolios")
    assert keeper.run(THIRD).code == 1
    keeper.sandbox.clock.night(THIRD, hour=5)
    assert lines(keeper)[1]["problems"] == f"no book for {THIRD} yet"
    told = late_alert(keeper.nightbook)
    assert told is not None
    assert "nothing has landed since: no run has started, or none has completed" in told.words


def test_an_empty_home_is_not_a_problem(shown: Any, tmp_path: Path) -> None:
    """A home without nights is not a problem, and `status` prints how to pull the first night."""
    keeper = Keeper(tmp_path / "none", shown)
    keeper.layout.landing.mkdir(parents=True)
    code, said = lines(keeper)
    assert code == 0
    assert "none yet. Pull the first one: " in said["last night"]


def as_of(keeper: Keeper) -> dict[str, Any]:
    """Return the rows of all tables, and of all macros of dates for all combinations of dates."""
    days = [f"date '{FIRST + timedelta(days=n)}'" for n in range(4)]
    macros = keeper.ask(
        "select function_name, parameters from duckdb_functions() "
        "where function_type = 'table_macro' and not internal order by all"
    )
    asked = [
        f"{name}({', '.join(chosen)})"
        for name, parameters in macros
        if all("day" in one for one in parameters)
        for chosen in product(days, repeat=len(parameters))
    ]
    assert len(asked) >= 28
    return {call: _answer(keeper, call) for call in asked} | keeper.everything()


def _answer(keeper: Keeper, call: str) -> object:
    """Return the rows, or the error of a macro that cannot compare two days with the same book."""
    try:
        return keeper.ask(f"from {call} order by all")
    except duckdb.InvalidInputException as error:
        return str(error)


def kept(keeper: Keeper) -> dict[str, str]:
    """Return the SHA-256 of each file that cannot be rebuilt, except locks and hidden files."""
    found = [
        path
        for place in ("landing", "reconcile", "alerts")
        for path in (keeper.home / place).rglob("[!.]*")
        if path.is_file() and not path.parent.name.startswith(".") and path.stat().st_size
    ]
    return {str(path): digest_of(path) for path in found}


@pytest.mark.torture
def test_a_home_is_restored_from_its_backup(watched: Make, tmp_path: Path) -> None:
    """A home restored from its backup passes `verify` and returns the same rows for every date.

    The decisions, the sent alerts, and the reconciliation with its break and signature are also
    restored.
    """
    home = watched()
    keeper = home.keeper
    reconciled(keeper, next(iter(rows(keeper))))
    assert keeper("reconcile", "sign", "--who", "ann").code == 0
    home.third("portfolios-empty")
    keeper.sandbox.clock.night(THIRD, hour=9)
    assert keeper("reject", f"{THIRD:%Y%m%d}T021500Z", "--why", "access was lost").code == 0
    before, files, standing = as_of(keeper), kept(keeper), keeper("reconcile", "status")
    assert standing.code == 3
    said = keeper("backup", str(tmp_path / "book.tar"))
    assert said.code == 0, said.err
    shutil.rmtree(keeper.home)
    keeper.sandbox.clock.night(THIRD, hour=10)
    said = keeper("restore", str(tmp_path / "book.tar"))
    assert said.code == 0, said.err
    assert keeper("verify").code == 0
    assert as_of(keeper) == before
    assert kept(keeper) == files
    assert keeper("reconcile", "status") == standing


def test_a_restore_into_a_home_with_other_nights_fails(watched: Make, tmp_path: Path) -> None:
    """Restoring a backup into a home with different nights fails and changes nothing."""
    keeper = watched().keeper
    assert keeper("backup", str(tmp_path / "book.tar")).code == 0
    rejected = f"{SECOND:%Y%m%d}T021500Z"
    assert keeper("reject", rejected, "--why", "so that the nights differ").code == 0
    before = sorted(keeper.home.rglob("*"))
    said = keeper("restore", str(tmp_path / "book.tar"))
    assert said.code == 1
    assert "Nothing was changed" in said.err
    assert "Use an empty folder" in said.err
    assert sorted(keeper.home.rglob("*")) == before


def cut(path: Path) -> None:
    """Remove the second half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Change one byte of a body."""
    content = bytearray(path.read_bytes())
    place = content.find(b"\x28\xb5\x2f\xfd") + 9
    content[place] ^= 1
    path.write_bytes(content)


def climb(path: Path) -> None:
    """Add a file whose path leads out of the home, and add its digest to the list."""
    with tarfile.open(path) as tar:
        files = {one.name: tar.extractfile(one) for one in tar if one.isfile()}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    digests = json.loads(contents.pop("digests.json"))
    first = next(iter(digests))
    digests["landing/../../out"] = digests[first]
    contents["landing/../../out"] = contents[first]
    with tarfile.open(path, "w") as tar:
        for name, content in (*contents.items(), ("digests.json", json.dumps(digests).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def link(path: Path) -> None:
    """Add a symbolic link to a folder outside the home."""
    with tarfile.open(path, "a") as tar:
        entry = tarfile.TarInfo("landing/link")
        entry.type, entry.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(entry)


@pytest.mark.parametrize("harm", [cut, flip, climb, link])
def test_a_damaged_backup_restores_nothing(
    watched: Make, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """If a backup was truncated, changed or extended, nothing is restored."""
    keeper = watched().keeper
    backup = tmp_path / "book.tar"
    assert keeper("backup", str(backup)).code == 0
    harm(backup)
    shutil.rmtree(keeper.home)
    said = keeper("restore", str(backup))
    assert said.code == 1, said.out
    assert "Nothing was restored" in said.err
    assert not (keeper.home / "landing").exists()
    assert not (tmp_path / "out").exists()


def test_a_failed_backup_does_not_change_the_old_one(
    watched: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk is full while a backup is written, the existing backup is unchanged."""
    keeper = watched().keeper
    backup = tmp_path / "book.tar"
    assert keeper("backup", str(backup)).code == 0
    kept = backup.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tarfile.TarFile.addfile", full)
    assert keeper("backup", str(backup)).code == 1
    assert backup.read_bytes() == kept
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_status_shows_the_next_night_when_clocks_change(watched: Make) -> None:
    """`status` shows the next night in the operator's time zone, even when clocks change."""
    keeper = watched().keeper
    keeper.more["NIGHTBOOK_TIMEZONE"] = "Europe/Zurich"
    keeper.more["NIGHTBOOK_SCHEDULE"] = "30 2 * * *"
    for day, told in (
        (date(2026, 3, 28), "2026-03-29 03:00 Europe/Zurich"),
        (date(2026, 10, 24), "2026-10-25 02:30 Europe/Zurich"),
    ):
        keeper.sandbox.clock.night(day, hour=12)
        assert lines(keeper)[1]["next"].startswith(told)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), "Neither --keep nor --max-gb"),
        (("--max-gb", "many"), "'many'"),
        (("--max-gb", "0"), "'0' GB is not a valid limit"),
        (("--max-gb", "1e999999"), "'1e999999' GB is not a valid limit"),
        (("--max-gb", "1e30"), "'1e30' GB is not a valid limit"),
        (("--keep", "0"), "0 is not between 1 and 36500 days"),
        (("--keep", "99999999999"), "99999999999 is not between 1 and 36500 days"),
    ],
)
def test_prune_rejects_an_invalid_limit(watched: Make, words: tuple[str, ...], found: str) -> None:
    """An invalid limit for `prune` is rejected with a message, and nothing is deleted."""
    keeper = watched().keeper
    before = sorted(keeper.home.rglob("*"))
    said = keeper("prune", *words)
    assert (said.code, said.out) == (2, "")
    assert found in said.err
    assert "Nothing was pruned" in said.err
    assert sorted(keeper.home.rglob("*")) == before


def test_a_dry_run_of_prune_lists_deleted_and_kept_data(watched: Make) -> None:
    """With too small a limit, a dry run lists the nights to delete and the data that it keeps."""
    keeper = watched().keeper
    said = keeper("prune", "--max-gb", "0.000001", "--dry-run")
    assert said.code == 3
    assert said.out.startswith("1 night to delete: ")
    assert f"{FIRST:%Y%m%d}T021500Z" in said.out
    assert "Never deleted: every night's manifest and decisions" in said.out
    assert "no more nights can be deleted" in said.out


def test_enter_accepts_the_proposal_for_a_ledger(
    watched: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter accepts the proposal, other input replaces it, and the end of input writes nothing."""
    keeper = watched().keeper
    ledger = tmp_path / "parts.csv"
    ledger.write_text("Asset,Free,Locked\nBTC,1,2\n", encoding="utf-8")
    settings = keeper.home / "reconcile" / "recon.toml"
    assert keeper("reconcile", "preview", str(ledger)).code == 3
    for typed, amount in (("", None), ('amount = "Free"\n', "1"), ("\n", "1")):
        monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
        asked = keeper("reconcile", "setup", str(ledger))
        assert asked.code == (0 if amount else 3), asked
        assert settings.exists() == bool(amount)
    shown = keeper("reconcile", "preview", str(ledger))
    assert (shown.code, "BTC  1" in shown.out) == (0, True)


def test_a_number_chooses_only_its_line(
    watched: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter chooses none of several lines, and a number chooses only its line, without the #."""
    keeper = watched().keeper
    ledger = tmp_path / "days.csv"
    ledger.write_text("Asset,Yesterday,Today\nBTC,1,2\n", encoding="utf-8")
    settings = keeper.home / "reconcile" / "recon.toml"
    shown = keeper("reconcile", "preview", str(ledger))
    assert "Remove the # only from the lines that are correct" in shown.out
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert keeper("reconcile", "setup", str(ledger)).code == 3
    assert not settings.exists()
    monkeypatch.setattr(sys, "stdin", io.StringIO("2\n\n"))
    asked = keeper("reconcile", "setup", str(ledger))
    assert asked.code == 0, asked
    text = settings.read_text(encoding="utf-8")
    assert ('\namount = "Today"\n' in text, "Yesterday" in text.partition("amount")[0]) == (
        True,
        False,
    )


def test_other_users_cannot_read_the_files_of_a_home(watched: Make) -> None:
    """For any umask, files have mode 0640 or 0440 and folders 0750, also locks and databases."""
    before = os.umask(0o022)
    try:
        home = watched()
        home.third("portfolios-empty")
        keeper = home.keeper
        for words in (("run",), ("status",), ("reconcile", "init"), ("report",), ("export",)):
            keeper(*words)
        modes = {
            str(path.relative_to(keeper.home)): f"{path.stat().st_mode & 0o777:o}"
            for path in keeper.home.rglob("*")
            if not path.is_symlink()
        }
    finally:
        os.umask(before)
    assert {mode for mode in modes.values() if mode not in ("640", "440", "750")} == set(), {
        name: mode for name, mode in modes.items() if mode not in ("640", "440", "750")
    }
