"""A Python that has imported everything once, and forks a child for each interruption.

It runs with the shim preloaded: `python -m tests.torture.server`. A request is one line of JSON on
standard input, the answer one line on standard output.
"""

import contextlib
import ctypes
import gc
import hashlib
import json
import os
import resource
import shutil
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: F401 - pyarrow loads it when first used: once is enough
import pyarrow.dataset
import pyarrow.pandas_compat  # noqa: F401 - the same

from tests.torture import breaches, power
from tests.torture.nights import answers, at
from tests.torture.readers import Reader, reading_until
from tests.torture.scenarios import SCENARIOS, Scenario, books, damage, lake, left_over, view
from warehouse.layout import Layout, digest_of

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
    start, home = Path(request["start"]), Path(request["folder"])
    expected = json.loads((start / "expected.json").read_text())
    quick, reader = bool(request.get("quick")), _READERS[0]
    shutil.rmtree(home, ignore_errors=True)
    if request["mode"] == "power":
        power.replay(start / "home", home, Path(request["log"]), request["variant"])
        told = {"status": int(signal.SIGKILL), "told": {}, "open": 0}
        return told | judged(scenario, home, expected, quick=quick)
    shutil.copytree(start / "home", home, symlinks=True)
    is_open = reader.opens(home)
    status, by_child = forked(lambda: interrupted(request, home))
    problems = reader.problems("right after") if is_open else []
    told = judged(scenario, home, expected, quick=quick)
    problems += told["problems"]
    if is_open:
        problems += reader.problems("after the next run")
        reader.closes()
    return told | {"status": status, "told": by_child, "problems": problems, "open": int(is_open)}


def judged(scenario: Scenario, home: Path, expected: Any, *, quick: bool) -> Any:
    """What is wrong with a home before and after the next run; the same disk is judged once."""
    disk = (scenario.name, digest(home), quick)
    is_new = disk not in _JUDGED
    if is_new:
        _, told = forked(lambda: wrong(scenario, home, expected, quick=quick))
        _JUDGED[disk], known = told.get("value", [["the reader or the next run died"], {}])
        _KNOWN.update(known)
    return {"problems": _JUDGED[disk], "new": is_new}


_JUDGED: dict[tuple[str, str, bool], list[str]] = {}
_KNOWN: dict[str, Any] = {}
_READERS: list[Reader] = []


def digest(home: Path) -> str:
    """All that is on a disk: names, modes, links, bytes."""
    told = hashlib.sha256()
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        if name.startswith((".work", ".lock")):
            continue
        if path.is_symlink():
            what = str(path.readlink())
        else:
            what = f"{path.stat().st_mode:o} {digest_of(path) if path.is_file() else ''}"
        told.update(f"{name}\0{what}\0".encode())
    return told.hexdigest()


def wrong(scenario: Scenario, home: Path, expected: Any, *, quick: bool) -> Any:
    """What is wrong before anything was mended, or after the next run; and what was seen."""
    problems = seen(home, expected)
    if not problems and not quick:
        problems = recovered(scenario, home, expected)
    return problems, _KNOWN


def known(question: Callable[[Path], Any], home: Path) -> Any:
    """What is seen in the published file; of the same bytes it is asked once."""
    file = Layout(home).database
    if not file.exists():
        return question(home)
    about = f"{question.__name__} {digest_of(file)}"
    if about not in _KNOWN:
        _KNOWN[about] = question(home)
    return _KNOWN[about]


def seen(home: Path, expected: Any) -> list[str]:
    """What is wrong before anything was mended: readers see a whole old or a whole new book."""
    try:
        shown = known(view, home)
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
    found = known(books, home) | lake(home)
    if found != expected["outcome"]:
        odd = sorted(name for name, _ in found.items() ^ expected["outcome"].items())
        problems.append(f"after the next run not as an undisturbed run leaves it: {odd}")
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
        ends = (start / "home", copy, *_otherwise(scenario, start))
        views = [_told(view, home) for home in ends]
        expected = {"views": views, "outcome": _told(books, copy) | lake(copy)}
        (start / "expected.json").write_text(json.dumps(expected))
    made = digest(copy)
    shutil.rmtree(copy)
    return {"status": status, "told": told, "disk": made}


def replayed(request: Request) -> Any:
    """The disk that the log of a run leaves when all of it is done again."""
    home = Path(request["folder"])
    shutil.rmtree(home, ignore_errors=True)
    log, length = Path(request["log"]), request["length"]
    power.replay(Path(request["start"]) / "home", home, log, (length, power.NOTHING))
    disk = digest(home)
    shutil.rmtree(home)
    return disk


def read(request: Request) -> Any:
    """A run that nothing disturbs, with one reader who stays and one who comes again and again."""
    scenario, start = SCENARIOS[request["scenario"]], Path(request["start"])
    home, reader = Path(request["folder"]), _READERS[0]
    expected = json.loads((start / "expected.json").read_text())
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(start / "home", home, symlinks=True)
    over, end = os.pipe()
    is_open = reader.opens(home)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(forked, lambda: reading_until(home, over))
        status, told = forked(lambda: scenario.act(home, scenario.moment))
        os.write(end, b".")
        _, seen_by = coming.result()
    problems = [] if status == 0 else [f"the run failed: {told}"]
    if is_open:
        problems += reader.problems("after the run")
        reader.closes()
    for descriptor in (over, end):
        os.close(descriptor)
    came = seen_by.get("value", ["the reader died"])
    problems += [f"a reader saw {one}" for one in came if one not in expected["views"]]
    return {"reads": len(came), "problems": problems}


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
    """Answer requests until there are no more."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in range(4):
        answers(at(number).date())  # made once, here, for all children
    gc.freeze()  # what stands is not looked at again, so children share its pages
    _READERS.append(Reader())
    doing = {"prepare": prepare, "case": case, "replayed": replayed, "read": read}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            told = {"value": doing[request["do"]](request)}
        except Exception:  # noqa: BLE001 - the harness is told of it
            told = {"error": traceback.format_exc()}
        print(json.dumps(told), flush=True)
    os._exit(0)  # frozen objects are not taken apart at the end


if __name__ == "__main__":
    main()
