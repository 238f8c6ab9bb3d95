"""Progress of long-running work, shown to the person who is waiting for it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

BYTES, ROWS = "bytes", "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of one piece of work: `done` of `known` items, and the bytes or rows so far.

    `things` is the plural noun for the items, such as `requests`. `of` is the unit of
    `amount`: BYTES, ROWS or empty.
    """

    done: int
    known: int
    things: str
    amount: int = 0
    of: str = ""

    @property
    def words(self) -> str:
        """The progress as text, for example `13 of 26 requests, 2.5 MB`."""
        amounts = {BYTES: f", {self.amount / 1e6:,.1f} MB", ROWS: f", {self.amount:,} rows"}
        return f"{self.done:,} of {self.known:,} {self.things}{amounts.get(self.of, '')}"


ProgressCallback = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Ignore the progress. This is the default callback."""
    del progress


class Tally:
    """A thread-safe counter for one piece of work, which reports each change to `say`.

    The counter also reports the start, unless there is nothing to do.
    """

    def __init__(self, say: ProgressCallback, known: int, things: str, of: str = "") -> None:
        self._say, self._things, self._of = say, things, of
        self._lock = threading.Lock()
        self._done, self._known, self._amount = 0, known, 0
        if known:
            self.add()

    def add(self, done: int = 0, amount: int = 0, *, known: int = 0) -> None:
        """Increase the counts of finished items, of bytes or rows, and of known items."""
        with self._lock:
            self._done += done
            self._amount += amount
            self._known += known
            self._say(
                Progress(
                    done=self._done,
                    known=self._known,
                    things=self._things,
                    amount=self._amount,
                    of=self._of,
                )
            )
