"""Tests that messages are not keys: different wordings of all messages change no decision."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import reworded

pytestmark = pytest.mark.torture

# There are about 1,600 messages. Fewer would mean that the rewording no longer finds them.
FEWEST_REWORDED = 1_200


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Continue one home with the program as it is, and with the program in different words."""
    folder = tmp_path_factory.mktemp("wording")
    reworded.begin(folder / "home")
    return {mode: _go_on(folder, mode) for mode in ("plain", "reworded")}


def _go_on(folder: Path, mode: str) -> dict[str, Any]:
    home = folder / mode / "home"
    shutil.copytree(folder / "home", home, symlinks=True)
    command = [sys.executable, "-m", "tests.support.reworded", mode, str(home)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def test_rewording_messages_changes_no_decision(
    ends: dict[str, dict[str, Any]],
) -> None:
    """Lessons apply, the same nights are held, and breaks keep their IDs, ages and digests."""
    plain, other = (dict(ends[mode]["decided"]) for mode in ("plain", "reworded"))
    assert ends["reworded"]["reworded"] > FEWEST_REWORDED
    assert plain.pop("messages") != other.pop("messages")
    assert plain == other
    assert all(plain[name] for name in plain if name != "annotations")


def test_the_compared_nights_depend_on_lessons_and_guards(
    ends: dict[str, dict[str, Any]],
) -> None:
    """The comparison would prove nothing if no night were held and no lesson were used."""
    states = [(row[2], row[3]) for row in ends["plain"]["decided"]["decisions"]]
    assert ("accepted", "guards") in states
    assert states[-1] == ("held", "guards")
    known = [row for row in ends["plain"]["decided"]["reasons"] if row[-1] == "True"]
    assert known
