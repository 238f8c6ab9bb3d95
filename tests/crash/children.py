"""Child processes of the server: each does one piece of work, with or without the armed shim."""

import contextlib
import ctypes
import json
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MODES = {"count": 0, "before": 1, "after": 2, "torn": 3, "full": 4, "broken": 5, "watched": 6}
PATIENCE = 120


def forked(work: Callable[[], Any]) -> tuple[int, Any]:
    """Do work in a child process. Return its wait status, and its value or error if it has one."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            os.close(read)
            signal.alarm(PATIENCE)
            try:
                told = {"value": work()}
                code = 0
            except BaseException:  # noqa: BLE001 - the parent gets the error
                told = {"error": traceback.format_exc()[-2000:]}
            with os.fdopen(write, "w") as out:
                json.dump(told, out)
        os._exit(code)
    os.close(write)
    with os.fdopen(read) as told_by_child:
        text = told_by_child.read()
    _, status = os.waitpid(child, 0)
    return status, json.loads(text) if text else {}


@contextlib.contextmanager
def armed(home: Path, mode: str, point: int, log: int) -> Iterator[ctypes.CDLL]:
    """Arm the shim for a home until the end of the `with` block."""
    shim = ctypes.CDLL(None)
    shim.shim_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_int]
    shim.shim_calls.restype = ctypes.c_long
    shim.shim_arm(str(home).encode(), MODES[mode], point, log)
    try:
        yield shim
    finally:
        shim.shim_disarm()
