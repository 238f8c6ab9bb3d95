"""The terminal: width, colors, progress, and streams that survive any text."""

import io
import os
import shutil
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Self, TextIO

from assets.nightbook import INFO, STARTED, TOLD, Nightbook, Tell
from warehouse.progress import Progress, Say, silent
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


GREEN, YELLOW, RED = 32, 33, 31
# Of the command that runs.
_chosen = ["auto"]


def choose_color(choice: str) -> None:
    """Let it be as `--color` says, for what this command says from now on."""
    _chosen[:] = [choice]


def wants_color(stream: TextIO) -> bool:
    """Whether a stream wants colours."""
    if _chosen != ["auto"]:
        return _chosen == ["always"]
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, color: int, stream: TextIO | None = None) -> str:
    """Return a text in a colour, where the stream wants it."""
    return f"\x1b[{color}m{text}\x1b[0m" if wants_color(stream or sys.stdout) else text


def mark(*, is_well: bool, stream: TextIO | None = None) -> str:
    """Return the sign before a line that says whether something is well."""
    return paint("✓", GREEN, stream) if is_well else paint("✗", RED, stream)


class SafeStream:
    """A text stream in front of another: once that one fails, what is said is dropped."""

    # `error` is why. A letter that the other cannot show is shown by its number. `spell` is given
    # each text first.

    def __init__(self, out: TextIO | None, spell: Callable[[str], str] = str) -> None:
        self._spell = spell
        # A process may be started with standard output closed.
        self._out: TextIO = out if out is not None else io.StringIO()
        self.error: OSError | ValueError | None = None
        if hasattr(self._out, "reconfigure"):
            self._out.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write a text, where that is still possible."""
        if self.error is None:
            try:
                self._out.write(self._spell(text))
            except (OSError, ValueError) as error:
                self.error = error
        return len(text)

    def flush(self) -> None:
        """Flush what was written, where that is still possible."""
        if self.error is None:
            try:
                self._out.flush()
            except (OSError, ValueError) as error:
                self.error = error
        if self.error is not None:
            self._to_nowhere()

    def _to_nowhere(self) -> None:
        """Let the descriptor lead to nothing."""
        # Python writes once more what was not written when it ends, and would then fail.
        try:
            descriptor = self._out.fileno()
        except (OSError, ValueError, AttributeError):
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, descriptor)
        os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


GLIMPSE = timedelta(seconds=0.1)
EVERY = timedelta(seconds=10)


def progress_reporter(
    nightbook: Nightbook, tell: Tell | None, event: str, snapshot: str = ""
) -> Say:
    """Return what hears how far work is: a bar if somebody watches, else lines of a log."""
    # It is called by one thread at a time: a `Tally` sees to that. A bar moves with each thing that
    # is done, and ten times a second in between; a log has a line every ten seconds.
    if nightbook.watch is not None:
        return _throttle(nightbook, nightbook.watch, GLIMPSE, each=True)
    if tell is None:
        return silent

    def line(progress: Progress) -> None:
        tell(progress.words, event=event, snapshot=snapshot)

    return _throttle(nightbook, line, EVERY, each=False)


def _throttle(
    nightbook: Nightbook, show: Callable[[Progress], None], pause: timedelta, *, each: bool
) -> Say:
    # Paced by the keeper's clock, not by counts: reports come by the thousand in a second or once
    # in a minute. With `each` a change of the count is shown at once, bytes only with the pace.
    last, next_at = (-1, ""), nightbook.now() + pause

    def say(progress: Progress) -> None:
        nonlocal last, next_at
        now, at = nightbook.now(), (progress.done, progress.things)
        if now >= next_at or (each and at != last):
            last, next_at = at, now + pause
            show(progress)

    return say
