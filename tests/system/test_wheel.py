"""Tests of the wheel: it contains all needed files, and a fresh environment can run its demo."""

import shutil
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("assets", "pipelines", "warehouse")
# The files that are needed to build a wheel.
SOURCES = ("pyproject.toml", "README.md", "LICENSE", *ROOMS)


def _run(command: list[str], folder: Path, *, code: int = 0) -> str:
    ran = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel offline from a copy of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    _run([*pip, "--no-index", "-w", "made", "."], folder)
    [made] = (folder / "made").glob("*.whl")
    return made


@pytest.mark.torture
def test_a_wheel_has_type_markers_and_all_needed_files(wheel: Path) -> None:
    """Each package has `py.typed`, and only pictures and Markdown pages may be missing."""
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {f"{room}/py.typed" for room in ROOMS} <= names
    here = {
        path.relative_to(ROOT).as_posix()
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".png"}
    }
    assert {name for name in here - names if not name.endswith(".md")} == set()


@pytest.mark.torture
def test_an_installed_wheel_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    """The demo runs offline from an empty folder, with only the wheel and its dependencies."""
    fresh, empty = tmp_path / "fresh", tmp_path / "empty"
    venv.create(fresh, with_pip=True)
    python, program = str(fresh / "bin" / "python"), str(fresh / "bin" / "nightbook")
    empty.mkdir()
    _run([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", str(wheel)], empty)
    # The dependencies are those of the tests. The path file points to them, not to this tree.
    [packages] = (fresh / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{site.getsitepackages()[0]}\n", encoding="utf-8")
    where = _run([python, "-c", "import assets, warehouse; print(assets.__file__)"], empty)
    assert where.startswith(str(packages))
    assert _run([program, "--version"], empty).startswith("nightbook 0.")
    assert "NIGHTBOOK_API_URL" in _run([program, "doctor"], empty, code=2)
    assert "Next:" in _run([program, "demo"], empty)
    assert "holdings" in _run([program, "tables"], empty)
    assert (
        _run([program, "query", "select count(*) > 0 as x from holdings", "--format", "csv"], empty)
        == "x\ntrue\n"
    )
    _run([program, "verify"], empty)
