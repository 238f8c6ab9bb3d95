"""Tests of alerts and heartbeats: one alert for each cause, and none for a good night."""

import errno
import logging
import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from assets.console.errors import helping_command
from assets.monitoring.alerts import Alert, deliver, plain_text, send_alerts, store_events
from assets.monitoring.conditions import night_alerts
from assets.monitoring.inspection import look
from assets.monitoring.metrics import request_heartbeat
from pipelines.landing import snapshots
from pipelines.landing.fingerprint import newest_fingerprint
from pipelines.landing.lock import hold_pull_lock
from tests.support.operator import Receiver, Watched, take
from tests.support.operator_home import FIRST, SECOND, THIRD, Keeper, Sandbox
from warehouse.contract.states import ACCEPTED, HELD

FOURTH, FIFTH, LATER = (THIRD + timedelta(days=n) for n in (1, 2, 30))
FAILURE = Alert(
    cause="failed:0", title="a run failed", words="why", see="here", command="ls", happened=True
)
Make = Callable[..., Watched]


def test_a_good_night_sends_only_a_heartbeat(watched: Make, receiver: Receiver) -> None:
    """A good night sends one heartbeat and no alert, even if the home is checked repeatedly."""
    home = watched()
    assert home.third() == ACCEPTED
    home.look()
    assert (receiver.titles, receiver.fetched, home.log) == ([], ["/alive"], [])


def test_a_held_night_sends_one_alert(watched: Make, receiver: Receiver) -> None:
    """A held night sends one alert with its numbers and the command to type, and no heartbeat."""
    home = watched()
    assert home.third("portfolios-empty") == HELD
    home.look()
    [(title, words)] = receiver.alerts
    assert title == f"nightbook: the night of {THIRD} is held"
    assert "the list of portfolios is empty, but had " in words
    assert f"The book of {SECOND} was not changed." in words
    held = f"{THIRD:%Y%m%d}T021500Z"
    assert f"accept {held} --dry-run" in words  # This command only shows the changes.
    assert "--why" in words
    assert str(home.keeper.layout.landing / str(THIRD) / held) in words
    assert receiver.fetched == []


def test_held_snapshots_with_a_newer_book_send_one_alert(watched: Make, receiver: Receiver) -> None:
    """If a date has several held snapshots and a newer book, one alert reports all of them."""
    home = watched()
    for hour in (2, 3, 4):
        home.keeper.sandbox.show("portfolios-empty")
        assert take(home.keeper, THIRD, hour) == HELD
    home.keeper.sandbox.show()
    assert take(home.keeper, THIRD, 5) == ACCEPTED
    home.look()
    [title] = receiver.titles
    assert title == f"3 snapshots of {THIRD} held, but the date has a newer book"


def test_status_reports_a_killed_first_pull(shown: Sandbox, tmp_path: Path) -> None:
    """If the first pull was killed, `status` reports the folder that the pull left."""
    keeper = Keeper(tmp_path / "home", shown)
    shown.clock.night(FIRST, hour=9)
    (keeper.layout.landing / str(FIRST) / ".20260302T021500Z.pulling").mkdir(parents=True)
    said = keeper("status")
    assert said.code == 1
    assert f"the run that read {FIRST} was killed" in said.out


def test_rejecting_an_unpublished_snapshot_sends_no_alert(
    watched: Make, receiver: Receiver
) -> None:
    """Rejecting an accepted snapshot sends no alert if it never was the book."""
    home = watched()
    assert home.third("portfolios-empty") == HELD
    first = f"{THIRD:%Y%m%d}T021500Z"
    home.keeper.sandbox.show()
    assert take(home.keeper, THIRD, 5) == ACCEPTED
    home.keeper.sandbox.clock.night(THIRD, hour=9)
    assert home.keeper("accept", first, "--why", "to see").code == 0
    assert home.keeper("reject", first, "--why", "it was empty").code == 0
    receiver.alerts.clear()
    home.look()
    assert receiver.titles == []


def test_an_alert_about_a_refused_key_recommends_doctor(watched: Make, receiver: Receiver) -> None:
    """If the API refuses the key, the alert recommends `doctor` and says that there is no book."""
    keeper = watched().keeper
    keeper.sandbox.show("authentication-failed")
    assert keeper.run(THIRD).code == 1
    [(_, words)] = receiver.alerts
    assert f"--home {keeper.home} doctor\n" in words
    assert f"{THIRD} has no book yet." in words


