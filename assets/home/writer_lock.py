"""The writer's lock of a home. A command waits ten seconds for it, a night until its deadline."""

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

WAIT_SECONDS = 10.0


@contextlib.contextmanager
def writing(
    nightbook: Nightbook, operation: str, say: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Hold the writer's lock for one command. If it is taken, wait some seconds and say for whom.

    Raises `WriterBusy` after that time. Nothing was changed.
    """
    patience = LockTimeout(WAIT_SECONDS, nightbook.pause, say or _print_to_stderr)
    with hold_writer_lock(nightbook.layout, operation, nightbook.now(), patience):
        yield


@contextlib.contextmanager
def writing_with_progress(nightbook: Nightbook, operation: str) -> Iterator[Nightbook]:
    """Hold the writer's lock for a long command, and yield a context that shows its progress.

    Raises the errors of `writing`.
    """
    with TerminalProgress() as progress, writing(nightbook, operation, progress):
        yield replace(nightbook, tell=progress, watch=progress.watch)


def _print_to_stderr(message: str) -> None:
    print(printable_lines(message), file=sys.stderr, flush=True)


class RunLock:
    """The writer's lock of one run: taken by the first step that writes, released by the run."""

    # It is not released between two steps, so that no other command can stop a half-finished night.
    # If steps run in separate processes, which no shipped configuration does, each step takes and
    # releases the lock.
    _living: ClassVar[set["RunLock"]] = set()

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._held: dict[Layout, HomeLock] = {}

    def __enter__(self) -> Self:
        self._living.add(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self, nightbook: Nightbook, operation: str, tell: Tell) -> None:
        """Take the lock. Wait for other writers as long as a pull may take.

        Raises `WriterBusy` after that time.
        """
        layout = nightbook.layout
        if layout in self._held:
            self._held[layout].note(operation)
            return
        patience = LockTimeout(
            nightbook.settings().deadline,
            nightbook.pause,
            lambda words: tell(words, event="waiting"),
        )
        lock = hold_writer_lock(layout, operation, nightbook.now(), patience)
        self._held[layout] = self._stack.enter_context(lock)

    def release(self) -> None:
        """Release the lock."""
        self._living.discard(self)
        self._held.clear()
        self._stack.close()

    @classmethod
    def release_all(cls) -> None:
        """Release the locks of interrupted runs that Dagster has not ended yet."""
        for living in list(cls._living):
            living.release()
