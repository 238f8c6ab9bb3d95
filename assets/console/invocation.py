"""The invocation of nightbook: program name, home, user and version."""

import importlib
import os
import pwd
import re
import shlex
import shutil
import sys
from pathlib import Path

from assets.console.command_names import COMMANDS
from pipelines import settings
from warehouse.storage.home import HOME
from warehouse.storage.layout import Layout

_COMMAND_WITHOUT_HOME = re.compile(
    rf"(?<![\w./-])nightbook (?=(?:--debug )?(?:{'|'.join(COMMANDS)})\b)"
)
_COMMAND_WITH_HOME = re.compile(r"(?<![\w./-])nightbook (?=--home )")
# The value of NIGHTBOOK_HOME before the option `--home` replaced it. The next command that a person
# types will use the earlier value.
_overridden: list[str | None] = []


def override_home(home: str) -> None:
    """Replace NIGHTBOOK_HOME with the value of `--home`, for this process and its children."""
    _overridden.append(os.environ.get(HOME))
    os.environ[HOME] = home


def full_command(layout: Layout, *arguments: str) -> str:
    """Return a command for this home that works in any folder.

    If the current folder has a `.env`, the command first changes to this folder.
    """
    beside = Path(sys.executable).with_name("nightbook")
    program = str(beside) if beside.exists() else "nightbook"
    command = shlex.join([program, "--home", str(layout.home), *arguments])
    is_configured_here = (Path.cwd() / ".env").is_file()
    return f"cd {shlex.quote(str(Path.cwd()))} && {command}" if is_configured_here else command


def command_for(layout: Layout) -> str:
    """Return the start of a command for this home, such as `nightbook --home DIR`.

    Raises `InvalidSettings`.
    """
    # Omit `--home` only if the home is ./data and no setting specifies a different home.
    is_usual = {layout.home, _default_home()} == {Path("data").absolute()}
    return program() if is_usual else f"{program()} --home {shlex.quote(str(layout.home))}"


def spell_commands(text: str, start: str) -> str:
    """Replace `nightbook` in each `nightbook COMMAND` of a message with `start`.

    Most messages come from packages that know neither the program name nor the home. A command
    that already contains `--home` is not given another one.
    """
    text = _COMMAND_WITH_HOME.sub(lambda _: f"{program()} ", text)
    return _COMMAND_WITHOUT_HOME.sub(lambda _: f"{start} ", text)


def spell_for(layout: Layout, text: str) -> str:
    """Adapt the commands in a message so that they work in the current folder."""
    return spell_commands(text, command_for(layout))


def spell_for_any_folder(layout: Layout, text: str) -> str:
    """Adapt the commands in a message so that they work in any folder, as in an alert or log."""
    return spell_commands(text, full_command(layout))


def program() -> str:
    """Return the command that runs this program, without the option `--home`."""
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
    """Return the home that a command uses if it is typed in this folder without `--home`."""
    variables = dict(os.environ)
    if _overridden:
        variables.pop(HOME, None)
        variables |= {} if _overridden[0] is None else {HOME: _overridden[0]}
    return settings.read(settings.environment(Path.cwd(), variables), api=False).home


def user_name() -> str:
    """Return the user name to store with decisions and signatures.

    This is the process owner, so environment variables such as USER cannot change it.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def program_version() -> str:
    """Return the installed version of nightbook."""
    # Import this module only here, so that queries do not have to read package metadata.
    return str(importlib.import_module("importlib.metadata").version("nightbook"))
