"""Tests of `exports/latest/`: fixed names, the newest book, replaced as a whole."""

import hashlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from assets.nightbook import Nightbook
from assets.publishing import publish
from pipelines.landing import snapshots
from tests.crash import nights
from warehouse.contract.states import REJECTED
from warehouse.export.export import export
from warehouse.export.latest import renew
from warehouse.storage.layout import Layout

FILES = {"accounts.csv", "assets.csv", "holdings.csv", "positions.xlsx"}
WRITES = {"open", "os.rename", "os.symlink", "os.link", "os.remove", "os.mkdir", "os.rmdir"}


class Killed(BaseException):
    """The process ends here. Only the test catches this."""


class Killer:
    """Raises `Killed` at the given call that changes a file below a folder."""

    def __init__(self) -> None:
        self.folder, self.left = "", -1
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.left < 0 or event not in WRITES or self.folder not in str(arguments[0]):
            return
        if event == "open" and arguments[1] == "r":
            return
        self.left -= 1
        if self.left < 0:
            raise Killed

    @contextmanager
    def at(self, folder: Path, call: int) -> Iterator[None]:
        """Kill at a call with this number, from 0."""
        self.folder, self.left = str(folder), call
        try:
            yield
        finally:
            self.left = -1


KILLER = Killer()


@pytest.fixture
def layout(two_nights: Path, tmp_path: Path) -> Layout:
    """Return a copy of a home with two published nights."""
    shutil.copytree(two_nights, tmp_path / "home", symlinks=True)
    return Layout(tmp_path / "home")


def book_at(layout: Layout, number: int) -> Nightbook:
    """Return the home at the time of a night."""
    return nights.nightbook(layout.home, nights.Clock(nights.at(number)))


def renewed(layout: Layout, rows: int | None = None) -> dict[str, Any]:
    """Renew the files, and return the night."""
    renew(layout.exports, layout.database, program_version="1", workbook_rows=rows)
    return whole(layout.exports)


def whole(exports: Path) -> dict[str, Any]:
    """Return the night, after checking each file against its digest."""
    folder = (exports / "latest").resolve()
    night: dict[str, dict[str, dict[str, object]]] = json.loads(
        (folder / "night.json").read_bytes()
    )
    assert {path.name for path in folder.iterdir()} == {*night["files"], "night.json"}
    for name, facts in night["files"].items():
        content = (folder / name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (
            facts["bytes"],
            facts["sha256"],
        )
    return night


def test_the_files_have_the_newest_book(layout: Layout) -> None:
    """The files are equal to an export of the newest book, with its rows and version."""
    night = renewed(layout)
    assert night["snapshot_id"] == nights.at(1).strftime("%Y%m%dT%H%M%SZ")
    assert night["version"] == layout.database.resolve().parent.name
    files = night["files"]
    assert set(files) == FILES
    exported = export(
        layout.database,
        layout.exports / "other",
        as_of=None,
        formats=("csv", "xlsx"),
        program_version="1",
    )
    by_name = {path.name.partition("-")[0] + path.suffix: path for path in exported.files}
    people = {path.name.partition("-")[0]: path for path in exported.files if "people" in path.name}
    assert by_name["positions.xlsx"].is_file()
    for name in ("holdings", "accounts", "assets"):
        latest = (layout.exports / "latest" / f"{name}.csv").read_bytes()
        assert latest == people[name].read_bytes()
        assert files[f"{name}.csv"]["rows"] == exported.rows[name.title()]


def test_a_version_with_the_same_book_changes_only_the_night_file(layout: Layout) -> None:
    """If a new version has the same book and prices, the files stay, and the version is new."""
    before = renewed(layout)
    inode = (layout.exports / "latest/holdings.csv").stat().st_ino
    publish.refresh(book_at(layout, 2))
    after = renewed(layout)
    assert (layout.exports / "latest/holdings.csv").stat().st_ino == inode
    assert before["version"] != after["version"]
    assert before["files"] == after["files"]


def test_an_edited_file_is_replaced_with_the_next_version(layout: Layout) -> None:
    """If a person saved a file in a spreadsheet, the next version replaces it."""
    before = renewed(layout)
    (layout.exports / "latest/holdings.csv").write_bytes(b"saved by hand")
    (layout.exports / "latest/assets.csv").unlink()
    publish.refresh(book_at(layout, 2))
    after = renewed(layout)
    # The workbook names the version that it was made from.
    assert {name: facts for name, facts in after["files"].items() if name != "positions.xlsx"} == {
        name: facts for name, facts in before["files"].items() if name != "positions.xlsx"
    }


def test_a_withdrawn_night_is_replaced_by_the_night_before(layout: Layout) -> None:
    """If the newest night is rejected, the files have the book before it, then none."""
    first = renewed(layout)
    for expected in (nights.at(0).strftime("%Y%m%dT%H%M%SZ"), None):
        night = [one for one in snapshots.landed_snapshots(layout) if one.state != REJECTED][-1]
        publish.decide(book_at(layout, 3), night.snapshot_id, REJECTED, by="ann", why="wrong")
        found = renewed(layout)
        assert found["snapshot_id"] == expected
        assert found["fingerprint"] != first["fingerprint"]
    assert found["files"] == {}
    assert found["notices"] == [
        "The home does not have a book, so this is the only file. See nightbook snapshots."
    ]


def test_long_tables_are_left_out_by_name(layout: Layout) -> None:
    """A table with more rows than a nightly workbook may have is left out and named."""
    night = renewed(layout, rows=1)
    files = night["files"]
    assert set(files) == {"assets.csv", "positions.xlsx"}
    assert set(night["left_out"]) == {"Accounts", "Holdings"}


def test_what_a_killed_command_left_is_removed(layout: Layout) -> None:
    """A folder that a killed command left is removed by the next one."""
    (layout.exports / ".latest-left").mkdir(parents=True)
    renewed(layout)
    assert [path.name for path in layout.exports.glob(".latest-*")] == [
        (layout.exports / "latest").readlink().name
    ]


def test_a_kill_at_any_write_leaves_the_old_or_the_new_files(
    layout: Layout, sized: Callable[[int, int], int]
) -> None:
    """After a kill at each write, the files are whole and of one night, and the next try ends."""
    old = renewed(layout)
    nights.run(layout.home, nights.at(2))
    seen, copies, call = set(), layout.home.parent / "exports", 0
    shutil.copytree(layout.exports, copies, symlinks=True)
    while True:
        shutil.rmtree(layout.exports)
        shutil.copytree(copies, layout.exports, symlinks=True)
        try:
            with KILLER.at(layout.exports, call):
                renewed(layout)
        except Killed:
            seen.add(str(whole(layout.exports)["snapshot_id"]))
            call += sized(8, 1)
        else:
            break
    new = renewed(layout)
    assert seen == {old["snapshot_id"], new["snapshot_id"]}
    assert call > 30
    assert len(list(layout.exports.glob(".latest-*"))) == 1
