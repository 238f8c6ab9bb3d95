"""Tests of the fingerprint: an old one names each night or decision that was changed since."""

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from pipelines.landing import snapshots
from pipelines.landing.damage import CHANGED, MISSING, SURPLUS, Damage
from pipelines.landing.fingerprint import (
    LIST,
    NIGHT,
    UnknownFingerprint,
    differences,
    entries_up_to,
    extend_chain,
    list_damage,
    newest_fingerprint,
)
from pipelines.landing.night_folders import MANIFEST
from pipelines.landing.snapshots import DECISION
from pipelines.landing.zone import PendingSnapshot
from tests.pipelines.maintenance.test_verify import flip
from warehouse.contract.states import ACCEPTED, HELD, PRUNED, REJECTED
from warehouse.storage.layout import Layout

START = datetime(2026, 9, 1, 2, 15, tzinfo=UTC)
NIGHTS = 60
SEEN = 50  # the number of nights at the fingerprint that an outsider holds


def land(layout: Layout, started: datetime, state: str = ACCEPTED) -> Path:
    """Land a night without responses, and decide it. Return its folder."""
    pending = PendingSnapshot(layout, started, ZoneInfo("UTC"))
    pending.finish(
        started + timedelta(minutes=1), (), origin="http://x", program_version="1", clock_skew_ms=0
    )
    decide(pending.folder, state, started + timedelta(minutes=2))
    return pending.folder


def decide(folder: Path, state: str, at: datetime) -> None:
    """Add a decision to a landed night."""
    snapshots.decide(snapshots.read(folder), state, by="guards", at=at, reasons=("why",))


def extend(layout: Layout) -> str:
    """Add everything that landed to the list. Return the newest fingerprint."""
    return extend_chain(layout, snapshots.landed_snapshots(layout))


