"""Tests of nights that are interrupted at any call by a kill, a power cut or a failing disk.

An interrupted night is whole or does not exist. Right after each interruption, readers see a whole
old or a whole new book, a reader that stayed connected sees the same content as before, and
`verify` finds nothing. After the next run, without help from a person, every book is as if nothing
had happened.
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
# Possible differences of a call's number from run to run.
DRIFT = sorted(range(-8, 9), key=abs)
Record = Callable[[str, object], None]
Sized = Callable[[int, int], int]


@pytest.fixture(scope="session")
def harness() -> Iterator[Harness]:
    """Start the server, with the shim compiled and preloaded."""
    if shutil.which("cc") is None or sys.platform != "linux":
        pytest.skip("the kill harness needs Linux and a C compiler (cc): nothing was killed")
    with started() as harness:
        yield harness


def spread(cases: list[Case], count: int) -> list[Case]:
    """Return `count` cases, each from the middle of its share, because most is half done there."""
    if len(cases) <= count:
        return cases
    return [cases[(2 * number + 1) * len(cases) // (2 * count)] for number in range(count)]


def violations(
    harness: Harness, record: Record, scenario: str, way: str, cases: list[Case]
) -> list[str]:
    """Run the cases, and return their problems. The counts are printed at the end."""
    assert cases, "nothing was tried"
    tally = done(harness, scenario, cases)
    record("torture", [f"{scenario}, {way}", dict(tally.counts)])
    return tally.found


# These scenarios fsync everything that a kill could show, so a power cut leaves no other disks.
AS_KILLED = ("next", "first", "again", "accept", "rebuild")
ALWAYS = [
    ("next", "killed", 1),
    ("next", "failing disk", 2),
    ("recovery", "power cut", 1),
]
# `from landing` already covers the disk failures of `half rebuilt`, because the action is the same.
EVERY = [
    (scenario, way)
    for scenario in SCENARIOS
    for way in WAYS
    if (scenario, way) != ("half rebuilt", "failing disk")
    and (scenario not in AS_KILLED or way != "power cut")
]


@pytest.mark.parametrize(("scenario", "way", "count"), ALWAYS)
def test_an_interrupted_night_is_complete_or_absent(
    harness: Harness, record_property: Record, scenario: str, way: str, count: int
) -> None:
    """A night or recovery that is interrupted in the middle is whole or does not exist."""
    cases = spread(WAYS[way](harness, scenario), count)
    assert violations(harness, record_property, scenario, way, cases) == []


@pytest.mark.torture
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize(("scenario", "way"), EVERY)
def test_every_call_may_be_interrupted(
    harness: Harness, record_property: Record, scenario: str, way: str, shard: int
) -> None:
    """A scenario is whole or does not exist after every kill, power cut, ENOSPC and EIO.

    Power cuts that leave the same disk as a kill or a different cut are not repeated.
    """
    cases = WAYS[way](harness, scenario)[shard::SHARDS]
    if way == "power cut" and shard == 0:
        modelled = sum(1 for _ in power.states(harness.calls(scenario)))
        record_property("torture", [f"{scenario}, power cut", {"cuts": modelled}])
    assert violations(harness, record_property, scenario, way, cases) == []


@pytest.mark.torture
@pytest.mark.parametrize("scenario", AS_KILLED)
def test_a_power_cut_leaves_only_disks_that_a_kill_leaves(harness: Harness, scenario: str) -> None:
    """A power cut leaves only disks that a kill leaves too, because everything is fsynced in order.

    Without the fsyncs of files or of folders, it leaves other disks.
    """
    assert harness.cuts(scenario) == []
    assert all(harness.cuts("next", breach) for breach in ("no file fsync", "no folder fsync"))


@pytest.mark.parametrize("breach", some_daily(STRIKES, 4))
def test_the_harness_reports_a_missing_precaution(
    harness: Harness, record_property: Record, breach: str
) -> None:
    """The harness reports a problem if one of our precautions is missing, so it can fail."""
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
def test_readers_see_only_complete_books_during_a_run(
    harness: Harness, record_property: Record, sized: Sized
) -> None:
    """During a run, a connected reader sees no change, and new readers see the old or new book."""
    for scenario in itertools.islice((one for one in SCENARIOS if one != "first"), sized(2, 6)):
        for _ in range(sized(1, 5)):
            told = harness.read(scenario)
            assert told["problems"] == [], scenario
            assert told["reads"] >= 2
            record_property(
                "torture", ["readers during a run", {"runs": 1, "reads": told["reads"]}]
            )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_replay_of_a_run_recreates_its_disk(
    harness: Harness, scenario: str, sized: Sized
) -> None:
    """A replay of a run's calls makes exactly the disk of the run. Power cuts are based on this."""
    if scenario == "next" or sized(0, 1):
        assert harness.is_logged_whole(scenario)


def test_reading_an_unfinished_file_is_reported(harness: Harness, tmp_path: Path) -> None:
    """A program that reads or publishes a half-made file is reported.

    So disks that differ only in half-made files can count as one disk.
    """
    assert harness.peeks() == [".x.aside"]
    log = tmp_path / "log"
    log.write_text("create\t.a.aside\t\t0\t0\nread\t.a.aside\t\t0\t0\nread\t.b.aside\t\t0\t0\n")
    assert model.peeks(log, {".a.aside", ".b.aside"}) == [".b.aside"]
    log.write_text("rename\tv/.tmp-1\tv/1\t0\t0\n")
    assert model.peeks(log, {"v/.tmp-1/x"}) == ["v/1/x"]


def test_the_power_cut_model_tracks_unsynced_files_and_entries() -> None:
    """A file is dirty until its fsync, and an entry is pending until the fsync of its folder.

    A renamed file is dirty under its newest name.
    """
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
