"""Readers of a book during a run, which stay connected or reconnect all the time."""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import duckdb

from tests.crash.scenarios import view
from warehouse.storage.layout import Layout

# The query is fast enough to run at every call, and reads the whole largest table.
QUESTION = "select count(*), sum(amount), sum(hash(b)) from history.balances b"


class Reader:
    """A separate process that opens a book, keeps it open, and reports the book's content."""

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
        """Open the book of a home and store its content. Return False if there is no book."""
        file = Layout(home).database
        if not file.exists():
            return False
        self._first = self._says(str(file.resolve()))
        return True

    def _says(self, line: str) -> str:
        print(line, file=self._ask, flush=True)
        return self._answered.readline() or "the reader died"

    def problems(self, when: str) -> list[str]:
        """Return a problem if the book's content differs from the first reading."""
        now = self._says("again")
        return [] if now == self._first else [f"{when} an open reader is told {now}"]

    def closes(self) -> None:
        """Close the book."""
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
            except Exception as error:  # noqa: BLE001 - a reader may meet any error
                told = f"refused: {error}"
            os.write(answer, json.dumps(told).encode() + b"\n")
            if next(lines) == "close\n":
                break
    os.write(answer, b"closed\n")


def reading_until(home: Path, done: int, began: int) -> list[str | None]:
    """Open the book repeatedly until `done` can be read. Return the view of each time.

    After the first time, a byte is written to `began`.
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
