"""Tests of creating a home: only a person creates one, and everything else refuses to start."""

import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from assets.home.creation import is_home, is_person
from assets.runs.dead_runs import main as start_daemon
from assets.runs.dead_runs import reap
from tests.support.created_home import created_home
from tests.support.dagster_runs import scheduled
from tests.support.operator import Receiver, Watched
from tests.support.operator_home import FIRST, THIRD, Keeper, Sandbox


def nothing(home: Path) -> None:
    """Leave the folder away, as if `NIGHTBOOK_HOME` or the working folder had changed."""


def mount_point(home: Path) -> None:
    """Create the empty folder of a disk that is not mounted."""
    home.mkdir()


def left_over(home: Path) -> None:
    """Create what a daemon or a container may leave in the mount point."""
    for name in ("alerts", "dagster", "metrics", "runs"):
        (home / name).mkdir(parents=True)


def foreign(home: Path) -> None:
    """Create a folder with the files of somebody else."""
    home.mkdir()
    (home / "holiday.jpg").write_bytes(b"no night")


def lost_link(home: Path) -> None:
    """Create a link to a folder on a disk that is not mounted."""
    home.symlink_to(home.parent / "disk" / "home")


def lost_landing(home: Path) -> None:
    """Create a home whose landing folder is a link to a disk that is not mounted."""
    home.mkdir()
    (home / "landing").symlink_to(home.parent / "disk" / "landing")


FOLDERS = (nothing, mount_point, left_over, foreign, lost_link, lost_landing)


def files(folder: Path) -> list[Path]:
    """Return all files and folders below a folder."""
    return sorted(folder.rglob("*"))


@pytest.mark.parametrize("make", FOLDERS, ids=lambda make: make.__name__)
def test_without_a_terminal_a_run_creates_no_home(
    make: Callable[[Path], None], shown: Sandbox, tmp_path: Path
) -> None:
    """A run of cron refuses a folder that is not a home, reads nothing and creates nothing."""
    make(tmp_path / "home")
    before = files(tmp_path)
    keeper = Keeper(tmp_path / "home", shown, is_created_first=False)
    shown.show("500")  # a request would fail the run with another code
    said = keeper.run(FIRST, "--unless-taken")
    shown.show()
    assert said.code == 2
    assert f"{keeper.home} is not a nightbook home: " in said.err
    assert "Nothing was read, and nothing was created" in said.err
    assert "install --only-home" in said.err
    assert files(tmp_path) == before


@pytest.mark.parametrize("make", FOLDERS, ids=lambda make: make.__name__)
def test_the_daemon_creates_no_home(
    make: Callable[[Path], None],
    tmp_path: Path,
    shown: Sandbox,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The daemon does not start in a folder that is not a home, and creates nothing there."""
    make(tmp_path / "home")
    before = files(tmp_path)
    for name, value in Keeper(tmp_path / "home", shown).variables.items():
        monkeypatch.setenv(name, value)
    assert start_daemon(["/no/such/program"]) == 2
    assert "The daemon did not start" in capsys.readouterr().err
    assert files(tmp_path) == before


def test_a_run_in_dagster_refuses_a_disk_that_was_unmounted(
    watched: Callable[..., Watched], receiver: Receiver
) -> None:
    """If the disk is unmounted while the daemon runs, the night fails and no home is created."""
    keeper = watched().keeper
    shutil.rmtree(keeper.home)
    keeper.home.mkdir()
    ran = scheduled(keeper, THIRD, is_created_first=False)
    assert not ran.success
    assert not is_home(keeper.layout)


def test_a_refused_run_sends_an_alert(watched: Callable[..., Watched], receiver: Receiver) -> None:
    """A run that is refused sends an alert, because there is no home that could record it."""
    keeper = watched().keeper
    shutil.rmtree(keeper.home)
    lost = Keeper(keeper.home, keeper.sandbox, keeper.more, is_created_first=False)
    assert lost.run(THIRD).code == 2
    assert receiver.titles == [f"the run of {THIRD} did not start"]
    assert not keeper.home.exists()


def test_a_person_creates_a_home_with_the_first_run(
    shown: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run in a terminal creates the home, and says so. Later runs need no terminal."""
    monkeypatch.setattr("assets.commands.run.is_person", lambda: True)
    keeper = Keeper(tmp_path / "home", shown, is_created_first=False)
    said = keeper.run(FIRST)
    assert said.code == 0, said.err
    assert f"{keeper.home} is a new home." in said.out
    monkeypatch.undo()
    assert keeper.run(FIRST, "--unless-taken").code == 0


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
def test_a_person_has_a_terminal_on_both_sides(
    stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command counts as typed by a person only if both of its streams are a terminal."""
    leader, follower = os.openpty()
    with os.fdopen(leader), os.fdopen(follower) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        monkeypatch.setattr(sys, "stdout", terminal)
        assert is_person()
        closed = io.StringIO()
        closed.close()
        for lost in (None, closed, io.StringIO()):
            monkeypatch.setattr(sys, stream, lost)
            assert not is_person()


def test_install_creates_a_home_for_cron_and_containers(shown: Sandbox, tmp_path: Path) -> None:
    """`install --only-home` creates a home without systemd, and does nothing to a home."""
    keeper = Keeper(tmp_path / "home", shown, is_created_first=False)
    said = keeper("install", "--only-home")
    assert (said.code, said.out.splitlines()[0]) == (0, f"created  {keeper.home}"), said.err
    assert keeper("install", "--only-home").out.startswith(f"exists   {keeper.home}\n")
    assert keeper.run(FIRST).code == 0


def test_install_creates_the_home_of_its_units(
    shown: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The units of `install` start a daemon that finds its home."""
    keeper = Keeper(tmp_path / "home", shown, is_created_first=False)
    monkeypatch.chdir(tmp_path)
    lines = [f"{name}={value}\n" for name, value in keeper.variables.items()]
    (tmp_path / ".env").write_text("".join(lines), encoding="utf-8")
    assert keeper("install", "--into", str(tmp_path / "units")).code == 0
    assert is_home(keeper.layout)
    os.close(reap(keeper.nightbook))
    unit = (tmp_path / "units" / "nightbook-daemon.service").read_text(encoding="utf-8")
    assert f"RequiresMountsFor={keeper.home} {tmp_path}\n" in unit


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_home_belongs_to_the_owner_of_its_folder(tmp_path: Path) -> None:
    """If root creates the home of a service, its files belong to the user of the service."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    created_home(home)
    assert (home / "landing").stat().st_uid == 65534
