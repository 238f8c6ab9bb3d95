"""A night is whole or it is not there: killed, cut off, out of disk, at every call it makes.

Right after each interruption readers see a whole old or a whole new book and `verify` finds
nothing; after the next run, which nobody helps, every book is as if nothing had happened.
"""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.torture import power
from tests.torture.power import Call
from tests.torture.scenarios import SCENARIOS
from warehouse.layout import Layout

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SHARDS = 4
KILLING = ("before", "torn", "after")
# How far the number of a call may differ from run to run.
DRIFT = sorted(range(-8, 9), key=abs)
Sized = Callable[[int, int], int]
Case = dict[str, Any]


@dataclass(slots=True)
class Harness:
    """The server that forks and kills, and the scenarios that were prepared for it."""

    process: subprocess.Popen[str]
    folder: Path
    logs: set[Path] = field(default_factory=set)

    def ask(self, **request: Any) -> Case:
        """One request to the server."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline())
        assert "value" in told, told
        value: Case = told["value"]
        return value

    def log(self, scenario: str, breach: str | None = None) -> Path:
        """The log of an undisturbed run of a scenario, which is then ready to be disturbed."""
        log = self.folder / f"{scenario}-{breach}.log".replace(" ", "-")
        if log not in self.logs:
            start = str(self.folder / scenario)
            made = {"scenario": scenario, "start": start, "breach": breach, "log": str(log)}
            done = self.ask(do="prepare", **made)
            assert done["status"] == 0, done
            self.logs.add(log)
        return log

    def calls(self, scenario: str, breach: str | None = None) -> list[Call]:
        """What an undisturbed run of it does to the disk."""
        return power.calls(self.log(scenario, breach))

    def case(self, scenario: str, breach: str | None = None, **how: Any) -> Case:
        """One interruption and what came of it."""
        if how["mode"] == "power":
            how["log"] = str(self.log(scenario, breach))
        else:
            self.log(scenario)
        start, folder = str(self.folder / scenario), str(self.folder / "case")
        about = {"scenario": scenario, "breach": breach, "start": start, "folder": folder}
        return self.ask(do="case", **about, **how)


@pytest.fixture(scope="session")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The server, with the shim compiled and preloaded."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("the kill harness needs Linux and a C compiler (cc): nothing was killed")
    folder = tmp_path_factory.mktemp("kill")
    shim = folder / "shim.so"
    command = [compiler, "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", shim, HERE / "shim.c", "-ldl", "-lpthread"], check=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.torture.server"],
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


def spread(cases: Iterable[Any], count: int) -> list[Any]:
    """So many of the cases, from the first to the last."""
    listed = list(cases)
    if len(listed) <= count:
        return listed
    return [listed[number * (len(listed) - 1) // (count - 1)] for number in range(count)]


def kills(calls: list[Call]) -> list[Case]:
    """Every way to be killed: before each call, in the middle of each write, after the last.

    To be killed after a call is to be killed before the next: nothing changes between them.
    """
    found: list[Case] = []
    for point, call in enumerate(calls, 1):
        found.append({"mode": "before", "point": point})
        if call.kind == "write" and len(call.data) > 1:
            found.append({"mode": "torn", "point": point})
    return [*found, {"mode": "after", "point": len(calls)}]


def failures(calls: list[Call]) -> list[Case]:
    """No space from each call on, and an input/output error at each call."""
    return [
        {"mode": mode, "point": point}
        for point in range(1, len(calls) + 1)
        for mode in ("full", "broken")
    ]


def cuts(calls: list[Call]) -> list[Case]:
    """Every state that a power cut can leave by our models."""
    return [{"mode": "power", "variant": list(variant)} for variant in power.states(calls)]


def _too_late(one: Case, result: Case) -> bool:
    """Whether the run was over first: DuckDB's threads make a few calls more or less."""
    return bool(result["told"].get("value", one["point"]) < one["point"])


def violations(harness: Harness, scenario: str, cases: Iterable[Case]) -> list[str]:
    """Run the cases; what went wrong, in words. Prints how many there were."""
    found, ended = [], Counter[str]()
    for one in cases:
        result = harness.case(scenario, **one)
        found += [f"{scenario} {one}: {problem}" for problem in result["problems"]]
        killed = os.WIFSIGNALED(result["status"]) and os.WTERMSIG(result["status"])
        if one["mode"] in KILLING and killed != signal.SIGKILL and not _too_late(one, result):
            found.append(f"{scenario} {one}: it was not killed: {result['told']}")
        ended[f"{one['mode']}{' raised' if result['told'].get('error') else ''}"] += 1
    print(f"{scenario}: {ended.total()} states ({dict(ended)}), {len(found)} violations")
    return found


WAYS = {"killed": kills, "cut off": cuts, "failing disk": failures}
ALWAYS = [("next", "killed", 4), ("next", "cut off", 4), ("next", "failing disk", 2)]


