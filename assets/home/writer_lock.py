"""Access to a home: which commands may run, and the lock that allows only one writer."""

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

from assets.console.command import Invocation
from assets.console.terminal import TerminalProgress
from assets.home.creation import reason_for_no_home
from assets.nightbook import EventCallback, Nightbook
from pipelines.landing.lock import HomeLock, LockTimeout, hold_writer_lock, require_owner
from warehouse.query.formats import printable_lines
from warehouse.storage.layout import Layout

WAIT_SECONDS = 10.0


@contextlib.contextmanager
def writing(
    nightbook: Nightbook, operation: str, say: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Hold the writer's lock for one command.

    If another command holds the lock, wait a few seconds and print the reason.

    Raises `WriterBusy` if the lock is still held. In that case, nothing was changed.
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
    """A run's writer lock, held from the first step that writes to the end of the run."""

    # A run holds the lock between steps too, so that no other command can block a half-finished
    # night. If steps run in separate processes, which is not the case in our configurations, each
    # step acquires and releases the lock.
    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._held: dict[Layout, HomeLock] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def acquire(self, nightbook: Nightbook, operation: str, tell: EventCallback) -> None:
        """Acquire the lock. Wait for other writers, but not longer than a pull may take.

        Raises `WriterBusy` if the lock is still held after that time.
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
        self._held.clear()
        self._stack.close()


class NoHome(Exception):
    """The directory is not a nightbook home."""

    exit_code = 2

    def __init__(self, layout: Layout, command: str) -> None:
        super().__init__(
            f"There is no nightbook home at {layout.home}: {reason_for_no_home(layout)}. Nothing "
            f"was done. If the home is in another directory, use nightbook --home DIR {command}, "
            "or set NIGHTBOOK_HOME. If its disk is not mounted, mount it. In a terminal, the first "
            "nightbook run creates a home. nightbook --home OTHER demo creates an example."
        )


def require_place(layout: Layout, invocation: Invocation) -> None:
    """Check that a command can use the home.

    If the command needs a home, it must exist. If the command writes, new files must belong to the
    home's owner. Raises the errors of `require_home` and `require_owner`.
    """
    if invocation.command.needs_home:
        require_home(layout, invocation.words[0])
    if invocation.command.writes:
        require_owner(layout, f"nightbook {invocation.words[0]}")


def require_home(layout: Layout, command: str) -> None:
    """Raise `NoHome` if a directory is not a home, and `PermissionError` if it cannot be read."""
    home = layout.home
    if not home.is_dir():
        raise NoHome(layout, command)
    _require_readable(home)
    folders = (layout.landing, layout.lake, layout.warehouse, layout.runs, layout.dagster)
    if not any(os.path.lexists(folder) for folder in folders):
        raise NoHome(layout, command)
    for folder in (*folders[:3], layout.manifests, layout.database.parent):
        if folder.is_dir():
            _require_readable(folder)


def _require_readable(folder: Path) -> None:
    """Raise `PermissionError` if a folder is unreadable, because it would look empty."""
    if not os.access(
        folder, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    ):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
