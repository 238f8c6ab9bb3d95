"""Run one function in a process of its own that has bounds and can be killed.

SQL and spreadsheets come from strangers, and the libraries that take them can be made to outgrow
any limit that they know: one `repeat()` in DuckDB does not hear an interrupt, one cell in the last
corner of a sheet makes a reader allocate the whole rectangle up to it, and a panic in Rust is no
`Exception`. A fresh interpreter without environment turns each of these into one error.

Light to import: only the standard library, since `nightbook query` waits for it twice.
"""

import contextlib
import importlib
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass

OPEN_FILES = 64
_BY_LIMIT = (-signal.SIGXCPU, -signal.SIGALRM, -signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """Bounds of a child process: wall time, address space, threads that may use CPU, open files."""

    seconds: float
    memory_bytes: int
    threads: int = 1
    open_files: int = OPEN_FILES


class ChildStopped(Exception):
    """The child ended without a result: it broke, or it needed more memory than it may have."""


class ChildTimedOut(ChildStopped):
    """The child was stopped because its time was over."""


def run_in_child(function: str, request: bytes, limits: ChildLimits) -> bytes:
    """Call `module:function` with a request in a child process and return its result.

    The child can write no file and sees no environment variable. Raises `ChildTimedOut` where its
    time is over and `ChildStopped` where it ends without a result for any other reason.
    """
    bounds = map(str, (limits.seconds, limits.memory_bytes, limits.threads, limits.open_files))
    # -I: neither the working directory nor a variable decides which modules the child loads.
    command = [sys.executable, "-I", "-m", "warehouse.isolation", function, *bounds]
    with subprocess.Popen(
        command,
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        try:
            result, _ = child.communicate(request, timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            raise ChildTimedOut from None
        finally:
            child.kill()
    if child.returncode in _BY_LIMIT:
        raise ChildTimedOut
    if child.returncode != 0:
        raise ChildStopped
    return result


def _limit_process(limits: ChildLimits) -> None:
    """Bound this process, so that it ends by itself even when its parent is gone."""
    for limit, value in (
        (resource.RLIMIT_CPU, int(limits.seconds * limits.threads) + 1),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _at_most(resource.RLIMIT_NOFILE, limits.open_files)),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # not every system knows every limit
            resource.setrlimit(limit, (value, value))
    # One second later than the parent: a parent that lives tells why, this is for a dead one.
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + 1)


def _at_most(limit: int, value: int) -> int:
    """Return a value within what this system allows, because a larger one would set no limit."""
    _, allowed = resource.getrlimit(limit)
    return value if allowed == resource.RLIM_INFINITY else min(value, allowed)


def main(function: str, seconds: str, memory_bytes: str, threads: str, open_files: str) -> None:
    """Answer the one request on standard input."""
    module, _, name = function.partition(":")
    answer = getattr(importlib.import_module(module), name)
    # After the import: what the libraries themselves need is not the stranger's doing.
    _limit_process(
        ChildLimits(
            seconds=float(seconds),
            memory_bytes=int(memory_bytes),
            threads=int(threads),
            open_files=int(open_files),
        )
    )
    sys.stdout.buffer.write(answer(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main(*sys.argv[1:])