def test_a_second_run_during_the_first_sends_no_alert(watched: Make, receiver: Receiver) -> None:
    """A run that fails because a different run is pulling the night sends no alert."""
    keeper = watched().keeper
    with hold_pull_lock(keeper.layout, "taking the night", keeper.nightbook.now()):
        assert keeper.run(THIRD).code == 1
    assert receiver.alerts == []


def test_the_command_for_a_full_disk_is_prune(tmp_path: Path) -> None:
    """The command for a full disk is `prune`, even if a library reports it with its own error."""
    home = tmp_path
    assert helping_command(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), home) == "prune"
    assert helping_command(RuntimeError(f"IO Error: {os.strerror(errno.ENOSPC)}"), home) == "prune"


def test_accepting_a_held_night_sends_the_heartbeat(watched: Make, receiver: Receiver) -> None:
    """If a person accepts a held night, the next check sends the heartbeat."""
    home = watched()
    home.third("portfolios-empty")
    home.keeper.sandbox.clock.night(THIRD, hour=9)
    assert home.keeper("accept", f"{THIRD:%Y%m%d}T021500Z", "--why", "sold").code == 0
    home.look()
    assert receiver.fetched == ["/alive"]


def test_a_rejected_book_sends_one_alert(watched: Make, receiver: Receiver) -> None:
    """If an accepted book is rejected, one alert lists the reason and the files made from it."""
    home = watched()
    home.third()
    home.keeper.sandbox.clock.night(THIRD, hour=9)
    assert home.keeper("export", "--as-of", str(THIRD)).code == 0
    taken = f"{THIRD:%Y%m%d}T021500Z"
    assert home.keeper("reject", taken, "--why", "another company's book").code == 0
    home.look()
    home.look()
    [(title, words)] = [one for one in receiver.alerts if "was rejected" in one[0]]
    assert title == f"nightbook: the book of {THIRD} was rejected"
    assert "another company's book" in words
    assert f"exports/positions-{THIRD}.xlsx" in words


def test_a_gap_sends_one_alert(watched: Make, receiver: Receiver) -> None:
    """A scheduled date without a night causes exactly one alert, after the date has passed."""
    home = watched()
    home.night(FOURTH)
    home.look()
    assert receiver.titles == [f"{THIRD} was not read"]
    home.night(FIFTH)
    assert receiver.titles == []


def test_a_date_without_a_scheduled_night_is_not_a_gap(watched: Make, receiver: Receiver) -> None:
    """A weekday without a scheduled night is not reported as a gap."""
    home = watched()
    left_out = (THIRD.weekday() + 1) % 7
    days = ",".join(str(day) for day in range(7) if day != left_out)
    home.keeper.more["NIGHTBOOK_SCHEDULE"] = f"15 2 * * {days}"
    home.night(FOURTH)
    assert receiver.titles == []


