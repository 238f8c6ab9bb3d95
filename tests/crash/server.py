"""A Python process that imports everything once, and forks a child for each interruption.

It runs with the shim preloaded: `python -m tests.crash.server`. A request is one line of JSON on
standard input, and its response is one line on standard output.
"""

import gc
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: F401 - pyarrow loads it at the first use, and once is enough
import pyarrow.dataset
import pyarrow.pandas_compat  # noqa: F401 - the same

from tests.crash import breaches, model, power
from tests.crash.children import armed, forked
from tests.crash.judging import digest, judged
from tests.crash.nights import answers, at
from tests.crash.readers import Reader, reading_until
from tests.crash.scenarios import LATER, SCENARIOS, Scenario, books, decided, lake, view

Request = dict[str, Any]


_READERS: list[Reader] = []


def interrupted(request: Request, home: Path) -> Any:
    """Run the action with the interruption. Return the number of its calls if it survives."""
    scenario = SCENARIOS[request["scenario"]]
    breaches.commit(request.get("breach"))
    log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC) if "log" in request else -1
    with armed(home, request["mode"], request["point"], log) as shim:
        scenario.act(home, scenario.moment)
    return shim.shim_calls()


def case(request: Request) -> Any:
    """Interrupt a run. Return the problems that readers see, and those after the next run."""
    scenario = SCENARIOS[request["scenario"]]
    start, home = Path(request["start"]), Path(request["folder"])
    expected = json.loads((start / "expected.json").read_text())
    judge = partial(judged, mode=request["mode"], quick=bool(request.get("quick")))
    reader = _READERS[0]
    shutil.rmtree(home, ignore_errors=True)
    if request["mode"] == "power":
        power.replay(start / "home", home, Path(request["log"]), request["variant"])
        told = {"status": int(signal.SIGKILL), "told": {}, "open": 0}
        return told | judge(scenario, home, expected)
    shutil.copytree(start / "home", home, symlinks=True)
    is_open = reader.opens(home)
    status, by_child = forked(lambda: interrupted(request, home))
    problems = reader.problems("right after") if is_open else []
    told = judge(scenario, home, expected)
    problems += told["problems"]
    if is_open:
        problems += reader.problems("after the next run")
        reader.closes()
    return told | {"status": status, "told": by_child, "problems": problems, "open": int(is_open)}


def prepare(request: Request) -> Any:
    """Make a scenario's home, run the scenario once undisturbed, and log its calls."""
    scenario, start = SCENARIOS[request["scenario"]], Path(request["start"])
    if not start.exists():
        status, told = forked(lambda: scenario.prepare(start / "home"))
        if status:
            return {"status": status, "told": told}
    copy = start / "undisturbed"
    shutil.copytree(start / "home", copy, symlinks=True)
    status, told = forked(lambda: interrupted(request | {"mode": "count", "point": 0}, copy))
    if not (start / "expected.json").exists():
        ends = (start / "home", copy, *_otherwise(scenario, start))
        views = [_told(view, home) for home in ends]
        (start / "expected.json").write_text(json.dumps({"views": views} | _end(scenario, start)))
    made = digest(copy)
    shutil.rmtree(copy)
    return {"status": status, "told": told, "disk": made}


def _end(scenario: Scenario, start: Path) -> Any:
    """Return the books after an undisturbed next run, and the decisions on earlier nights."""
    home, copy = start / "home", start / "undisturbed"
    if scenario.again is not scenario.act:
        copy = start / "twice"
        shutil.copytree(start / "undisturbed", copy, symlinks=True)
        status, told = forked(lambda: scenario.again(copy, scenario.moment + LATER))
        if status:
            raise RuntimeError(told)
    known = _told(decided, copy)
    return {
        "outcome": _told(books, copy) | lake(copy),
        "decided": {one: known[one] for one in _told(decided, home)},
    }


def replayed(request: Request) -> Any:
    """Return the digest of the disk that a replay of the whole log leaves."""
    home = Path(request["folder"])
    shutil.rmtree(home, ignore_errors=True)
    log, length = Path(request["log"]), request["length"]
    power.replay(Path(request["start"]) / "home", home, log, (length, power.NOTHING))
    disk = digest(home)
    shutil.rmtree(home)
    return disk


def read(request: Request) -> Any:
    """Run a scenario undisturbed, with a reader that stays and one that reconnects repeatedly."""
    scenario, start = SCENARIOS[request["scenario"]], Path(request["start"])
    home, reader = Path(request["folder"]), _READERS[0]
    expected = json.loads((start / "expected.json").read_text())
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(start / "home", home, symlinks=True)
    over, end = os.pipe()
    begun, began = os.pipe()
    is_open = reader.opens(home)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(forked, lambda: reading_until(home, over, began))
        os.read(begun, 1)  # two forks at once would each keep the other's pipe open
        status, told = forked(lambda: scenario.act(home, scenario.moment))
        os.write(end, b".")
        _, seen_by = coming.result()
    problems = [] if status == 0 else [f"the run failed: {told}"]
    if is_open:
        problems += reader.problems("after the run")
        reader.closes()
    for descriptor in (over, end, begun, began):
        os.close(descriptor)
    came = seen_by.get("value", [f"the reader died: {seen_by}"])
    problems += [f"a reader saw {one}" for one in came if one not in expected["views"]]
    return {"reads": len(came), "problems": problems}


def watched(request: Request) -> Any:
    """Read a half-made file under watch, and return the files that are reported."""
    home = Path(request["folder"])
    home.mkdir()
    half_made, log = home / ".x.aside", home.with_name("watched.log")
    half_made.touch()

    def peek() -> list[str]:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with armed(home, "watched", 0, descriptor):
            half_made.read_bytes()
        return model.peeks(log, model.half_made(home))

    _, told = forked(peek)
    shutil.rmtree(home)
    return told.get("value")


def _otherwise(scenario: Scenario, start: Path) -> Iterator[Path]:
    for number, act in enumerate(scenario.otherwise):
        home = start / f"otherwise-{number}"
        shutil.copytree(start / "home", home, symlinks=True)
        status, told = forked(partial(act, home, scenario.moment))
        if status:
            raise RuntimeError(told)
        yield home


def _told(question: Callable[[Path], Any], home: Path) -> Any:
    return forked(lambda: question(home))[1]["value"]


def main() -> None:
    """Respond to requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(4):
        answers(at(number).date())  # built once here for all children
    gc.freeze()  # old objects are not scanned any more, so children share their pages
    _READERS.append(Reader())
    doing = {
        "prepare": prepare,
        "case": case,
        "replayed": replayed,
        "read": read,
        "watched": watched,
    }
    for line in sys.stdin:
        request = json.loads(line)
        try:
            told = {"value": doing[request["do"]](request)}
        except Exception:  # noqa: BLE001 - the harness gets the error
            told = {"error": traceback.format_exc()}
        print(json.dumps(told), flush=True)
    os._exit(0)  # exit without freeing the frozen objects


if __name__ == "__main__":
    main()
