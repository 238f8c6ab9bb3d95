"""Tests of runs without Dagster's database: the night is published, and recorded later."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.graph.warehouse import ACCEPTED, WAREHOUSE
from assets.runs import dead_runs
from assets.runs.instance import open_instance
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import THIRD, Keeper, amounts_of
from warehouse.storage.layout import Layout

AWAY = "Dagster's database cannot be reached"
NEXT = THIRD + timedelta(days=1)
Make = Callable[..., Watched]


def broken(keeper: Keeper) -> Path:
    """Damage the database of Dagster's runs, and return its path."""
    runs = keeper.layout.dagster / "history" / "runs.db"
    runs.parent.mkdir(parents=True, exist_ok=True)
    runs.write_bytes(b"no database " * 1000)
    return runs


@pytest.mark.torture
def test_a_night_succeeds_without_the_database_of_dagster(
    watched: Make, receiver: Receiver
) -> None:
    """Without Dagster's database, the book is complete, and the next run records the night.

    An alert reports the unreachable database.
    """
    keeper = watched().keeper
    runs = broken(keeper)
    said = keeper.run(THIRD)
    assert (said.code, said.err) == (0, "")
    assert "so this night is not recorded" in said.out
    rows = keeper.ask(
        "select portfolio_id, asset_id, venue_id, account_name, bucket, state, amount_text "
        f"from history.balances where snapshot_date = '{THIRD}'"
    )
    assert sorted(rows) == amounts_of(THIRD)
    assert AWAY in receiver.titles
    runs.unlink()
    assert keeper.run(NEXT).code == 0
    with open_instance(keeper.layout) as instance:
        days = instance.get_materialized_partitions(WAREHOUSE)
        check = dg.AssetCheckKey(WAREHOUSE, ACCEPTED)
        told = instance.event_log_storage.get_asset_check_execution_history(check, 10)
    assert days == {str(THIRD), str(NEXT)}
    assert {one.run_id for one in told} >= {""}  # Events that are recorded later have no run.
    assert not (keeper.home / "unrecorded.json").exists()


@pytest.mark.torture
def test_a_night_is_published_if_the_database_fails_midway(
    watched: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the database fails between two steps, the night is published and the lock is free."""
    keeper = watched().keeper
    real = dg.DagsterInstance.handle_new_event
    lost = type("OperationalError", (Exception,), {"__module__": "sqlalchemy.exc"})

    def handle(instance: dg.DagsterInstance, event: dg.EventLogEntry, **more: Any) -> object:
        step = event.step_key or ""
        if not instance.is_ephemeral and step.startswith("flatten"):
            raise lost("server closed the connection unexpectedly")
        return real(instance, event, **more)

    monkeypatch.setattr(dg.DagsterInstance, "handle_new_event", handle)
    said = keeper.run(THIRD)
    assert (said.code, said.err) == (0, "")
    assert "so this night is not recorded" in said.out
    assert keeper.ask("select max(snapshot_date) from history.balances") == [(THIRD,)]
    assert AWAY in receiver.titles


def test_a_daemon_without_its_database_exits_with_1(
    watched: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capsys: object
) -> None:
    """If a daemon cannot reach the database, it exits with 1, so that its supervisor retries.

    It starts no command, and sends only one alert.
    """
    del capsys
    keeper = watched().keeper
    broken(keeper)
    for name, value in keeper.variables.items():
        monkeypatch.setenv(name, value)
    assert dead_runs.main(["true"]) == 1
    assert AWAY in receiver.titles
    assert dead_runs.main(["true"]) == 1
    assert AWAY not in receiver.titles


def test_sqlite_logs_exist_while_the_instance_is_open(tmp_path: Path) -> None:
    """Each SQLite log exists while the instance is open, so it is merged only once, at the end."""
    layout = Layout(tmp_path)
    with open_instance(layout) as instance:
        for _ in range(3):
            instance.get_runs()
            instance.get_asset_keys()
            instance.all_instigator_state()
        logs = {path.name for path in layout.dagster.rglob("*.db-wal")}
    assert logs == {"runs.db-wal", "index.db-wal", "schedules.db-wal"}
    assert not [*layout.dagster.rglob("*.db-wal")]
