"""Tests of the start of the program, which names the folder that hides one of our packages."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START = "import sys; from warehouse.start import main; sys.exit(main())"


def started(folder: Path, **more: str) -> "subprocess.CompletedProcess[str]":
    """Start the program in a folder as its console script does."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "-c", START, "--version"],
        cwd=folder,
        env=variables | more,
        capture_output=True,
        text=True,
        check=False,
    )


def hide(folder: Path, name: str) -> Path:
    """Create another project's package or module with the given name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("raise RuntimeError('another project was started')\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("package", ["assets", "pipelines"])
@pytest.mark.parametrize("file", ["{}/__init__.py", "{}.py"])
def test_a_package_of_another_project_is_named(tmp_path: Path, package: str, file: str) -> None:
    """If PYTHONPATH hides a package, the program names the folder, and starts neither."""
    other = hide(tmp_path / "other", file.format(package))
    said = started(tmp_path, PYTHONPATH=f"{tmp_path / 'none'}{os.pathsep}{other}")
    assert (said.returncode, said.stdout) == (2, "")
    assert f"Python finds the package {package} in {other}" in said.stderr
    assert "Remove that folder from PYTHONPATH" in said.stderr
    assert "Traceback" not in said.stderr


def test_a_package_in_the_working_folder_is_named(tmp_path: Path) -> None:
    """A package in the folder where the program starts is named if Python looks there first."""
    other = hide(tmp_path / "other", "assets/__init__.py")
    said = started(other, PYTHONSAFEPATH="")
    assert said.returncode == 2
    assert f"Move {other / 'assets'}" in said.stderr


def test_a_folder_without_code_causes_no_traceback(tmp_path: Path) -> None:
    """A folder of files that has the name of a package, such as a web project's, is reported.

    It hides nothing if a wheel is installed, but it hides a checkout that is installed as editable.
    """
    other = tmp_path / "other"
    (other / "assets").mkdir(parents=True)
    said = started(tmp_path, PYTHONPATH=str(other))
    is_named = said.returncode == 2 and f"the package assets in {other}" in said.stderr
    assert is_named or (said.returncode, said.stderr) == (0, "")


def test_the_program_starts_here() -> None:
    """The console script calls this module, which loads only the standard library by itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"nightbook": "warehouse.start:main"}
    program = "import sys, warehouse.start; print([n for n in sys.modules if 'click' in n])"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


@pytest.mark.parametrize("package", ["pipelines", "warehouse"])
@pytest.mark.parametrize("file", ["{}/__init__.py", "{}.py"])
@pytest.mark.parametrize("module", ["assets.cli", "assets.definitions"])
def test_assets_name_a_hidden_package(tmp_path: Path, package: str, file: str, module: str) -> None:
    """If Dagster or Python loads `assets`, it names the folder that hides another package."""
    other = hide(tmp_path / "other", file.format(package))
    said = subprocess.run(
        [sys.executable, "-P", "-m", module],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(other)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 1
    assert f"Python finds the package {package} in {other}" in said.stderr
    assert "another project was started" not in said.stderr
