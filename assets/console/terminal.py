"""How commands speak: a bar that moves in a terminal, plain lines in a log, and what to type."""

import shutil
import sys
from typing import Self

from assets.nightbook import INFO, STARTED, TOLD
from warehouse.progress import Progress, Say
from warehouse.query.printable import printable_lines

CLEAR = "\r\x1b[K"
BAR = 24
WIDEST = 100


class TerminalProgress:
    """Says lines of progress; in a terminal the last one may be a bar, which the next replaces."""

    # Used with `with`, so that no bar is left standing before whatever is said next.

    def __init__(self) -> None:
        self._is_terminal = is_terminal()
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._wipe()

    @property
    def watch(self) -> Say | None:
        """Return what draws a bar; None in a log."""
        return self._bar if self._is_terminal else None

    def __call__(
        self, message: str, *, event: str = TOLD, level: str = INFO, snapshot: str = ""
    ) -> None:
        """Print one line, indented under what is being done."""
        del level, snapshot
        self._wipe()
        print(f"{'' if event == STARTED else '  '}{printable_lines(message)}", flush=True)

    def _bar(self, progress: Progress) -> None:
        full = BAR * progress.done // max(progress.known, 1)
        line = f"[{'#' * full}{'.' * (BAR - full)}] {progress.words}"
        self._is_drawn = True
        print(f"{CLEAR}  {line[: width() - 3]}", end="", flush=True)

    def _wipe(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            print(CLEAR, end="", flush=True)


def is_terminal() -> bool:
    """Whether a person reads along."""
    return sys.stdout.isatty()


def width() -> int:
    """Return how many columns to write: those of the terminal, between 40 and 100."""
    return max(40, min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST))