def test_an_unpublished_book_sends_one_alert(
    watched: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If publishing fails, `status` shows the previous book and reports the accepted one.

    An hour later, one alert is sent. Its command publishes the accepted book.
    """

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    home = watched()
    home.keeper.sandbox.show()
    with monkeypatch.context() as patched:
        patched.setattr("assets.publishing.publish.publish_version", full)
        with pytest.raises(OSError, match="No space"):
            take(home.keeper, THIRD)
    title = f"the night {THIRD} is accepted but not in the warehouse"
    home.keeper.report()
    said = home.keeper("status")
    assert said.code == 1
    assert f"book        {SECOND}, " in said.out
    assert "2 nights in total, 1 book not published" in said.out
    assert f"problems    {title}\n" in said.out
    home.look()
    assert receiver.titles == []
    home.keeper.sandbox.clock.night(THIRD, hour=4)
    home.look()
    home.look()
    [(_, words)] = receiver.alerts
    assert f"--home {home.keeper.home} rebuild\n" in words
    assert home.keeper("rebuild").code == 0
    home.keeper.report()
    said = home.keeper("status")
    assert (said.code, f"book        {THIRD}, " in said.out) == (0, True)


def test_nights_missing_from_landing_send_one_alert(watched: Make, receiver: Receiver) -> None:
    """If nights of the lake or warehouse are missing from the landing folder, one alert says so."""
    home = watched()
    home.keeper.sandbox.clock.night(SECOND, hour=9)
    shutil.rmtree(next(home.keeper.layout.landing.glob(f"{SECOND}/*")))
    home.look()
    assert receiver.titles == [
        f"the night {SECOND:%Y%m%d}T021500Z is missing from the landing folder"
    ]
    shutil.rmtree(home.keeper.layout.landing)
    home.look()
    home.look()
    [(title, words)] = receiver.alerts
    assert title.startswith("nightbook: 2 nights (")
    assert "restore them from a backup" in words
    said = home.keeper("status")
    assert said.code == 1
    assert "last night  the landing folder is empty\n" in said.out


def test_a_check_of_the_nights_reads_only_small_files(watched: Make) -> None:
    """Checking the nights reads only names and small files, because it runs all day."""
    keeper = watched().keeper
    keeper.sandbox.clock.night(SECOND, hour=9)
    large = [*keeper.layout.landing.glob("*/*/*.zst"), keeper.layout.database.resolve()]
    assert len(large) > 10
    for path in large:
        path.chmod(0o640)
        path.write_bytes(b"")
    known = snapshots.landed_snapshots(keeper.layout)
    assert list(night_alerts(keeper.nightbook, known, SECOND, timedelta())) == []


@pytest.mark.torture
def test_a_stale_venue_sends_one_alert(watched: Make, receiver: Receiver) -> None:
    """A venue that is down for two nights causes one alert. A later failure causes a new one."""
    home = watched()
    down = "not-found-404,path=/venues/meridian/*"
    assert home.night(THIRD, down) == ACCEPTED
    [(title, words)] = receiver.alerts
    assert title == "nightbook: venue meridian could not be read"
    assert f"are from {SECOND}" in words
    assert receiver.fetched == ["/alive"]
    receiver.alerts.clear()
    assert home.night(FOURTH, down) == ACCEPTED
    assert receiver.titles == []
    home.night(FIFTH)
    assert receiver.titles == []
    home.night(FIFTH + timedelta(days=1), down)
    assert receiver.titles == ["venue meridian could not be read"]


def test_three_repeated_problems_send_one_alert_each(watched: Make, receiver: Receiver) -> None:
    """Two nights with the same three problems cause one alert for each problem.

    The problems are a venue with empty lists and status 200, whose instruments are kept, an
    undocumented field, and a clock that is wrong by a number of milliseconds.
    """
    home = watched()
    troubles = ("venue-instruments-empty,venue=meridian", "unknown-field")
    [(before,)] = home.keeper.ask("select count(*) from instruments where venue_id = 'meridian'")
    assert home.night(THIRD, *troubles, skew_ms=120_000) == ACCEPTED
    told = {title.removeprefix("nightbook: "): words for title, words in receiver.alerts}
    assert len(told) == len(receiver.alerts) == 3
    emptied = told["venue meridian lists no instruments"]
    assert f"Its {before} instruments are from {SECOND}" in emptied
    assert "are empty, without an error" in emptied
    finding = "select words from findings where kind = 'instruments_stale'"
    [(said,)] = home.keeper.ask(finding)
    assert said.endswith(f"without an error. The {before} instruments of {SECOND} are shown.")
    assert "ms behind the API's clock" in told["this machine's clock is wrong"]
    [drift] = [words for title, words in told.items() if "that are not as documented" in title]
    assert "unknown field: " in drift
    receiver.alerts.clear()
    assert home.night(FOURTH, *troubles, skew_ms=120_000) == ACCEPTED
    assert receiver.titles == []


def test_a_failed_check_sends_one_alert(
    watched: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failed checks that only warn do not stop publishing, and each causes one alert."""
    monkeypatch.setattr("warehouse.sql.checks.CheckResult.stops", property(lambda _: False))
    monkeypatch.setattr(
        "warehouse.sql.checks._key_query",
        lambda _: "select venue_id from venues where trading_status is not null",
    )
    home = watched()
    home.night(THIRD)
    home.look()
    found = receiver.titles
    assert len(found) == len(set(found)) == 8
    assert "check venues_key failed" in found


def test_the_second_channel_sends_the_alert_if_the_first_fails(
    watched: Make, receiver: Receiver
) -> None:
    """If the first channel fails, the second sends the alert, which names the failed channel."""
    home = watched("json://127.0.0.1:9/canary-token", receiver.channel)
    home.third("portfolios-empty")
    [(_, words)] = receiver.alerts
    assert "These channels failed: channel 1 (json)." in words
    assert home.log == ["channel 1 (json) in NIGHTBOOK_ALERTS did not accept a message"]
    assert "canary" not in words + str(home.log)


def test_an_unsent_alert_is_sent_once_a_channel_works(watched: Make, receiver: Receiver) -> None:
    """If no channel accepts an alert, it is sent once, as soon as a channel works."""
    home = watched()
    receiver.status = 500
    home.third("portfolios-empty")
    assert f"not sent yet, because no channel accepted it: the night of {THIRD} is held" in home.log
    receiver.status = 200
    home.look()
    home.look()
    assert receiver.titles == [f"the night of {THIRD} is held"]


@pytest.mark.torture
@pytest.mark.parametrize(("days", "is_told"), [(6, True), (7, False)])
def test_an_unsent_failure_is_dropped_after_a_week(
    watched: Make, receiver: Receiver, days: int, *, is_told: bool
) -> None:
    """A failure that no channel accepts for a week is dropped, and the log says so once."""
    home = watched()
    home.keeper.sandbox.clock.night(SECOND, hour=9)
    receiver.status = 500
    assert not send_alerts(home.keeper.nightbook, [FAILURE]).sent
    receiver.status = 200
    home.keeper.sandbox.clock.night(SECOND + timedelta(days=days), hour=9)
    home.look()
    assert ("a run failed" in receiver.titles) is is_told
    dropped = "dropped, because no channel accepted it for a week: a run failed"
    assert (dropped in home.log) is not is_told
    home.look()
    assert home.log.count(dropped) == (not is_told)
    assert receiver.titles == []


def test_the_next_check_sends_the_alert_of_a_killed_process(
    watched: Make, receiver: Receiver
) -> None:
    """If a process dies before or while it sends an alert, the next check sends the alert."""
    home = watched()

    def dies(*_: str) -> bool:
        raise KeyboardInterrupt

    home.keeper.sandbox.clock.night(SECOND, hour=9)
    store_events(home.keeper.nightbook, [replace(FAILURE, cause="failed:1")])
    with pytest.raises(KeyboardInterrupt):
        send_alerts(home.keeper.nightbook, [FAILURE], dies)
    home.look()
    home.look()
    assert receiver.titles == ["a run failed"] * 2


@pytest.mark.parametrize("content", ["", "[{}]", "{}", '[{"since": "today"}]', "[1]"])
def test_a_damaged_file_of_unsent_alerts_stops_no_alert(
    watched: Make, receiver: Receiver, content: str
) -> None:
    """If the file of unsent alerts is damaged, new alerts are sent anyway."""
    home = watched()
    folder = home.keeper.home / "alerts"
    folder.mkdir(exist_ok=True)
    (folder / "unsent.json").write_text(content, encoding="utf-8")
    assert send_alerts(home.keeper.nightbook, [FAILURE]).sent == (FAILURE,)
    assert receiver.titles == ["a run failed"]
    assert not (folder / "unsent.json").exists()


def test_alerts_and_heartbeats_send_the_fingerprint(watched: Make, receiver: Receiver) -> None:
    """The heartbeat's body and each alert have the fingerprint, which `verify` accepts later."""
    home = watched()
    assert home.third() == ACCEPTED
    [text] = receiver.beats
    day, snapshot_id, fingerprint = text.split()
    assert (day, snapshot_id) == (str(THIRD), f"{THIRD:%Y%m%d}T021500Z")
    home.night(FOURTH, "portfolios-empty")
    [(_, words)] = receiver.alerts
    newest = newest_fingerprint(home.keeper.layout)
    assert words.endswith(f"\n\nFingerprint of all nights so far: {newest}")
    said = home.keeper("verify", "--fingerprint", fingerprint.upper())
    assert said.code == 0
    assert "covers 3 nights (the newest is" in said.out
    assert "1 later night came after it" in said.out
    (home.keeper.layout.landing / str(SECOND) / f"{SECOND:%Y%m%d}T021500Z/decision.json").unlink()
    said = home.keeper("verify", "--fingerprint", fingerprint)
    assert said.code == 1
    assert f"(night {SECOND:%Y%m%d}T021500Z): missing; it is not as it was" in said.err


@pytest.mark.parametrize("is_refused", [True, False])
def test_a_heartbeat_without_post_is_a_get_request(receiver: Receiver, *, is_refused: bool) -> None:
    """A monitor that refuses POST gets a GET request, and a URL may contain it."""
    url = f"http://127.0.0.1:{receiver.port}/alive"
    receiver.refuses_post = is_refused
    assert request_heartbeat(url if is_refused else url + "?msg={fingerprint}", "day id abc")
    assert receiver.fetched == (["/alive"] if is_refused else ["/alive?msg=abc"])


@pytest.mark.torture
def test_a_failed_heartbeat_is_repeated_until_it_succeeds(
    watched: Make, receiver: Receiver
) -> None:
    """A heartbeat that fails is repeated at the next check, until it succeeds."""
    home = watched()
    receiver.status = 503
    home.third()
    assert any("NIGHTBOOK_HEARTBEAT" in line for line in home.log)
    receiver.status = 200
    home.look()
    home.look()
    assert receiver.fetched == ["/alive"] * 3  # a POST and a GET that failed, then a POST
    assert len(receiver.beats) == 2


def test_rebuilding_an_old_book_sends_no_heartbeat(watched: Make, receiver: Receiver) -> None:
    """Rebuilding a book long after its night sends no heartbeat."""
    home = watched()
    home.keeper.sandbox.clock.night(LATER, hour=9)
    assert home.keeper("rebuild").code == 0
    home.look()
    assert receiver.fetched == []


def test_a_home_that_cannot_be_checked_sends_one_alert(watched: Make, receiver: Receiver) -> None:
    """If a damaged decision makes it impossible to check the home, one alert says so."""
    home = watched()
    home.third()
    [decision] = home.keeper.layout.landing.glob(f"{THIRD}/*/decision.json")
    decision.write_text("{}", encoding="utf-8")
    home.look()
    home.look()
    assert receiver.titles == ["nightbook cannot check this home for problems"]


def test_a_night_held_before_channels_exist_still_sends_an_alert(
    watched: Make, receiver: Receiver
) -> None:
    """A night that was held before channels were configured causes an alert once they are."""
    home = watched(" ")
    home.third("portfolios-empty")
    assert home.log == []
    home.keeper.more["NIGHTBOOK_ALERTS"] = receiver.channel
    home.look()
    assert receiver.titles == [f"the night of {THIRD} is held"]


def test_the_address_of_a_channel_is_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    """A channel that is invalid or does not respond is named only by its number and scheme."""
    alert = Alert(cause="a", title="title", words="words", see="here", command="ls")
    with caplog.at_level(logging.DEBUG, logger="apprise"):
        told = deliver(("nonsense://canary-1", "slack://canary-2", "json://127.0.0.1:9/c"), [alert])
    assert told.dead == ("channel 1 (nonsense)", "channel 2 (slack)", "channel 3 (json)")
    assert told.unsent == (alert,)
    assert "canary" not in caplog.text + repr(told)


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("<!channel> @everyone", "(!channel) (at)everyone"),
        ("a\x1b[2J\u202eb\r\nc", "a [2J b \nc"),
        ("x" * 5000, "x" * 1500 + " ... (3,500 more characters: see status)"),
        ("word " * 400, "word " * 299 + "word ... (501 more characters: see status)"),
    ],
)
def test_text_from_the_api_cannot_mention_users(words: str, shown: str) -> None:
    """Text from the API cannot mention users, move the cursor or flood a message."""
    assert plain_text(words) == shown


