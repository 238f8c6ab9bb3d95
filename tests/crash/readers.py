"""People who read while a night is being taken: they stay connected, or come anew all the time."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb

from tests.crash.scenarios import view
from warehouse.storage.layout import Layout

# Small enough to be asked at every call, and it reads the whole of the largest table.
QUESTION = "select count(*), sum(amount), sum(hash(b)) from history.balances b"


class Reader:
    """A process of its own: it opens a book, keeps it open, and says what it is told by it."""

    def __init__(self) -> None:
        asked, ask = os.pipe()
        answered, answer = os.pipe()
        if os.fork() == 0:
            os.close(ask)
            os.close(answered)
            with contextlib.suppress(BaseException), os.fdopen(asked) as lines:
                for line in lines:
                    _read_on(Path(line.rstrip("\n")), lines, answer)
            os._exit(0)
        os.close(asked)
        os.close(answer)
        self._ask, self._answered = os.fdopen(ask, "w"), os.fdopen(answered)

    def opens(self, home: Path) -> bool:
        """Open the book of a home, if there is one, and remember what it says."""
        file = Layout(home).database
        if not file.exists():
            return False
        self._first = self._says(str(file.resolve()))
        return True

    def _says(self, line: str) -> str:
        print(line, file=self._ask, flush=True)
        return self._answered.readline() or "the reader died"

    def problems(self, when: str) -> list[str]:
        """What is wrong where it is told something else than at first."""
        now = self._says("again")
        return [] if now == self._first else [f"{when} an open reader is told {now}"]

    def closes(self) -> None:
        """Let go of the book."""
        self._says("close")


def _read_on(file: Path, lines: Iterator[str], answer: int) -> None:
    with (
        duckdb.connect(str(file), read_only=True, config={"threads": "1"}) as connection,
        file.open("rb") as held,
    ):
        while True:
            try:
                held.seek(0)
                digest = hashlib.file_digest(held, "sha256").hexdigest()
                told = f"{connection.execute(QUESTION).fetchall()} in {digest}"
            except Exception as error:  # noqa: BLE001 - whatever a reader meets
                told = f"refused: {error}"
            os.write(answer, json.dumps(told).encode() + b"\n")
            if next(lines) == "close\n":
                break
    os.write(answer, b"closed\n")


def reading_until(home: Path, done: int, began: int) -> list[str | None]:
    """Open the book anew, again and again, until `done` can be read; what was seen each time.

    Once it has been opened, a byte is written to `began`.
    """
    os.set_blocking(done, False)
    try:
        seen = [view(home)]
    finally:
        os.write(began, b".")
    while True:
        seen.append(view(home))
        with contextlib.suppress(BlockingIOError):
            os.read(done, 1)
            return seen
