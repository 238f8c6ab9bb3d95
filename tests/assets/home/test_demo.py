"""Tests of a demo's home: a demo deletes no other data, and only one runs at a time."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from assets.home.demo import is_demo, make_demo, the_demo
from pipelines.landing.lock import hold_writer_lock
from tests.support.operator_home import Keeper
from warehouse.storage.layout import Layout

NOW = datetime(2026, 3, 6, 9, tzinfo=UTC)


def tree(home: Path) -> dict[Path, bytes]:
    """Return all files and folders with their content. A folder's content is empty."""
    return {path: path.read_bytes() if path.is_file() else b"" for path in home.rglob("*")}


@pytest.mark.parametrize("place", ["landing", "warehouse", "exports", "reconcile", ".work"])
def test_a_demo_deletes_nothing_in_an_unmarked_folder(
    nights: Keeper, tmp_path: Path, place: str
) -> None:
    """In a folder with a home's subfolder but no demo marker, a demo writes and deletes nothing."""
    keeper = Keeper(tmp_path / "clone", nights.sandbox)
    file = keeper.home / place / "__init__.py"
    file.parent.mkdir(parents=True)
    file.write_text("of somebody else")
    before = tree(keeper.home)
    said = keeper("demo")
    assert (said.code, said.out) == (2, "")
    assert f"clone contains {place}, " in said.err
    assert "Nothing was deleted or written" in said.err
    assert tree(keeper.home) == before


def test_a_demo_deletes_nothing_if_landing_is_empty(copied: Keeper) -> None:
    """If the landing folder is empty, as on an unmounted disk, a demo deletes nothing."""
    shutil.rmtree(copied.layout.landing)
    copied.layout.landing.mkdir()
    before = tree(copied.home)
    said = copied("demo")
    assert (said.code, said.out) == (2, "")
    assert "landing, lake, warehouse" in said.err
    assert tree(copied.home) == before


def test_a_demo_json_with_other_content_is_not_a_marker(nights: Keeper, tmp_path: Path) -> None:
    """A demo.json with other content is not a demo's marker, so a demo deletes nothing."""
    keeper = Keeper(tmp_path, nights.sandbox)
    (tmp_path / "demo.json").write_text('{"what": "a demo of a website"}')
    (tmp_path / "reports").mkdir()
    before = tree(tmp_path)
    said = keeper("demo")
    assert (said.code, said.out) == (2, "")
    assert "contains reports, demo.json, " in said.err
    assert tree(tmp_path) == before


def test_a_killed_demo_can_start_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A demo marks its home before it deletes anything, so that a killed demo can start over."""
    layout = Layout(tmp_path)

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", die)
        with pytest.raises(KeyboardInterrupt):
            make_demo(layout)
    assert is_demo(layout)
    (layout.lake / "balances").mkdir(parents=True)
    make_demo(layout)
    assert is_demo(layout)
    assert not layout.lake.exists()


def test_a_second_demo_in_a_home_deletes_nothing(nights: Keeper, tmp_path: Path) -> None:
    """While a demo or a writer works in a home, a second demo deletes nothing and says why."""
    keeper = Keeper(tmp_path / "demo", nights.sandbox)
    with the_demo(keeper.layout, NOW):
        (keeper.layout.landing / "2026-03-06").mkdir(parents=True)
        before = tree(keeper.home)
        said = keeper("demo")
        assert (said.code, said.out) == (1, "")
        assert "the demo, process" in said.err
        assert tree(keeper.home) == before
    with hold_writer_lock(keeper.layout, "taking the snapshot of 2026-03-06", NOW):
        said = keeper("demo")
        assert (said.code, said.out) == (1, "")
        assert "taking the snapshot of 2026-03-06, process" in said.err
        assert (keeper.layout.landing / "2026-03-06").exists()


def test_demo_next_rejects_a_home_with_real_nights(copied: Keeper) -> None:
    """In a home with real nights, `demo --next` writes nothing and says that it is not a demo."""
    before = tree(copied.home)
    said = copied("demo", "--next")
    assert (said.code, said.out) == (2, "")
    assert "does not contain a demo" in said.err
    assert tree(copied.home) == before
