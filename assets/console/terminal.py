"""How commands speak: a bar that moves in a terminal, plain lines in a log, and what to type."""

import shlex
import shutil
import sys
from pathlib import Path
from typing import Self

from assets.console.own_errors import count_of
from assets.nightbook import INFO, STARTED, TOLD, default_home
from warehouse.progress import Progress, Say
from warehouse.query.printable import printable_lines
from warehouse.storage.layout import Layout

__all__ = ["TerminalProgress", "command_for", "count_of", "is_terminal", "program", "width"]

CLEAR = "\r\x1b[K"
BAR = 24
WIDEST = 100


class TerminalProgress:
    """Says lines of progress; in a terminal the last one may be a bar, which the next replaces.

    Used with `with`, so that no bar is left standing before whatever is said next.
    """

    def __init__(self) -> None:
        self._is_terminal = is_terminal()
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._wipe()

    @property
    def watch(self) -> Say | None:
        """What is to be told how far work is: a bar in a terminal, nothing in a log."""
        return self._bar if self._is_terminal else None

    def __call__(
        self, words: str, *, event: str = TOLD, level: str = INFO, snapshot: str = ""
    ) -> None:
        """One line, indented under what is being done."""
        del level, snapshot
        self._wipe()
        print(f"{'' if event == STARTED else '  '}{printable_lines(words)}", flush=True)

    def _bar(self, progress: Progress) -> None:
        full = BAR * progress.done // max(progress.known, 1)
        words = f"[{'#' * full}{'.' * (BAR - full)}] {progress.words}"
        self._is_drawn = True
        print(f"{CLEAR}  {words[: width() - 3]}", end="", flush=True)

    def _wipe(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            print(CLEAR, end="", flush=True)


def is_terminal() -> bool:
    """Whether a person reads along."""
    return sys.stdout.isatty()


def width() -> int:
    """How many columns to write: those of the terminal, within reason."""
    return max(40, min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST))


def command_for(layout: Layout) -> str:
    """The command for this home, as a person here can type it; raises `SettingsWrong`.

    Only the usual home goes without saying, where nothing here leads to another.
    """
    here = {layout.home, default_home()} == {Path("data").absolute()}
    return program() if here else f"{program()} --home {shlex.quote(str(layout.home))}"


def program() -> str:
    """The command without a home, where it is to be for another one."""
    called = Path(sys.argv[0])
    if called.name != "nightbook":
        return shlex.join([sys.executable, "-m", "assets.cli"])
    return shlex.quote(_near(called))


def _near(program: Path) -> str:
    if shutil.which(program.name) == str(program.absolute()):
        return program.name
    try:
        return str(program.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(program)
