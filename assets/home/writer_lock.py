"""The writer's lock of a home: a command waits ten seconds for it, a night its deadline."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar, Self

from assets.console.terminal import TerminalProgress
from assets.nightbook import Nightbook, Tell
from pipelines.landing.lock import HomeLock, LockTimeout, hold_writer_lock
from warehouse.query.printable import printable_lines
from warehouse.storage.layout import Layout

A_LITTLE = 10.0


@contextlib.contextmanager
def writing(
    nightbook: Nightbook, doing: str, say: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Be the only writer for one command, which waits some seconds and says for whom.

    Raises `WriterBusy` then, having changed nothing.
    """
    patience = LockTimeout(A_LITTLE, nightbook.pause, say or _on_errors)
    with hold_writer_lock(nightbook.layout, doing, nightbook.now(), patience):
        yield


@contextlib.contextmanager
def writing_aloud(nightbook: Nightbook, doing: str) -> Iterator[Nightbook]:
    """Be the only writer for a long command, and yield who says in the terminal how far it is.

    Raises as `writing`.
    """
    with TerminalProgress() as teller, writing(nightbook, doing, teller):
        yield replace(nightbook, tell=teller, watch=teller.watch)


def _on_errors(message: str) -> None:
    print(printable_lines(message), file=sys.stderr, flush=True)


class RunLock:
    """The writer's lock of one run: taken by its first step that writes, held until it ends."""

    # Between two steps nobody else gets it, so that no night is landed and flattened and then left
    # because a backup began. A run whose steps are processes of their own (no shipped one is) can
    # hold it for a step at a time only: each then waits for itself.
    _living: ClassVar[set["RunLock"]] = set()

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._held: dict[Layout, HomeLock] = {}

    def __enter__(self) -> Self:
        self._living.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self, nightbook: Nightbook, doing: str, tell: Tell) -> None:
        """Be the only writer from now on; waits for others as long as a pull may take.

        Raises `WriterBusy` when that time is over.
        """
        layout = nightbook.layout
        if layout in self._held:
            self._held[layout].note(doing)
            return
        patience = LockTimeout(
            nightbook.settings().deadline,
            nightbook.pause,
            lambda words: tell(words, event="waiting"),
        )
        lock = hold_writer_lock(layout, doing, nightbook.now(), patience)
        self._held[layout] = self._stack.enter_context(lock)

    def release(self) -> None:
        """Let others write."""
        self._living.discard(self)
        self._held.clear()
        self._stack.close()

    @classmethod
    def release_all(cls) -> None:
        """Let go of what a run holds that was broken off: Dagster may not have ended it yet."""
        for living in list(cls._living):
            living.release()
