"""A script that recreates the homes under test: `python -m tests.homes [COMMIT ...]`.

The code of the last commit of each contract makes one home, in a separate checkout, with the
packages of this environment: two accepted nights, one held night, and a reconciliation. The
archive contains the landing folder, the lake, the reconciliation and the published version. It
leaves out run history and older versions, because they are large and no contract describes them.
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
COMMITS = {
    "8cfc5bb": "before a night said how still it stood",
    "553f3e1": "before ops.breaks, ops.annotations and ops.signoffs",
    "b19cb15": "before the compression of columns was named",
    "67ecda9": "before names of accounts were pressed in another way",
    "6c70bdc": "before a night in the lake said by which contract it was made",
}
# The last home before all modules moved. The rules changed later, so a run rebuilds its nights.
BEFORE_THE_MOVE = "12e8951"
NIGHTS = """
import shutil, sys
from datetime import date
from pathlib import Path
from tests.keeper import Keeper, sandbox
sys.path.append(sys.argv[2])
from world import SmallWorld
with sandbox() as shown:
    keeper = Keeper(Path(sys.argv[1]), shown)
    for day, fault in ((3, ()), (4, ()), (5, ("portfolios-empty",))):
        shown.show(*fault, world=SmallWorld())
        said = keeper.run(date(2026, 3, day))
        assert said.code == (3 if fault else 0), said
        if day == 4:
            shown.clock.night(date(2026, 3, day), 9)
            assert keeper("reconcile", "init").code == 0
            folder = keeper.home / "reconcile"
            template = next(folder.glob("*.xlsx"))
            shutil.copy(template, folder / "inbox" / "ledger_2026-03-04.xlsx")
            said = keeper("reconcile", "run")
            assert said.code in (0, 3), said
            print(said.out)
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
    for commit in sys.argv[1:] or (*COMMITS, BEFORE_THE_MOVE):
        file = make(commit)
        print(f"{file}: {file.stat().st_size:,} bytes, {COMMITS.get(commit, '')}")
