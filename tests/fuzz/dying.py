"""A process that dies at a chosen moment, as if `kill -9` had ended it.

The child dies before one of its changes of the disk, which Python counts. The shim of tests/crash
counts the changes that DuckDB itself makes.
"""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

DIED = 99
LONGEST = 60
CHANGES = frozenset(
    {
        *("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.link"),
        *("os.chmod", "os.truncate", "shutil.rmtree"),
    }
)


def dies(work: Callable[[], object], before: int) -> bool:
    """Run work in a child that dies before its disk change number `before`. Return True if it died.

    The first change has number 1. The child ends normally if it makes fewer changes.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn about threads
        child = os.fork()
    if child == 0:
        _work_until(work, before)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, DIED}, f"the child ended with {code}"
    return code == DIED


def _work_until(work: Callable[[], object], last: int) -> None:
    """Do the work in the child, and exit before disk change number `last`. It never returns."""
    signal.alarm(LONGEST)
    left = last

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        writes = event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if event in CHANGES or writes:
            left -= 1
            if left == 0:
                os._exit(DIED)

    sys.addaudithook(watch)
    try:
        work()
    except BaseException:  # noqa: BLE001 - printed, and the parent checks the exit code
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