@pytest.fixture(scope="module")
def sixty(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a home of 60 nights, and the fingerprint after 50 of them. Every tenth was held."""
    layout, seen = Layout(tmp_path_factory.mktemp("sixty")), ""
    for number in range(NIGHTS):
        started = START + timedelta(days=number)
        folder = land(layout, started, HELD if number % 10 == 3 else ACCEPTED)
        extend(layout)
        if number % 10 == 3:
            decide(folder, ACCEPTED, started + timedelta(hours=8))
            extend(layout)
        if number == SEEN - 1:
            seen = newest_fingerprint(layout) or ""
    return layout.home, seen


@pytest.fixture
def home(sixty: tuple[Path, str], tmp_path: Path) -> Layout:
    """Return a copy of the home of 60 nights."""
    shutil.copytree(sixty[0], tmp_path / "home")
    return Layout(tmp_path / "home")


def folder_of(layout: Layout, number: int) -> Path:
    """Return the folder of a night by its number, from 0."""
    return [night.folder for night in snapshots.landed_snapshots(layout)][number]


def found(layout: Layout, fingerprint: str) -> list[Damage]:
    """Return everything that differs from a fingerprint."""
    return list(differences(layout, entries_up_to(layout, fingerprint)))


def cut_byte(layout: Layout, number: int) -> tuple[str, str]:
    """Change a byte of a manifest."""
    folder = folder_of(layout, number)
    flip(folder / MANIFEST, 8 * 40)
    return folder.name, CHANGED


def cut_decision_byte(layout: Layout, number: int) -> tuple[str, str]:
    """Change a reason in a decision, and seal the file again, as a person could."""
    night = snapshots.read(folder_of(layout, number))
    changed = [msgspec.structs.replace(made, reasons=("other",)) for made in night.decisions]
    snapshots.write_decisions(night, changed)
    return night.snapshot_id, CHANGED


def remove_decision(layout: Layout, number: int) -> tuple[str, str]:
    """Remove a decision file."""
    folder = folder_of(layout, number)
    (folder / DECISION).unlink()
    return folder.name, MISSING


def remove_night(layout: Layout, number: int) -> tuple[str, str]:
    """Remove a night."""
    folder = folder_of(layout, number)
    shutil.rmtree(folder)
    return folder.name, MISSING


def insert_night(layout: Layout, number: int) -> tuple[str, str]:
    """Insert a night before another one, and let the next publish list it."""
    folder = land(layout, START + timedelta(days=number, hours=-3))
    extend(layout)
    return folder.name, SURPLUS


def insert_decision(layout: Layout, number: int) -> tuple[str, str]:
    """Insert a decision that claims to be from that night."""
    folder = folder_of(layout, number)
    decide(folder, REJECTED, START + timedelta(days=number, hours=9))
    extend(layout)
    return folder.name, SURPLUS


def reorder(layout: Layout, number: int) -> tuple[str, str]:
    """Exchange a night's decisions, so that the first one applies."""
    night = snapshots.read(folder_of(layout, number))
    snapshots.write_decisions(night, night.decisions[::-1])
    return night.snapshot_id, CHANGED


def exchange(layout: Layout, number: int) -> tuple[str, str]:
    """Exchange the manifests of two nights."""
    one, other = folder_of(layout, number), folder_of(layout, number + 1)
    first = (one / MANIFEST).read_bytes()
    (one / MANIFEST).write_bytes((other / MANIFEST).read_bytes())
    (other / MANIFEST).write_bytes(first)
    return one.name, CHANGED


def rewrite(layout: Layout, number: int) -> tuple[str, str]:
    """Replace a night by another one with the same ID, as a person with a program could."""
    folder = folder_of(layout, number)
    shutil.rmtree(folder)
    started = START + timedelta(days=number)
    PendingSnapshot(layout, started, ZoneInfo("UTC")).finish(
        started, (), origin="http://y", program_version="1", clock_skew_ms=0
    )
    return folder.name, CHANGED


CHANGES = (
    cut_byte,
    cut_decision_byte,
    remove_decision,
    remove_night,
    insert_night,
    insert_decision,
    exchange,
    rewrite,
)


@pytest.mark.parametrize("number", [0, 3, 21, 30, 48])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_each_change_of_a_night_is_named(
    home: Layout,
    sixty: tuple[Path, str],
    change: Callable[[Layout, int], tuple[str, str]],
    number: int,
) -> None:
    """Of forty changes to a home, an old fingerprint names the first night that differs."""
    assert not found(home, sixty[1])
    night, what = change(home, number)
    first = found(home, sixty[1])[0]
    assert (first.night, first.what) == (night, what)


@pytest.mark.parametrize("number", [3, 13, 43])
def test_reordered_decisions_are_named(home: Layout, sixty: tuple[Path, str], number: int) -> None:
    """If a held night's decisions are exchanged, its state changes, and the night is named."""
    assert snapshots.read(folder_of(home, number)).state == ACCEPTED
    night, what = reorder(home, number)
    assert snapshots.read(folder_of(home, number)).state == HELD
    [damage] = found(home, sixty[1])
    assert (damage.night, damage.what) == (night, what)


def test_a_cut_tail_is_named(home: Layout, sixty: tuple[Path, str]) -> None:
    """If the newest nights are removed, the oldest of them is named."""
    for number in range(NIGHTS - 1, SEEN - 4, -1):
        remove_night(home, number)
    first = found(home, sixty[1])[0]
    assert first.night == f"{START + timedelta(days=SEEN - 3):%Y%m%dT%H%M%SZ}"


def test_later_nights_do_not_change_an_old_fingerprint(
    home: Layout, sixty: tuple[Path, str]
) -> None:
    """Changes to nights after the fingerprint are not named, and pruning changes nothing."""
    cut_byte(home, SEEN + 2)
    for number in range(5):
        decide(folder_of(home, number), PRUNED, START + timedelta(days=900))
    extend(home)
    assert not found(home, sixty[1])


def test_an_old_decision_made_late_keeps_the_old_fingerprint(
    home: Layout, sixty: tuple[Path, str]
) -> None:
    """If an old night is rejected late, the old fingerprint holds and the new one differs."""
    newest = newest_fingerprint(home)
    decide(folder_of(home, 7), REJECTED, START + timedelta(days=400))
    assert extend(home) != newest
    assert not found(home, sixty[1])


def test_a_lost_list_is_written_again_with_the_same_fingerprints(home: Layout) -> None:
    """A home of any age gets the list that it would have had, if its clock was right."""
    newest = newest_fingerprint(home)
    (home.landing / LIST).unlink()
    assert newest_fingerprint(home) is None
    assert extend(home) == newest


def test_a_wrong_clock_does_not_break_an_old_fingerprint(tmp_path: Path) -> None:
    """A decision whose clock is behind the clock of its night is listed after what was known."""
    layout = Layout(tmp_path)
    folder = land(layout, START)
    seen = extend(layout)
    decide(folder, REJECTED, START + timedelta(minutes=3))
    land(layout, START + timedelta(days=1))
    extend(layout)
    assert not found(layout, seen)


def test_a_changed_list_is_named(home: Layout, sixty: tuple[Path, str]) -> None:
    """A changed digest in the list is named at its night, and a broken line is named too."""
    path = home.landing / LIST
    lines = path.read_bytes().splitlines(keepends=True)
    night = entries_up_to(home, sixty[1])[8]
    path.write_bytes(b"".join(lines).replace(night.digest.encode(), b"0" * 64))
    first = found(home, sixty[1])[0]
    assert (first.file, first.night) == (path, night.snapshot_id)
    path.write_bytes(b"".join(lines[:-2]) + b"{broken\n")
    assert [damage.file for damage in list_damage(home)] == [path]
    extend(home)
    assert not list(list_damage(home))
    assert not found(home, sixty[1])


def test_an_unknown_fingerprint_is_refused(home: Layout) -> None:
    """A fingerprint that belongs to no state of this home is an error with the reasons."""
    with pytest.raises(UnknownFingerprint, match="or to a newer state"):
        entries_up_to(home, "ab" * 32)


def test_a_home_rewritten_with_its_list_does_not_know_the_fingerprint(
    home: Layout, sixty: tuple[Path, str]
) -> None:
    """If somebody rewrites a night and then the whole list, the old fingerprint is not found."""
    rewrite(home, 12)
    (home.landing / LIST).unlink()
    extend(home)
    with pytest.raises(UnknownFingerprint, match="changed together with the list"):
        entries_up_to(home, sixty[1])


def test_a_damaged_manifest_does_not_stop_the_list(home: Layout) -> None:
    """A night whose manifest cannot be read is listed too, and its repair is a difference."""
    folder = land(home, START + timedelta(days=NIGHTS))
    manifest = (folder / MANIFEST).read_bytes()
    (folder / MANIFEST).write_bytes(b"{")
    seen = extend(home)
    (folder / MANIFEST).write_bytes(manifest)
    assert [damage.night for damage in found(home, seen)] == [folder.name]
    assert sum(entry.kind == NIGHT for entry in entries_up_to(home, seen)) == NIGHTS + 1
