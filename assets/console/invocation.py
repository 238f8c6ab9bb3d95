"""The commands that are printed for a person to type, so that they find the same home."""

import os
import shlex
import shutil
import sys
from pathlib import Path

from pipelines import settings
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

# What the next command finds, where `--home` took its place for this one.
_overridden: list[str | None] = []


def override_home(home: str) -> None:
    """Let `--home` take the place of the setting, for this process and those it starts."""
    _overridden.append(os.environ.get(HOME))
    os.environ[HOME] = home


def full_command(layout: Layout, *arguments: str) -> str:
    """Return a command for this home that works from any folder."""
    beside = Path(sys.executable).with_name("nightbook")
    program = str(beside) if beside.exists() else "nightbook"
    return shlex.join([program, "--home", str(layout.home), *arguments])


def command_for(layout: Layout) -> str:
    """Return the start of a command for this home, as a person types it in this folder.

    Raises `SettingsWrong`.
    """
    # Only the usual home goes without saying, and only where no setting leads to another one.
    is_usual = {layout.home, _default_home()} == {Path("data").absolute()}
    return program() if is_usual else f"{program()} --home {shlex.quote(str(layout.home))}"


def program() -> str:
    """Return how this program was called, without a home."""
    called = Path(sys.argv[0])
    if called.name != "nightbook":
        return shlex.join([sys.executable, "-m", "assets.cli"])
    if shutil.which(called.name) == str(called.absolute()):
        return called.name
    try:
        return shlex.quote(str(called.absolute().relative_to(Path.cwd())))
    except ValueError:
        return shlex.quote(str(called))


def _default_home() -> Path:
    """Return the home that a command typed here without `--home` finds."""
    variables = dict(os.environ)
    if _overridden:
        variables.pop(HOME, None)
        variables |= {} if _overridden[0] is None else {HOME: _overridden[0]}
    return settings.read(settings.environment(Path.cwd(), variables), api=False).home
