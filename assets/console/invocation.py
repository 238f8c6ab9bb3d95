"""How nightbook was called: by which user, under which name, in which version."""

import importlib
import os
import pwd
import re
import shlex
import shutil
import sys
from pathlib import Path

from pipelines import settings
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

COMMANDS = (
    *("demo", "run", "doctor", "status", "api", "query", "tables", "trace", "export", "report"),
    *("reconcile", "snapshots", "accept", "reject", "verify", "prove", "shelve", "publish"),
    *("prune", "rebuild", "backup", "restore", "install", "sandbox", "dev"),
)
"""The names of all commands, so that messages are spelled without loading a command."""
_FOR_HOME = re.compile(rf"(?<![\w./-])nightbook (?=(?:--debug )?(?:{'|'.join(COMMANDS)})\b)")
_FOR_ANOTHER = re.compile(r"(?<![\w./-])nightbook (?=--home )")
# What the next command finds, where `--home` took its place for this one.
_overridden: list[str | None] = []


def override_home(home: str) -> None:
    """Let `--home` take the place of the setting, for this process and those it starts."""
    _overridden.append(os.environ.get(HOME))
    os.environ[HOME] = home


def full_command(layout: Layout, *arguments: str, folder: Path | None = None) -> str:
    """Return a command for this home that works from any folder.

    It changes to the folder of the home's `.env` first, because commands read settings there. That
    is `folder`, or this folder if it has such a file.
    """
    beside = Path(sys.executable).with_name("nightbook")
    program = str(beside) if beside.exists() else "nightbook"
    command = shlex.join([program, "--home", str(layout.home), *arguments])
    if folder is None and (Path.cwd() / ".env").is_file():
        folder = Path.cwd()
    return command if folder is None else f"cd {shlex.quote(str(folder))} && {command}"


def command_for(layout: Layout) -> str:
    """Return the start of a command for this home, as a person types it in this folder.

    Raises `InvalidSettings`.
    """
    # Only the usual home goes without saying, and only where no setting leads to another one.
    is_usual = {layout.home, _default_home()} == {Path("data").absolute()}
    return program() if is_usual else f"{program()} --home {shlex.quote(str(layout.home))}"


def spell_commands(text: str, start: str) -> str:
    """Write each `nightbook COMMAND` of a message as it has to be typed, with `start` before it.

    Most messages come from rooms that do not know how the program was called, or for which home. A
    command that names its home keeps that home.
    """
    text = _FOR_ANOTHER.sub(lambda _: f"{program()} ", text)
    return _FOR_HOME.sub(lambda _: f"{start} ", text)


def spell_for(layout: Layout, text: str) -> str:
    """Spell the commands of a message that a person reads in this folder."""
    return spell_commands(text, command_for(layout))


def spell_for_any_folder(layout: Layout, text: str) -> str:
    """Spell the commands of a message that may be read in any folder: alerts, pages, logs."""
    return spell_commands(text, full_command(layout))


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


def user_name() -> str:
    """Return who types, to be stored with what was decided or signed.

    It is the user of this process: no variable of the environment can make it another one.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def program_version() -> str:
    """Return the version of nightbook that runs."""
    # Imported here: a question on the command line starts without reading such metadata.
    return str(importlib.import_module("importlib.metadata").version("nightbook"))
