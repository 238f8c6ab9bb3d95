"""Tests of the crontab lines that the handbook and the commands print, run as cron runs them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assets.commands.install import crontab_line
from pipelines.landing.snapshots import landed_snapshots
from tests.support.created_home import created_home
from tests.support.operator_home import Keeper, Sandbox, sandbox
from tests.support.shipped_units import Now
from warehouse.storage.layout import Layout

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "assets" / "OPERATING.md").read_text(encoding="utf-8")
LINES = re.findall(r"^[\d*,/-]+(?: [\d*,/-]+){4} +(.+)$", PAGE, re.MULTILINE)


@pytest.fixture
def now() -> Iterator[Sandbox]:
    """Start a sandbox with the clock of this machine."""
    with sandbox() as shown:
        shown.clock = Now()
        shown.show()
        yield shown


def folder_of(keeper: Keeper, folder: Path) -> Path:
    """Create a folder as the handbook describes it: with a `.env`, and with a home in `data`."""
    folder.mkdir(parents=True)
    lines = [f"{name}={value}\n" for name, value in keeper.variables.items() if "HOME" not in name]
    (folder / ".env").write_text("".join(lines), encoding="utf-8")
    created_home(folder / "data")
    return folder


def run_as_cron(command: str, user: Path) -> None:
    """Run a command in the environment of cron: nearly no variables, and the user's directory."""
    environment = {"HOME": str(user), "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin", "LOGNAME": "x"}
    ran = subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=user,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}{ran.stderr}"


def installed(folder: Path) -> None:
    """Put the program at the path that the handbook names."""
    (folder / ".venv").symlink_to(sys.prefix)


def test_the_crontab_line_of_the_handbook_works(now: Sandbox, tmp_path: Path) -> None:
    """The lines read and prune a night in the home of the folder that they name."""
    lines = [line for line in LINES if line.startswith("cd /srv/nightbook ")]
    assert len(lines) == 2
    folder = folder_of(Keeper(tmp_path, now), tmp_path / "srv" / "nightbook")
    installed(folder)
    for line in lines:
        run_as_cron(line.replace("/srv", str(tmp_path / "srv")), tmp_path)
    assert len(landed_snapshots(Layout(folder / "data"))) == 1


@pytest.mark.torture
def test_the_crontab_lines_of_several_organisations_work(now: Sandbox, tmp_path: Path) -> None:
    """The lines read a night into each home, and combine the books."""
    (tmp_path / "srv" / "nightbook").mkdir(parents=True)
    installed(tmp_path / "srv" / "nightbook")
    for name in ("alpha", "beta"):
        folder_of(Keeper(tmp_path, now), tmp_path / "srv" / name)
    for line in (line for line in LINES if not line.startswith("cd /srv/nightbook ")):
        run_as_cron(line.replace("/srv", str(tmp_path / "srv")), tmp_path)
    assert (tmp_path / "srv" / "group.duckdb").is_file()


def test_the_printed_crontab_line_works(
    now: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of `install --only-home` works for a folder whose name has a space and a percent."""
    folder = folder_of(Keeper(tmp_path, now), tmp_path / "50 % of it")
    monkeypatch.chdir(folder)
    keeper = Keeper(created_home(tmp_path / "the home"), now)
    line = crontab_line(keeper.nightbook)
    assert line in keeper("install", "--only-home").out
    schedule, command = line[: len("15 2,4,6 * * *")], line[len("15 2,4,6 * * * ") :]
    assert schedule == "15 2,4,6 * * *"
    assert not re.search(r"(?<!\\)%", command)
    run_as_cron(command.replace(r"\%", "%"), tmp_path)
    assert len(landed_snapshots(keeper.layout)) == 1


def test_doctor_prints_a_command_that_cron_can_start(
    now: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command for cron in `doctor` names the folder and the full path of the program."""
    folder = folder_of(Keeper(tmp_path, now), tmp_path / "folder")
    monkeypatch.chdir(folder)
    [line] = [
        one for one in Keeper(folder / "data", now)("doctor").out.splitlines() if "cron" in one
    ]
    command = line.partition("let cron type: ")[2]
    assert command.startswith(f"cd {folder} && /")
    assert command.endswith(" run --unless-taken")
