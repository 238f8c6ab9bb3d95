"""A test of Dagster's record: a daemon that cannot reach its database ends and says so."""

from collections.abc import Callable

import pytest

from assets.runs import dead_runs
from tests.support.operator import Receiver, Watched


def test_a_daemon_without_its_database_exits_with_1(
    watched: Callable[..., Watched],
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """If a daemon cannot reach the database, it exits with 1, so that its supervisor retries.

    It starts no command, and sends only one alert.
    """
    keeper = watched().keeper
    runs = keeper.layout.dagster / "history" / "runs.db"
    runs.parent.mkdir(parents=True)
    runs.write_bytes(b"no database " * 1000)
    for name, value in keeper.variables.items():
        monkeypatch.setenv(name, value)
    for titles in (["Dagster's database cannot be reached"], []):
        assert dead_runs.main(["true"]) == 1
        assert "nightbook run works without it" in capsys.readouterr().err
        assert [title for title in receiver.titles if "database" in title] == titles
