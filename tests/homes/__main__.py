"""A script that makes a home with the code of a commit: `python -m tests.homes COMMIT`.

The home has two accepted nights and a held night. Both accepted nights were reconciled, commented
on and signed, and their month is closed. The archive leaves out run history and older versions of
the warehouse, because they are large and no contract describes them.

The archives `landing-COMMIT.tar.xz` contain only the landing folders of older homes.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOMES = Path(__file__).parent
KEPT = ("landing", "lake", "reconcile", "warehouse")
COMMIT = "7cedac2d"  # the last commit before version 0.2.0
NIGHTS = """
import sys
from datetime import date
from pathlib import Path
from tests.support.operator_home import Keeper, sandbox
from tests.support.reconciliation_home import Desk
from warehouse.reconcile import service
sys.path.append(sys.argv[2])
from world import SmallWorld
FIRST = date(2026, 3, 3)
with sandbox() as shown:
    keeper = Keeper(Path(sys.argv[1]), shown)
    desk = Desk(keeper.home)
    for day, fault in ((3, ()), (4, ()), (5, ("portfolios-empty",))):
        night = date(2026, 3, day)
        shown.clock.night(night)
        shown.show(*fault, world=SmallWorld())
        said = keeper.run(night)
        assert said.code == (3 if fault else 0), said
        if fault:
            continue
        shown.clock.night(night, 9)
        service.rehearse(keeper.layout.database, desk.folder.root, first=FIRST)
        assert keeper("reconcile", "run").code == 3
        for role, who in (("preparer", "Ada"), ("reviewer", "Bo")):
            said = keeper("reconcile", "sign", "--role", role, "--who", who)
            assert said.code == 0, said
        first, second, *_ = [one["id"] for one in desk.breaks(night)]
        cells = {
            first: {"Status": "Explained - accepted", "Comment": "a known unit"},
            second: {"Status": "Waiting", "Owner": "Ada", "Root cause": "Timing"},
        }
        book = desk.folder.day_files(night).workbook
        desk.edit(book, cells, book.with_name("edited.xlsx"))
    said = keeper("reconcile", "close", "2026-03")
    assert said.code == 0, said
"""


def make(commit: str) -> Path:
    """Make the home of a commit's code, and return the archive in which it is stored."""
    target = HOMES / f"{commit}.tar.xz"
    with tempfile.TemporaryDirectory() as folder:
        code, home = Path(folder, "code"), Path(folder, "home")
        archive = subprocess.run(
            ["git", "archive", commit], cwd=ROOT, capture_output=True, check=True
        )
        code.mkdir()
        subprocess.run(["tar", "x", "-C", str(code)], input=archive.stdout, check=True)
        subprocess.run(
            [sys.executable, "-P", "-c", NIGHTS, str(home), str(HOMES)],
            cwd=code,
            env=os.environ | {"PYTHONPATH": str(code)},
            check=True,
        )
        _pack(home, target)
    return target


def _pack(home: Path, target: Path) -> None:
    current = home / "warehouse" / "current"
    shown = (home / "warehouse" / current.readlink()).name
    with tarfile.open(target, "w:xz", preset=9) as tar:
        for name in KEPT:
            if (home / name).exists():
                tar.add(home / name, name, filter=lambda entry: _kept(entry, shown))


def _kept(entry: tarfile.TarInfo, shown: str) -> tarfile.TarInfo | None:
    """Select the files of a home: of the versions of the warehouse, only the published one."""
    parts = Path(entry.name).parts
    if parts[:2] == ("warehouse", "versions") and len(parts) > 2 and parts[2] != shown:
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    for commit in sys.argv[1:] or (COMMIT,):
        file = make(commit)
        print(f"{file}: {file.stat().st_size:,} bytes")
