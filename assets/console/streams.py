"""Standard output that never decides whether work is done: a log may be full, closed or gone."""

import io
import os
from collections.abc import Callable
from typing import Any, TextIO


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
