"""Isolation for untrusted work: each function call runs in a child process with limits.

SQL and spreadsheets are untrusted, and can make the libraries exceed their own limits. A `repeat()`
in DuckDB ignores interrupts, a cell in the last corner of a sheet makes a reader allocate the whole
rectangle, and a panic in Rust is not an `Exception`. In a child process, which can be killed, each
of these becomes an ordinary error.

This module imports only the standard library, because `nightbook query` imports it twice: in the
parent and in the child.
"""

import contextlib
import importlib
import json
import resource
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass

OPEN_FILES = 64
_TIMEOUT_CODES = (-signal.SIGXCPU, -signal.SIGALRM, -signal.SIGKILL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """Limits for a child process: wall time, address space, busy threads and open files."""

    seconds: float
    memory_bytes: int
    threads: int = 1
    open_files: int = OPEN_FILES


class ChildStopped(Exception):
    """The child ended without a result, because it crashed or exceeded its memory limit."""


class ChildTimedOut(ChildStopped):
    """The child was stopped because it exceeded its time limit."""


def run_in_child(function: str, request: bytes, limits: ChildLimits) -> bytes:
    """Call `module:function` with a request in a child process and return its result.

    The child cannot write files and has no environment variables. Raises `ChildTimedOut` if it
    exceeds its time limit, and `ChildStopped` if it ends without a result for another reason.
    """
    # The option -I prevents the working directory and the environment from affecting which modules
    # Python loads.
    command = [sys.executable, "-I", "-m", "warehouse.isolation", function]
    command.append(json.dumps(asdict(limits)))
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
    if child.returncode in _TIMEOUT_CODES:
        raise ChildTimedOut
    if child.returncode != 0:
        raise ChildStopped
    return result


def _limit_process(limits: ChildLimits) -> None:
    """Set resource limits on this process, so that it ends even if its parent has died."""
    for limit, value in (
        (resource.RLIMIT_CPU, int(limits.seconds * limits.threads) + 1),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _at_most(resource.RLIMIT_NOFILE, limits.open_files)),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # Some systems do not support all limits.
            resource.setrlimit(limit, (value, value))
    # Set a timer in case the parent process has died. If the parent is alive, it stops the child
    # process one second earlier and reports the reason.
    signal.setitimer(signal.ITIMER_REAL, limits.seconds + 1)


def _at_most(limit: int, value: int) -> int:
    """Return `value`, but not more than the system allows for this resource limit."""
    _, allowed = resource.getrlimit(limit)
    return value if allowed == resource.RLIM_INFINITY else min(value, allowed)


def main(function: str, limits: str) -> None:
    """Process the request on standard input and write the result to standard output."""
    module, _, name = function.partition(":")
    process = getattr(importlib.import_module(module), name)
    # Set the limits after the import, so that they do not apply while libraries are loaded.
    _limit_process(ChildLimits(**json.loads(limits)))
    sys.stdout.buffer.write(process(sys.stdin.buffer.read()))


if __name__ == "__main__":
    main(*sys.argv[1:])