def test_metrics_are_written_for_the_collector(watched: Make) -> None:
    """The metrics file of a night contains counts and times with their types, and has mode 0640."""
    home = watched()
    home.night(THIRD, "not-found-404,path=/venues/meridian/*")
    path = home.keeper.home / "metrics" / "nightbook.prom"
    lines = path.read_text(encoding="utf-8").splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert values["nightbook_stale_venues"] == "1"
    assert values["nightbook_snapshots_accepted"] == "3"
    assert values["nightbook_gaps"] == "0"
    [(count,)] = home.keeper.ask("select count(*) from portfolios")
    assert values['nightbook_records{what="portfolio"}'] == str(count)
    taken = float(values["nightbook_book_timestamp_seconds"])
    assert taken == home.keeper.sandbox.clock().timestamp()
    assert float(values["nightbook_next_night_timestamp_seconds"]) - taken == 24 * 3600
    for name in values:
        plain = name.partition("{")[0]
        assert f"# TYPE {plain} gauge" in lines
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [one.name for one in path.parent.iterdir()] == ["nightbook.prom"]


def test_a_metrics_write_error_does_not_stop_the_heartbeat(
    watched: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the metrics cannot be written, the log says so and the heartbeat is sent anyway."""

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    home = watched()
    home.keeper.sandbox.show()
    take(home.keeper, THIRD)
    monkeypatch.setattr("assets.monitoring.metrics.write", full)
    look(home.keeper.nightbook, home.log.append)
    assert receiver.fetched == ["/alive"]
    assert any("No space left" in line for line in home.log)
