"""Tests of alerts from the view `ops.attention`, also for files without the view."""

import re
import shlex
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assets.monitoring.conditions import find_alerts
from assets.nightbook import Nightbook
from tests.assets.console.test_invocation import understood
from tests.support.books import night, published
from tests.support.operator import Watched, take
from tests.support.operator_home import SECOND, THIRD
from tests.warehouse.sql.test_catalog_attention import problems, troubled
from warehouse.query.read import run
from warehouse.storage.layout import Layout

LISTS = (("v1", "spot", 100), ("v1", None, 100), ("v2", "spot", 250), ("v3", "future", 300))


def test_each_finding_about_a_round_count_is_in_one_alert(tmp_path: Path) -> None:
    """Alerts and findings report the same lists. An alert's cause contains no finding's text."""
    layout = Layout(tmp_path)
    instruments: list[dict[str, Any]] = [
        {"venue_id": venue, "type": type_, "instrument_id": f"{type_}{number}"}
        for venue, type_, count in LISTS
        for number in range(count)
    ]
    venues = [{"venue_id": venue} for venue in sorted({venue for venue, _, _ in LISTS})]
    more = {"instruments": instruments, "venues": venues}
    published(layout, [night("20261120T021500Z", [], more)], "a")
    query = "select venue_id, words from findings where kind = 'round_count'"
    findings = run(layout.database, query).rows
    morning = datetime(2026, 11, 20, 5, tzinfo=UTC)
    nightbook = Nightbook(lambda: {"NIGHTBOOK_HOME": str(tmp_path)}, lambda: morning)
    alerts = {
        alert.cause: alert for alert in find_alerts(nightbook) if alert.cause.startswith("round:")
    }
    assert sorted(alerts) == ["round:v1:100", "round:v2:250"]
    listed = {cause: alert.words.partition(": ")[0] for cause, alert in alerts.items()}
    assert listed["round:v1:100"] == "Instruments of type spot, Instruments of type unknown"
    counts = Counter((venue, re.findall("[0-9]+", words)[0]) for venue, words in findings)
    assert counts == Counter({("v1", "100"): 2, ("v2", "250"): 1})


def test_every_command_of_the_view_is_valid(tmp_path: Path) -> None:
    """Every command in the view `ops.attention` has valid arguments and options."""
    found = problems(troubled(tmp_path)).values()
    commands = [shlex.split(line["command"]) for line in found]
    assert len(commands) > 5
    for program, *words in commands:
        assert program == "nightbook"
        assert understood(words), words


def test_a_file_without_the_view_sends_the_same_alerts(watched: Callable[..., Watched]) -> None:
    """After an upgrade, the file of the older version has the same alerts until the next night."""
    home = watched()
    home.third("portfolios-empty")
    keeper = home.keeper
    before = find_alerts(keeper.nightbook)
    assert [alert.cause for alert in before] == [f"held:{THIRD:%Y%m%d}T021500Z"]
    file = keeper.layout.database.resolve()
    file.chmod(0o640)
    with duckdb.connect(str(file)) as connection:
        connection.execute("drop view ops.attention")
    assert find_alerts(keeper.nightbook) == before


def test_a_held_night_is_reported_before_it_is_published(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A held night whose publication failed has the same alert as a published one.

    A decision that is not published yet already ends the alert.
    """

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    home = watched()
    keeper = home.keeper
    keeper.sandbox.show("portfolios-empty")
    with monkeypatch.context() as patched:
        patched.setattr("assets.publishing.publish.publish_version", full)
        with pytest.raises(OSError, match="No space"):
            take(keeper, THIRD)
    held = f"held:{THIRD:%Y%m%d}T021500Z"
    [alert] = find_alerts(keeper.nightbook)
    assert (alert.cause, alert.title) == (held, f"the night of {THIRD} is held")
    assert "the list of portfolios is empty" in alert.words
    assert f"book        {SECOND}, " in keeper("status").out
    assert keeper("rebuild").code == 0
    assert [alert.cause for alert in find_alerts(keeper.nightbook)] == [held]
    with monkeypatch.context() as patched:
        patched.setattr("assets.publishing.publish.publish_version", full)
        keeper("reject", held.partition(":")[2])
    assert find_alerts(keeper.nightbook) == []
