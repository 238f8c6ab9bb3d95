"""The kill harness: a server that forks and kills runs, the requests to it, and the counts."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.crash import model, power
from tests.crash.power import Call
from tests.support.shared import memory_with

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ROOM = 2 << 30
KILLING = ("before", "torn", "after")
Case = dict[str, Any]


@dataclass(slots=True)
class Harness:
    """The server that forks and kills runs, and the logs of its prepared scenarios."""

    process: subprocess.Popen[str]
    folder: Path
    logs: dict[Path, Case] = field(default_factory=dict)

    def ask(self, **request: Any) -> Any:
        """Send a request to the server, and return its response."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        assert "value" in told, told["error"]
        return told["value"]

    def log(self, scenario: str, breach: str | None = None) -> Path:
        """Return the log of an undisturbed run of a scenario. Prepare the scenario if necessary."""
        log = self.folder / f"{scenario}-{breach}.log".replace(" ", "-")
        if log not in self.logs:
            about = self._about(scenario) | {"breach": breach, "log": str(log)}
            done = self.ask(do="prepare", **about)
            assert done["status"] == 0, done
            self.logs[log] = done
        return log

    def _about(self, scenario: str) -> Case:
        folder, start = self.folder / "case", self.folder / scenario
        return {"scenario": scenario, "start": str(start), "folder": str(folder)}

    def calls(self, scenario: str, breach: str | None = None) -> list[Call]:
        """Return the calls of an undisturbed run that change the disk."""
        return power.calls(self.log(scenario, breach))

    def cuts(self, scenario: str, breach: str | None = None) -> list[Case]:
        """Return every state that a power cut can leave by our models, but that no kill leaves."""
        calls = self.calls(scenario, breach)
        found = model.distinct(model.cuts(self.folder / scenario / "home", calls))
        return [{"mode": "power", "variant": list(variant)} for variant in found]

    def case(self, scenario: str, breach: str | None = None, **how: Any) -> Case:
        """Interrupt a run, and return the result."""
        if how["mode"] == "power":
            how["log"] = str(self.log(scenario, breach))
        else:
            self.log(scenario)
        told: Case = self.ask(do="case", **self._about(scenario), breach=breach, **how)
        return told

    def is_logged_whole(self, scenario: str) -> bool:
        """Return True if a replay of the log of a run makes exactly the disk that the run made."""
        log = self.log(scenario)
        about = self._about(scenario) | {"log": str(log), "length": len(self.calls(scenario))}
        return bool(self.ask(do="replayed", **about) == self.logs[log]["disk"])

    def peeks(self) -> list[str]:
        """Return the files that are reported if a program reads a half-made file."""
        found: list[str] = self.ask(do="watched", folder=str(self.folder / "peek"))
        return found

    def read(self, scenario: str) -> Case:
        """Run a scenario undisturbed, but with readers."""
        self.log(scenario)
        told: Case = self.ask(do="read", **self._about(scenario))
        return told


@contextmanager
def started() -> Iterator[Harness]:
    """Start a server with the shim preloaded, in memory if there is room. It needs `cc`."""
    with tempfile.TemporaryDirectory(dir=memory_with(ROOM)) as place:
        folder = Path(place)
        shim = folder / "shim.so"
        command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(shim)]
        subprocess.run([*command, str(HERE / "shim.c"), "-ldl", "-lpthread"], check=True)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.server"],
            cwd=ROOT,
            env=os.environ | {"LD_PRELOAD": str(shim)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            yield Harness(process, folder)
            assert process.stdin is not None
            process.stdin.close()


def kills(calls: list[Call]) -> list[Case]:
    """Return all kills: before each call, in the middle of each write, and after the last call.

    A kill after a call is equal to a kill before the next call, because nothing changes between
    them. An fsync changes nothing that a kill could show, so the disks before and after it are the
    same.
    """
    found: list[Case] = []
    synced = False
    for point, call in enumerate(calls, 1):
        if not synced:
            found.append({"mode": "before", "point": point})
        if call.kind == "write" and len(call.data) > 1:
            found.append({"mode": "torn", "point": point})
        synced = call.kind == "sync"
    return [*found, {"mode": "after", "point": len(calls)}]


def failures(calls: list[Call]) -> list[Case]:
    """Return all failures: a full disk from a call that needs space, or an I/O error at a call."""
    needless = ("sync", "mode", "unlink", "rmdir")
    return [
        {"mode": mode, "point": point}
        for point, call in enumerate(calls, 1)
        for mode in ("full", "broken")
        if mode == "broken" or call.kind not in needless
    ]


WAYS: dict[str, Callable[[Harness, str], list[Case]]] = {
    "killed": lambda harness, scenario: kills(harness.calls(scenario)),
    "power cut": lambda harness, scenario: harness.cuts(scenario),
    "failing disk": lambda harness, scenario: failures(harness.calls(scenario)),
}


@dataclass(slots=True)
class Tally:
    """The problems and counts of one scenario that was interrupted in one way."""

    found: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def _too_late(one: Case, result: Case) -> bool:
    """Return True if the run ended first. DuckDB's threads vary the number of calls a little."""
    return bool(result["told"].get("value", one["point"]) < one["point"])


def done(harness: Harness, scenario: str, cases: Collection[Case]) -> Tally:
    """Run the cases, and return their problems and counts."""
    tally = Tally()
    for one in cases:
        result = harness.case(scenario, **one)
        problems = list(result["problems"])
        killed = os.WIFSIGNALED(result["status"]) and os.WTERMSIG(result["status"])
        if one["mode"] in KILLING and killed != signal.SIGKILL and not _too_late(one, result):
            problems.append(f"it was not killed: {result['told']}")
        if one["mode"] not in (*KILLING, "power") and killed:
            problems.append("the run did not end by itself")
        tally.found += [f"{scenario} {one}: {problem}" for problem in problems]
        tally.counts.update(
            {
                "states": 1,
                "disks": result["new"],
                "readers": result["open"],
                "raised": bool(result["told"].get("error")),
                "late": one["mode"] in KILLING and _too_late(one, result),
                "violations": len(problems),
            }
        )
    tally.found += _unproved(tally.counts, {one["mode"] for one in cases})
    return tally


def _unproved(counts: Counter[str], modes: set[str]) -> list[str]:
    """Return a problem if the cases prove nothing: late kills, or a disk that never failed."""
    if counts["late"] > max(1, counts["states"] // 10):
        return [f"{counts['late']} of {counts['states']} runs were over before they were killed"]
    if modes & {"full", "broken"} and not counts["raised"]:
        return [f"no run of {counts['states']} met the disk that fails"]
    return []
