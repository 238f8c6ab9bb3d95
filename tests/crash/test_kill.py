"""A night is whole or it is not there: killed, cut off, out of disk, at every call it makes.

Right after each interruption readers see a whole old or a whole new book, one who was connected
all along is told what he was told before, and `verify` finds nothing; after the next run, which
nobody helps, every book is as if nothing had happened.
"""

import itertools
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.crash import model, power
from tests.crash.breaches import STRIKES
from tests.crash.harness import WAYS, Case, Harness, done, started
from tests.crash.power import Call
from tests.crash.scenarios import SCENARIOS
from tests.support.shared import some_daily

SHARDS = 4
# How far the number of a call may differ from run to run.
DRIFT = sorted(range(-8, 9), key=abs)
Record = Callable[[str, object], None]
Sized = Callable[[int, int], int]


@pytest.fixture(scope="session")
def harness() -> Iterator[Harness]:
    """The server, with the shim compiled and preloaded."""
    if shutil.which("cc") is None or sys.platform != "linux":
        pytest.skip("the kill harness needs Linux and a C compiler (cc): nothing was killed")
    with started() as harness:
        yield harness


def spread(cases: list[Case], count: int) -> list[Case]:
    """So many of the cases, each from the middle of its share: there the most is half done."""
    if len(cases) <= count:
        return cases
    return [cases[(2 * number + 1) * len(cases) // (2 * count)] for number in range(count)]


def violations(
    harness: Harness, record: Record, scenario: str, way: str, cases: list[Case]
) -> list[str]:
    """Run the cases; what went wrong, in words. How many there were is told at the end."""
    assert cases, "nothing was tried"
    tally = done(harness, scenario, cases)
    record("torture", [f"{scenario}, {way}", dict(tally.counts)])
    return tally.found


# Where all is fsynced that a kill could show, a power cut leaves nothing else: no case is of them.
AS_KILLED = ("next", "first", "again", "accept", "rebuild")
ALWAYS = [
    ("next", "killed", 1),
    ("next", "failing disk", 2),
    ("recovery", "power cut", 1),
]
# What a failing disk leaves of that rebuild is seen in `from landing`.
EVERY = [
    (scenario, way)
    for scenario in SCENARIOS
    for way in WAYS
    if (scenario, way) != ("half rebuilt", "failing disk")
    and (scenario not in AS_KILLED or way != "power cut")
]


@pytest.mark.parametrize(("scenario", "way", "count"), ALWAYS)
def test_an_interrupted_night_is_whole_or_not_there(
    harness: Harness, record_property: Record, scenario: str, way: str, count: int
) -> None:
    """A few interruptions of a night and of a recovery, in the midst of it."""
    cases = spread(WAYS[way](harness, scenario), count)
    assert violations(harness, record_property, scenario, way, cases) == []


@pytest.mark.torture
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize(("scenario", "way"), EVERY)
def test_interrupted_at_every_call(
    harness: Harness, record_property: Record, scenario: str, way: str, shard: int
) -> None:
    """Every state of a scenario: killed, the power cut by every model, ENOSPC and EIO.

    Of the cuts, those that leave the disk of a kill or of another cut are not tried again.
    """
    cases = WAYS[way](harness, scenario)[shard::SHARDS]
    if way == "power cut" and shard == 0:
        modelled = sum(1 for _ in power.states(harness.calls(scenario)))
        record_property("torture", [f"{scenario}, power cut", {"cuts": modelled}])
    assert violations(harness, record_property, scenario, way, cases) == []


@pytest.mark.torture
@pytest.mark.parametrize("scenario", AS_KILLED)
def test_a_power_cut_leaves_what_a_kill_leaves(harness: Harness, scenario: str) -> None:
    """Because all is fsynced in its order: without that it leaves other disks."""
    assert harness.cuts(scenario) == []
    assert all(harness.cuts("next", breach) for breach in ("no file fsync", "no folder fsync"))


@pytest.mark.parametrize("breach", some_daily(STRIKES, 4))
def test_a_breach_of_the_discipline_is_caught(
    harness: Harness, record_property: Record, breach: str
) -> None:
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
    record_property("torture", ["seeded breaches", {"caught": 1}])


@pytest.mark.torture
def test_readers_are_served_all_along(
    harness: Harness, record_property: Record, sized: Sized
) -> None:
    """While a night is taken, one who stays and one who comes anew see the old or the new book."""
    for scenario in itertools.islice((one for one in SCENARIOS if one != "first"), sized(2, 6)):
        for _ in range(sized(1, 5)):
            told = harness.read(scenario)
            assert told["problems"] == [], scenario
            assert told["reads"] >= 2
            record_property(
                "torture", ["readers during a run", {"runs": 1, "reads": told["reads"]}]
            )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_log_of_a_run_leaves_nothing_out(harness: Harness, scenario: str, sized: Sized) -> None:
    """Done again, the calls of a run make the very disk that it made: power cuts start there."""
    if scenario == "next" or sized(0, 1):
        assert harness.is_logged_whole(scenario)


def test_who_reads_a_half_made_file_is_caught(harness: Harness, tmp_path: Path) -> None:
    """Disks that differ only in half-made files are one disk because this never happens."""
    assert harness.peeks() == [".x.aside"]
    log = tmp_path / "log"
    log.write_text("create\t.a.aside\t\t0\t0\nread\t.a.aside\t\t0\t0\nread\t.b.aside\t\t0\t0\n")
    assert model.peeks(log, {".a.aside", ".b.aside"}) == [".b.aside"]
    log.write_text("rename\tv/.tmp-1\tv/1\t0\t0\n")
    assert model.peeks(log, {"v/.tmp-1/x"}) == ["v/1/x"]


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
    both = [*made, Call("sync", "a/x", "", 0, b""), Call("sync", "", "", 0, b"")]
    assert power.unsynced(both) == (set(), {})
    assert {length for length, _ in power.states(made)} == {1, 2, 3, 4, 5}