@pytest.mark.parametrize(("scenario", "way", "count"), [*ALWAYS, ("recovery", "killed", 2)])
def test_an_interrupted_night_is_whole_or_not_there(
    harness: Harness, scenario: str, way: str, count: int
) -> None:
    """A few interruptions of a night and of a recovery, from their first call to their last."""
    cases = spread(WAYS[way](harness.calls(scenario)), count)
    assert violations(harness, scenario, cases) == []


@pytest.mark.torture
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_killed_at_every_call(harness: Harness, scenario: str, shard: int) -> None:
    """Killed before, after and in the middle of every call that changes the disk."""
    cases = kills(harness.calls(scenario))[shard::SHARDS]
    assert violations(harness, scenario, cases) == []


@pytest.mark.torture
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_power_cut_at_any_call(harness: Harness, scenario: str, shard: int) -> None:
    """What was not fsynced is lost, zeroed, cut or kept while something earlier is lost."""
    cases = spread(cuts(harness.calls(scenario)), 160)[shard::SHARDS]
    assert violations(harness, scenario, cases) == []


@pytest.mark.torture
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("scenario", ["first", "next", "accept", "prune"])
def test_a_disk_that_fails_at_every_call(harness: Harness, scenario: str, shard: int) -> None:
    """No space left from every call on, and an input/output error at every call."""
    cases = failures(harness.calls(scenario))[shard::SHARDS]
    assert violations(harness, scenario, cases) == []


def _is(kind: str, part: str) -> Callable[[Call], bool]:
    return lambda call: call.kind == kind and part in call.path


# Where each breach is struck: the mode, and the call that is interrupted or after which the power
# goes; the second number is how many calls later.
STRIKES: dict[str, tuple[str, Callable[[Call], bool], int]] = {
    "no file fsync": ("lost", _is("rename", "decision.json"), 1),
    "no folder fsync": ("first entry lost", _is("rename", ".current"), 1),
    "no rename": ("torn", _is("write", "decision.json"), 0),
    "manifest first": ("before", _is("unlink", "lake/requests"), 1),
    "link first": ("before", _is("rename", ".current"), 1),
    "link removed": ("before", _is("unlink", "warehouse/current"), 1),
    "written in place": ("before", _is("write", "versions/20261118"), 1),
}


@pytest.mark.parametrize("breach", STRIKES)
def test_a_breach_of_the_discipline_is_caught(harness: Harness, breach: str) -> None:
    """The harness sees what would happen without each of our precautions: it can fail."""
    mode, is_place, later = STRIKES[breach]
    harness.log("next")
    calls = harness.calls("next", breach)
    points = [number + later for number, call in enumerate(calls, 1) if is_place(call)]
    assert points, Counter(f"{call.kind} {call.path}" for call in calls)
    if mode in power.VARIANTS:
        tries: list[Case] = [{"mode": "power", "variant": [points[0], mode]}]
    else:
        tries = [{"mode": mode, "point": points[0] + drift} for drift in DRIFT]
    assert any(harness.case("next", breach, quick=True, **how)["problems"] for how in tries)


def test_a_reader_who_stays_open_is_served_all_along(harness: Harness, tmp_path: Path) -> None:
    """A connection opened before a kill answers the same after it and after the next night."""
    number = len(harness.calls("next")) - 3
    home = tmp_path / "home"
    shutil.copytree(harness.folder / "next" / "home", home, symlinks=True)
    query = "select sum(amount), count(*) from history.balances"
    script = (
        "import sys, json; from pathlib import Path; from tests.torture import server;"
        "r = json.loads(sys.argv[1]); print(server.interrupted(r, Path(sys.argv[2])))"
    )
    command = [sys.executable, "-c", script]
    with duckdb.connect(str(Layout(home).database), read_only=True) as reader:
        before = reader.execute(query).fetchall()
        for mode, point in (("before", number), ("count", 0)):
            request = json.dumps({"scenario": "next", "mode": mode, "point": point})
            subprocess.run(
                [*command, request, str(home)],
                cwd=ROOT,
                env=os.environ | {"LD_PRELOAD": str(harness.folder / "shim.so")},
                check=mode == "count",
            )
            assert reader.execute(query).fetchall() == before
    with duckdb.connect(str(Layout(home).database), read_only=True) as reader:
        assert reader.execute(query).fetchall() != before


def test_the_models_of_a_power_cut_leave_nothing_out() -> None:
    """A file is dirty under its newest name, an entry pending, until file or folder is fsynced."""
    made = [
        Call("mkdir", "a", "", 0, b""),
        Call("create", "a/.x.aside", "", 0, b""),
        Call("write", "a/.x.aside", "", 0, b"12345678"),
        Call("rename", "a/.x.aside", "a/x", 0, b""),
        Call("sync", "a", "", 0, b""),
    ]
    assert power.unsynced(made[:4]) == ({0, 1, 3}, {"a/x": 0})
    assert power.unsynced(made) == ({0}, {"a/x": 0})
    assert power.unsynced(
        [*made, Call("sync", "a/x", "", 0, b""), Call("sync", "", "", 0, b"")]
    ) == (
        set(),
        {},
    )
    lengths = [length for length, _ in power.states(made)]
    assert set(itertools.chain(lengths)) == {1, 2, 3, 4, 5}
