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
import re
import resource
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

OPEN_FILES = 64
_TIMEOUT_CODES = (-signal.SIGXCPU, -signal.SIGALRM)
_MAX_REASON = 300  # characters
_NO_MEMORY = re.compile(
    r"MemoryError|bad_alloc|memory allocation of|Cannot allocate memory|[Oo]ut of [Mm]emory"
)
# The child's first output, after its modules were imported.
_STARTED = b"started\n"
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from warehouse.isolation import main; main(*sys.argv[1:])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildLimits:
    """Limits for a child process: wall time, address space, busy threads and open files."""

    seconds: float
    memory_bytes: int
    threads: int = 1
    open_files: int = OPEN_FILES


class ChildStopped(Exception):
    """The child ended without a result, because it crashed. The message is its last words."""


class ChildTimedOut(ChildStopped):
    """The child was stopped because it exceeded its time limit."""


class ChildOutOfMemory(ChildStopped):
    """The child exceeded its memory limit."""


class ChildKilled(ChildStopped):
    """The child was killed from outside, for example by the kernel because memory ran out."""


class ChildNotStarted(ChildStopped):
    """The child could not start, for example because it could not import its module."""


def run_in_child(function: str, request: bytes, limits: ChildLimits) -> bytes:
    """Call `module:function` with a request in a child process and return its result.

    The child cannot write files and has no environment variables. Raises the subclass of
    `ChildStopped` for the reason if it ends without a result.
    """
    # The option -I prevents the working directory and the environment from affecting which modules
    # Python loads. Instead, the child imports from the same folders as its parent.
    folders = json.dumps([folder or "." for folder in sys.path])
    command = [sys.executable, "-I", "-c", _START, folders, function]
    command.append(json.dumps(asdict(limits)))
    try:
        child = subprocess.Popen(
            command,
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise ChildNotStarted(str(error)) from None
    with child:
        try:
            output, errors = child.communicate(request, timeout=limits.seconds)
        except subprocess.TimeoutExpired:
            raise ChildTimedOut from None
        finally:
            child.kill()
    if child.returncode != 0:
        raise _reason(child.returncode, output, errors.decode(errors="replace"))
    return output.removeprefix(_STARTED)


def _reason(code: int, output: bytes, errors: str) -> ChildStopped:
    """Return the exception that tells why a child ended without a result."""
    last = errors.strip().rpartition("\n")[2][:_MAX_REASON]
    if code in _TIMEOUT_CODES:
        return ChildTimedOut(last)
    if _NO_MEMORY.search(errors):
        return ChildOutOfMemory(last)
    if code == -signal.SIGKILL:
        return ChildKilled(last)
    if not output.startswith(_STARTED):
        return ChildNotStarted(last or f"it ended with code {code}")
    return ChildStopped(last or f"it ended with code {code}")


def container_memory(groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return the memory limit of this process's container in bytes, or None without a limit."""
    own = ""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        own = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    folder, found = groups / own, []
    for group in (folder, *folder.parents):
        # A group without a limit contains the word `max`.
        with contextlib.suppress(OSError, ValueError):
            found.append(int((group / "memory.max").read_text(encoding="utf-8")))
    return min(found, default=None)


def usable_memory(wanted: int, groups: Path = Path("/sys/fs/cgroup")) -> int:
    """Return `wanted` bytes, but at most half of the container's memory."""
    limit = container_memory(groups)
    return wanted if limit is None else min(wanted, limit // 2)


def _limit_process(limits: ChildLimits) -> None:
    """Set resource limits on this process, so that it ends even if its parent has died."""
    for limit, value in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, _at_most(resource.RLIMIT_NOFILE, limits.open_files)),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):  # Some systems do not support all limits.
            resource.setrlimit(limit, (value, value))
    # The hard limit is higher. At the hard limit, the system sends SIGKILL, which would look as if
    # the child was killed from outside.
    seconds = int(limits.seconds * limits.threads) + 1
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
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
    sys.stdout.buffer.write(_STARTED)
    sys.stdout.buffer.flush()
    sys.stdout.buffer.write(process(sys.stdin.buffer.read()))
