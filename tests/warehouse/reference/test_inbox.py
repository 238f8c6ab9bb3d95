"""Tests of the files in `reference/`: which are received, and that none can stop a night."""

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.books import Amount
from tests.support.priced_books import NOW, ask, drop, prices, publish, read_at
from warehouse.reference import inbox
from warehouse.reference.child import refuse
from warehouse.reference.inbox import (
    DamagedInboxError,
    damaged_files,
    kept_file,
    kept_rows,
    receive,
    received_files,
)

BTC = "BTC,,USD,1,2026-11-20,manual"
NIGHTS = [read_at("20261120T021500Z", [Amount("2")])]


def codes(root: Path) -> dict[str, str]:
    """Return the code of each reject by file."""
    return {row["file"]: row["code"] for row in receive(root, NOW).reject_rows()}


def test_a_home_without_the_folder_gets_no_files(tmp_path: Path) -> None:
    """Without `reference/`, nothing is read or written."""
    assert receive(tmp_path / "reference", NOW).received == ()
    assert list(tmp_path.iterdir()) == []


def test_a_received_file_is_archived_and_stays_after_it_is_removed(tmp_path: Path) -> None:
    """The bytes are archived under their digest, and the rows stay after the file was removed."""
    path = drop(tmp_path, "a.csv", BTC)
    root, content = tmp_path / "reference", path.read_bytes()
    [file] = receive(root, NOW).received
    assert kept_file(root, "prices", file.sha256).read_bytes() == content
    path.unlink()
    layout = publish(tmp_path, NIGHTS)
    assert prices(layout) == {"BTC": "1"}
    assert ask(layout, "select is_present from ops.reference_files") == [(False,)]


def test_equal_bytes_are_received_once(tmp_path: Path) -> None:
    """A copy of a received file under another name is not received again."""
    drop(tmp_path, "a.csv", BTC)
    before = receive(tmp_path / "reference", NOW).received
    drop(tmp_path, "b.csv", BTC)
    assert receive(tmp_path / "reference", NOW + timedelta(days=1)).received == before


def test_each_file_is_later_than_the_files_before(tmp_path: Path) -> None:
    """Files have different times of receipt, even if the clock was set back."""
    for number in range(3):
        drop(tmp_path, f"{number}.csv", BTC.replace(",1,", f",{number + 1},"))
    receive(tmp_path / "reference", NOW)
    drop(tmp_path, "4.csv", BTC.replace(",1,", ",9,"))
    files = receive(tmp_path / "reference", NOW - timedelta(days=1)).received
    times = [file.received_at for file in files]
    assert times == sorted(set(times))
    assert files[-1].file == "4.csv"


def test_a_check_writes_nothing(tmp_path: Path) -> None:
    """A check reads the new files, but does not receive them."""
    drop(tmp_path, "a.csv", BTC)
    [file] = receive(tmp_path / "reference", NOW, is_check=True).received
    assert file.rows == 1
    assert not (tmp_path / "reference" / "kept").exists()


def _link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def _large(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10 * 1024**3)


@pytest.mark.parametrize(
    ("name", "make", "code"),
    [
        ("a.csv", _link, "link"),
        ("a.csv", os.mkfifo, "not_a_file"),
        ("a.csv", Path.mkdir, "not_a_file"),
        ("a.csv", _large, "too_large"),
        ("a.csv", Path.touch, "empty"),
        ("a.exe", Path.touch, "wrong_ending"),
    ],
)
def test_a_hostile_file_is_named_and_the_night_is_published(
    tmp_path: Path, name: str, make: Callable[[Path], None], code: str
) -> None:
    """Links, pipes, folders and large files are rejects, and the other files are loaded."""
    drop(tmp_path, "good.csv", BTC)
    make(tmp_path / "reference" / "prices" / name)
    assert codes(tmp_path / "reference") == {name: code}
    layout = publish(tmp_path, NIGHTS)
    assert prices(layout) == {"BTC": "1"}
    problems = "select code, title from ops.attention where code = 'reference'"
    assert ask(layout, problems) == [("reference", f"reference/prices/{name} was not used")]


def test_files_and_folders_with_other_names_are_named(tmp_path: Path) -> None:
    """A file next to the folders and a folder with a wrong name are rejects."""
    drop(tmp_path, "good.csv", BTC)
    root = tmp_path / "reference"
    (root / "loose.csv").touch()
    (root / "My Labels").mkdir()
    Path(os.fsdecode(os.fsencode(root) + b"/\xff")).mkdir()
    wrong = {"loose.csv": "not_a_folder", "My Labels": "wrong_table", "\\udcff": "wrong_table"}
    assert codes(root) == wrong


