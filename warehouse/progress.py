"""How far long work has come, so that whoever waits sees that it goes on."""

import threading
from collections.abc import Callable
from dataclasses import dataclass

BYTES, ROWS = "bytes", "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """So many of so many `things` are done, and the `amount` of bytes or rows that came of it."""

    done: int
    known: int
    things: str
    amount: int = 0
    of: str = ""

    @property
    def words(self) -> str:
        """As a person reads it: `13 of 26 requests, 2.5 MB`."""
        amounts = {BYTES: f", {self.amount / 1e6:,.1f} MB", ROWS: f", {self.amount:,} rows"}
        return f"{self.done:,} of {self.known:,} {self.things}{amounts.get(self.of, '')}"


Say = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Discard progress."""
    del progress


class Tally:
    """Adds up how far one piece of work is, from any thread, and says so; first that it begins."""

    def __init__(self, say: Say, known: int, things: str, of: str = "") -> None:
        self._say, self._things, self._of = say, things, of
        self._lock = threading.Lock()
        self._done, self._known, self._amount = 0, known, 0
        if known:
            self.add()

    def add(self, done: int = 0, amount: int = 0, *, known: int = 0) -> None:
        """Count so many more done, what came of it, and what turned out to be there."""
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
