"""A test of the shipped PostgreSQL instance file, which stores Dagster's run history."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assets.commands.install import UNITS
from tests.support import environments
from tests.support.operator_home import sandbox
from tests.support.postgres import Postgres, serving
from tests.support.shipped_units import Now, environment, free_port, started, until

DEPLOY = Path(__file__).parents[2] / "assets" / "deploy"
SHOWN = "{ runsOrError { ... on Runs { results { status jobName tags { key value } } } } }"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """Start a private PostgreSQL server, and remove it completely afterwards."""
    with serving() as server:
        yield server


def asked(port: int, question: str) -> Any:
    """Return the response of the UI's GraphQL endpoint, or None if it does not respond."""
    body = json.dumps({"query": question}).encode()
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", body, head)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback, http
            return json.loads(answer.read())["data"]
    except OSError:
        return None


@pytest.mark.torture
def test_postgresql_stores_a_night_and_the_ui_shows_it(postgres: Postgres, tmp_path: Path) -> None:
    """A night from the command line is in PostgreSQL, and the UI of the shipped unit shows it."""
    home, port = tmp_path / "home", free_port()
    shipped = (DEPLOY / "dagster-postgres.yaml").read_text(encoding="utf-8")
    assert "port: 5432\n" in shipped
    (home / "dagster").mkdir(parents=True)
    instance = shipped.replace("port: 5432\n", f"port: {postgres.port}\n")
    (home / "dagster" / "dagster.yaml").write_text(instance, encoding="utf-8")
    more = {
        "DAGSTER_POSTGRES_HOST": "127.0.0.1",
        "DAGSTER_POSTGRES_PASSWORD": postgres.password,
        "PYTHONPATH": str(environments.packages("image")),
    }
    with sandbox() as shown:
        shown.clock = Now()
        shown.show()
        variables = environment(home, shown.origin, more)
        run = [sys.executable, "-m", "assets.cli", "run"]
        said = subprocess.run(run, env=variables, capture_output=True, text=True, check=False)
        assert said.returncode == 0, said.stdout + said.stderr
        with started(UNITS[1], home, variables, tmp_path / "web.log", str(port)):
            found = until("the UI", lambda: asked(port, SHOWN), tmp_path / "web.log")
    [night] = found["runsOrError"]["results"]
    assert (night["jobName"], night["status"]) == ("nightly", "SUCCESS")
    assert json.loads(said.stdout.splitlines()[0])["night"] in str(night["tags"])
    assert not list((home / "dagster").rglob("*.db")), "SQLite was used"