def test_a_file_that_grows_is_read_at_the_next_publish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that changes while it is read is not received."""
    path = drop(tmp_path, "a.csv", BTC)
    fstat = os.fstat

    def grow(descriptor: int) -> os.stat_result:
        os.utime(path, ns=(0, path.lstat().st_mtime_ns + 1))
        return fstat(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", grow)
        assert codes(tmp_path / "reference") == {"a.csv": "growing"}
    assert codes(tmp_path / "reference") == {}


def test_slow_files_do_not_delay_a_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time limit for all files, the others wait for the next publish."""
    drop(tmp_path, "a.csv", BTC)
    monkeypatch.setattr(inbox, "MAX_SECONDS", -1)
    assert codes(tmp_path / "reference") == {"a.csv": "too_late"}


def test_a_child_that_could_not_start_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file is not received if the child process was killed from outside."""
    drop(tmp_path, "a.csv", BTC)
    result = refuse("not_started", "killed")
    killed = type(result)(rejects=result.rejects, reject_count=1, is_final=False)
    with monkeypatch.context() as patch:
        patch.setattr(inbox, "read_file", lambda _: killed)
        assert codes(tmp_path / "reference") == {"a.csv": "not_started"}
    assert receive(tmp_path / "reference", NOW).received[0].rows == 1


def test_a_corrected_file_settles_the_problem_of_the_bad_one(tmp_path: Path) -> None:
    """A problem is only shown as long as the bad file is in its folder."""
    problems = "select title, message from ops.attention where code = 'reference'"
    drop(tmp_path, "a.csv", BTC, BTC.replace(",1,", ",x,"))
    layout = publish(tmp_path, NIGHTS)
    [(title, message)] = ask(layout, problems)
    assert title == "reference/prices/a.csv was not used completely"
    assert message.startswith("Line 3: price_text is not a number")
    drop(tmp_path, "a.csv", BTC)
    assert ask(publish(tmp_path, NIGHTS, "b"), problems) == []
    assert ask(layout, "select count(*) from ops.reference_rejects") == [(1,)]


def test_a_damaged_list_changes_nothing(tmp_path: Path) -> None:
    """If the list of files is damaged or lost, an error names it, and nothing is received."""
    drop(tmp_path, "a.csv", BTC)
    root = tmp_path / "reference"
    receive(root, NOW)
    index = root / "kept" / "files.json"
    index.write_text("[")
    with pytest.raises(DamagedInboxError, match="cannot be read"):
        receive(root, NOW)
    index.unlink()
    with pytest.raises(DamagedInboxError, match="is missing"):
        received_files(root)
    assert [path for path, _ in damaged_files(root)] == [index]


def test_damaged_files_of_the_archive_are_found(tmp_path: Path) -> None:
    """A changed file and a missing file of the archive are both reported."""
    drop(tmp_path, "a.csv", BTC)
    root = tmp_path / "reference"
    [file] = receive(root, NOW).received
    assert list(damaged_files(root)) == []
    kept_file(root, "prices", file.sha256).write_text("x")
    kept_rows(root, "prices", file.sha256).unlink()
    assert [problem for _, problem in damaged_files(root)] == ["has changed", "is missing"]


def test_a_folder_that_cannot_be_read_does_not_hide_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed folder and a file that vanishes are problems, and all other files are received."""
    drop(tmp_path, "a.csv", BTC)
    drop(tmp_path, "desks/a.csv", "portfolio_id,desk", "p1,Macro")
    gone = drop(tmp_path, "venues_/gone.csv", "venue_id,region", "v1,EU")
    listed, root = Path.iterdir, tmp_path / "reference"

    def iterdir(folder: Path) -> object:
        if folder.name == "desks":
            raise PermissionError(13, "Permission denied")
        return iter([*listed(folder)])

    monkeypatch.setattr(Path, "iterdir", iterdir)
    looked_at = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        status = looked_at(path)
        if path == gone:
            path.unlink()
        return status

    monkeypatch.setattr(Path, "lstat", lstat)
    assert codes(root) == {"desks": "unreadable", "gone.csv": "unreadable"}
    monkeypatch.undo()
    assert [file.table for file in receive(root, NOW).received] == ["prices", "desks"]
