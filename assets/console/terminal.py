"""The terminal: width, colours, progress, and streams that do not fail."""

import io
import os
import shutil
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Self, TextIO

from assets.nightbook import DEFAULT_EVENT, INFO, STARTED, EventCallback, Nightbook
from warehouse.progress import Progress, ProgressCallback, silent
from warehouse.query.formats import printable_lines

CLEAR_LINE = "\r\x1b[K"
BAR_WIDTH = 24
MAX_WIDTH = 100
BAR_INTERVAL = timedelta(seconds=0.1)
LINE_INTERVAL = timedelta(seconds=10)
GREEN, YELLOW, RED = 32, 33, 31
# The value of the option `--color` for the current command.
_color_choice = ["auto"]


class TerminalProgress:
    """A printer for progress lines and, in a terminal, a bar that the next output replaces."""

    # Use this class in a `with` statement, which removes the last progress bar at the end.

    def __init__(self) -> None:
        self._is_terminal = is_terminal()
        self._is_drawn = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._remove_bar()

    @property
    def watch(self) -> ProgressCallback | None:
        """Return the function that draws the bar, or None if the output is not a terminal."""
        return self._bar if self._is_terminal else None

    def __call__(
        self, message: str, *, event: str = DEFAULT_EVENT, level: str = INFO, snapshot: str = ""
    ) -> None:
        """Print one line, indented unless it starts an operation."""
        del level, snapshot
        self._remove_bar()
        print(f"{'' if event == STARTED else '  '}{printable_lines(message)}", flush=True)

    def _bar(self, progress: Progress) -> None:
        done = BAR_WIDTH * progress.done // max(progress.known, 1)
        line = f"[{'#' * done}{'.' * (BAR_WIDTH - done)}] {progress.words}"
        self._is_drawn = True
        print(f"{CLEAR_LINE}  {line[: width() - 3]}", end="", flush=True)

    def _remove_bar(self) -> None:
        if self._is_drawn:
            self._is_drawn = False
            print(CLEAR_LINE, end="", flush=True)


class SafeStream:
    """A text stream that wraps `out` and never fails. Once `out` has failed, output is dropped.

    `error` is the exception that `out` raised. Characters that `out` cannot encode are written as
    escape sequences. `spell` is applied to each string before it is written.
    """

    def __init__(self, out: TextIO | None, spell: Callable[[str], str] = str) -> None:
        self._spell = spell
        # Python sets standard output to None if it was closed when the process started.
        self._out: TextIO = out if out is not None else io.StringIO()
        self.error: OSError | ValueError | None = None
        if hasattr(self._out, "reconfigure"):
            self._out.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write a string, unless the stream has already failed."""
        if self.error is None:
            try:
                self._out.write(self._spell(text))
            except (OSError, ValueError) as error:
                self.error = error
        return len(text)

    def flush(self) -> None:
        """Flush the output, unless the stream has already failed."""
        if self.error is None:
            try:
                self._out.flush()
            except (OSError, ValueError) as error:
                self.error = error
        if self.error is not None:
            self._redirect_to_null()

    def _redirect_to_null(self) -> None:
        """Redirect the file descriptor to the null device."""
        # Otherwise, Python would try to write the remaining output at exit, which would fail a
        # second time.
        try:
            descriptor = self._out.fileno()
        except (OSError, ValueError, AttributeError):
            return
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, descriptor)
        os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._out, name)


def is_terminal() -> bool:
    """Return whether standard output is a terminal, so that a person may be reading it."""
    return sys.stdout.isatty()


def width() -> int:
    """Return the terminal's width in columns, clamped to between 40 and 100."""
    return max(40, min(shutil.get_terminal_size((MAX_WIDTH, 24)).columns, MAX_WIDTH))


def choose_color(choice: str) -> None:
    """Apply `--color` to all further output of this process."""
    _color_choice[:] = [choice]


def wants_color(stream: TextIO) -> bool:
    """Return whether to write colours to a stream."""
    if _color_choice != ["auto"]:
        return _color_choice == ["always"]
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, color: int, stream: TextIO | None = None) -> str:
    """Return the text in colour if the stream should have colours."""
    return f"\x1b[{color}m{text}\x1b[0m" if wants_color(stream or sys.stdout) else text


def mark(*, is_well: bool, stream: TextIO | None = None) -> str:
    """Return the icon that starts a line: a check mark or a cross."""
    return paint("✓", GREEN, stream) if is_well else paint("✗", RED, stream)


def progress_reporter(
    nightbook: Nightbook, tell: EventCallback | None, event: str, snapshot: str = ""
) -> ProgressCallback:
    """Return a callback that shows progress as a bar in a terminal, otherwise as log lines.

    Only one thread may call the callback at a time. `Tally` ensures this. The bar is drawn after
    each finished item, and at most ten times a second in between. A log gets a line every ten
    seconds.
    """
    watch = nightbook.watch
    if watch is None and tell is None:
        return silent
    # Limit the output by time, not by the number of reports, because there may be thousands of
    # reports a second or only one a minute. In a terminal, show a new count immediately, but not a
    # new number of bytes.
    interval = LINE_INTERVAL if watch is None else BAR_INTERVAL
    last, next_at = (-1, ""), nightbook.now() + interval

    def say(progress: Progress) -> None:
        nonlocal last, next_at
        now, count = nightbook.now(), (progress.done, progress.things)
        if now < next_at and (watch is None or count == last):
            return
        last, next_at = count, now + interval
        if watch is not None:
            watch(progress)
        elif tell is not None:
            tell(progress.words, event=event, snapshot=snapshot)

    return say
