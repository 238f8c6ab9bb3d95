"""Tests of the connection to a catalog, and of the errors if it fails."""

import contextlib
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from assets.cli import main
from assets.nightbook import Nightbook
from pipelines.settings import environment
from tests.support.postgres import Postgres

Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(two_nights: Path, tmp_path: Path, iceberg: ModuleType) -> Command:
    """Return a function that runs commands in a home with a shelf and with the lines in `.env`."""
    shutil.copytree(two_nights, tmp_path / "home", symlinks=True)

    def run(word: str, *lines: str) -> tuple[int, str]:
        settings = [f"NIGHTBOOK_HOME={tmp_path}/home", f"NIGHTBOOK_LAKE=file://{tmp_path}/shelf"]
        (tmp_path / ".env").write_text("\n".join([*settings, *lines]))
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            code = main((word,), Nightbook(lambda: environment(tmp_path, {})))
        return code, said.getvalue()

    return run


def test_the_catalog_password_may_be_in_dotenv(command: Command, server: Postgres) -> None:
    """`PGPASSWORD` in `.env` opens the catalog, both for `doctor` and for `shelve`."""
    place = f"NIGHTBOOK_CATALOG=postgresql://127.0.0.1:{server.port}/dagster"
    lines = (place, "NIGHTBOOK_CATALOG_NAMESPACE=settings", "PGUSER=dagster")
    known = (*lines, f"PGPASSWORD={server.password}")
    assert "✓ catalog    postgresql://127.0.0.1" in command("doctor", *known)[1]
    code, said = command("shelve", *known)
    assert (code, "2 nights registered as Iceberg tables" in said) == (0, True)
    assert "tables in settings" in command("doctor", *known)[1]


@pytest.mark.parametrize(
    ("catalog", "why"),
    [
        (
            "postgresql://dagster:canary-pa@127.0.0.1:{port}/dagster",
            "authentication failed for user",
        ),
        ("postgresql://dagster:canary-pa@127.0.0.1:9/dagster", "Connection refused"),
        ("postgresql://dagster:{password}@127.0.0.1:{port}/nobody", '"nobody" does not exist'),
        ("http://127.0.0.1:9", "Connection refused"),
    ],
)
def test_doctor_reports_why_the_catalog_cannot_be_used(
    command: Command, server: Postgres, catalog: str, why: str
) -> None:
    """`doctor` reports why the catalog cannot be used, and the message contains no password."""
    place = catalog.format(port=server.port, password=server.password)
    rest = "PYICEBERG_CATALOG__NIGHTBOOK__"
    tokens = f"{rest}OAUTH2_SERVER_URI=http://127.0.0.1:9/v1/oauth/tokens?by=canary-query"
    credential = f"{rest}CREDENTIAL=canary-key:canary-secret"
    _, said = command("doctor", f"NIGHTBOOK_CATALOG={place}", credential, tokens)
    [line] = [line for line in said.splitlines() if " catalog " in line]
    assert line.startswith("✗ catalog    The Iceberg catalog in NIGHTBOOK_CATALOG cannot be used")
    assert why in line
    assert "canary" not in said
    assert server.password not in said
