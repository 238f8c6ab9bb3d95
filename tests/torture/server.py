"""A Python that has imported everything once, and forks a child for each interruption.

It runs with the shim preloaded: `python -m tests.torture.server`. A request is one line of JSON on
standard input, the answer one line on standard output.
"""

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: F401 - pyarrow loads it when first used: once is enough

from tests.torture import breaches, power
from tests.torture.nights import answers, at
from tests.torture.scenarios import SCENARIOS, Scenario, damage, left_over, outcome, view

MODES = {"count": 0, "before": 1, "after": 2, "torn": 3, "full": 4, "broken": 5}
PATIENCE = 120
Request = dict[str, Any]


def forked(work: Callable[[], Any]) -> tuple[int, Any]:
    """Do something in a child of ours; its wait status, and what it returned if it could."""
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
            except BaseException:  # noqa: BLE001 - the parent is told of it
                told = {"error": traceback.format_exc()[-2000:]}
            with os.fdopen(write, "w") as out:
                json.dump(told, out)
        os._exit(code)
    os.close(write)
    with os.fdopen(read) as told_by_child:
        text = told_by_child.read()
    _, status = os.waitpid(child, 0)
    return status, json.loads(text) if text else {}


def interrupted(request: Request, home: Path) -> Any:
    """Do the action as the shim says; how many calls it made, if it lived to tell."""
    shim = ctypes.CDLL(None)
    scenario = SCENARIOS[request["scenario"]]
    breaches.commit(request.get("breach"))
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if "log" in request else -1
    shim.shim_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_int]
    shim.shim_calls.restype = ctypes.c_long
    shim.shim_arm(str(home).encode(), MODES[request["mode"]], request["point"], log)
    try:
        scenario.act(home, scenario.moment)
    finally:
        shim.shim_disarm()
    return shim.shim_calls()


def case(request: Request) -> Any:
    """One interruption: what readers see after it, and what the run after it makes of it."""
    scenario = SCENARIOS[request["scenario"]]
    status, told = int(signal.SIGKILL), dict[str, Any]()
    start, home = Path(request["start"]), Path(request["folder"])
    expected = json.loads((start / "expected.json").read_text())
    shutil.rmtree(home, ignore_errors=True)
    if request["mode"] == "power":
        power.replay(start / "home", home, Path(request["log"]), request["variant"])
    else:
        shutil.copytree(start / "home", home, symlinks=True)
        status, told = forked(lambda: interrupted(request, home))
    problems = forked(lambda: seen(home, expected))[1].get("value", ["the reader died"])
    if not problems and not request.get("quick"):
        problems = forked(lambda: recovered(scenario, home, expected))[1].get(
            "value", ["the next run died"]
        )
    shutil.rmtree(home, ignore_errors=True)
    return {"status": status, "told": told, "problems": problems}


def seen(home: Path, expected: Any) -> list[str]:
    """What is wrong before anything was mended: readers see a whole old or a whole new book."""
    try:
        shown = view(home)
    except Exception as error:  # noqa: BLE001 - whatever a reader meets
        return [f"readers are refused: {type(error).__name__}: {error}"]
    problems = [] if shown in expected["views"] else ["readers see neither the old nor the new"]
    return problems + [f"right after: {one}" for one in damage(home)]


def recovered(scenario: Scenario, home: Path, expected: Any) -> list[str]:
    """What is wrong after the next run, which nobody helped."""
    try:
        scenario.again(home, scenario.moment + timedelta(hours=1))
    except Exception:  # noqa: BLE001 - whatever it meets
        return [f"the next run failed: {traceback.format_exc()[-1500:]}"]
    problems = [f"after the next run: {one}" for one in damage(home)]
    if outcome(home) != expected["outcome"]:
        problems.append("after the next run the books differ from those of an undisturbed run")
    if scenario.act is not SCENARIOS["prune"].act:
        problems += [f"left over: {one}" for one in left_over(home)]
    return problems


def prepare(request: Request) -> Any:
    """Make a scenario's home, and run it undisturbed once with the log of its calls."""
    scenario, start = SCENARIOS[request["scenario"]], Path(request["start"])
    if not start.exists():
        status, told = forked(lambda: scenario.prepare(start / "home"))
        if status:
            return {"status": status, "told": told}
    copy = start / "undisturbed"
    shutil.copytree(start / "home", copy, symlinks=True)
    status, told = forked(lambda: interrupted(request | {"mode": "count", "point": 0}, copy))
    if not (start / "expected.json").exists():
        views = [_told(view, home) for home in (start / "home", copy)]
        expected = {"views": views, "outcome": _told(outcome, copy)}
        (start / "expected.json").write_text(json.dumps(expected))
    shutil.rmtree(copy)
    return {"status": status, "told": told}


def _told(question: Callable[[Path], Any], home: Path) -> Any:
    return forked(lambda: question(home))[1]["value"]


def main() -> None:
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(4):
        answers(at(number).date())  # made once, here, for all children
    doing = {"prepare": prepare, "case": case}
    for line in sys.stdin:
        request = json.loads(line)
        _, told = forked(partial(doing[request["do"]], request))
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
