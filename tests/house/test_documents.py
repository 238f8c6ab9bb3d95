"""What the documents say is so: commands run, settings and doors exist, nothing is left out."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from assets.cli import COMMANDS
from pipelines import settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def typed() -> list[str]:
    """What the README tells people to type, and what works at once."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `nightbook demo` was run as the README says."""
    place = tmp_path_factory.mktemp("newcomer")
    ran = _run(["nightbook", "demo"], place)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""
    (place / "demo.txt").write_text(ran.stdout, encoding="utf-8")
    return place


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    binaries = Path(sys.executable).parent
    clean = {name: value for name, value in os.environ.items() if "NIGHTBOOK" not in name}
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    program = str(binaries / command[0])
    return subprocess.run(
        [program, *command[1:]],
        cwd=folder,
        env=clean | {"PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_readme_commands_work_after_the_demo(folder: Path) -> None:
    """Every command of a console block ends well in a folder where the demo was run."""
    assert len(typed()) >= 5
    for line in typed():
        ran = _run(shlex.split(line), folder)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        assert ran.stdout.strip(), line


def test_what_the_demo_prints_can_be_pasted(folder: Path) -> None:
    """The queries and commands that the demo prints work, and the files that it names are there."""
    printed = (folder / "demo.txt").read_text(encoding="utf-8")
    commands = re.findall(r"^  \S*nightbook (.+?)(?: {2,}.*)?$", printed, re.MULTILINE)
    assert len(commands) >= 6
    for line in commands:
        words = shlex.split(line)
        if words[-1] in ("dev", "sandbox"):
            continue  # they stay up until Ctrl-C: tests/assets starts them
        ran = _run(["nightbook", *words], folder)
        wanted = 3 if words[-2:] == ["reconcile", "run"] else 0  # breaks are planted
        assert ran.returncode == wanted, f"{line}\n{ran.stdout}{ran.stderr}"
    files = re.findall(r"^  (/\S+\.(?:duckdb|xlsx|html))", printed, re.MULTILINE)
    assert len(files) >= 3
    assert all(Path(file).is_file() for file in files)


def test_readme_queries_answer(folder: Path) -> None:
    """Every statement of an SQL block answers on the demo's warehouse."""
    database = folder / "data" / "warehouse" / "current" / "nightbook.duckdb"
    statements = [one for block in blocks("sql") for one in block.split(";") if one.strip()]
    assert len(statements) >= 5
    with duckdb.connect(str(database), read_only=True) as connection:
        for statement in statements:
            connection.execute(statement).fetchall()


@pytest.mark.parametrize("command", [one.name for one in COMMANDS])
def test_every_command_is_in_the_readme(command: str) -> None:
    """A command that is not in the table of commands is not there for anybody."""
    assert re.search(rf"^\| .*`nightbook {command}\b", README, re.MULTILINE), command


def test_every_option_is_in_the_readme_or_help() -> None:
    """The README names no option that the command line does not have."""
    known = {name for one in COMMANDS for argument in one.arguments for name in argument.names}
    named = set(re.findall(r"nightbook[^`\n]*?(--[a-z-]+)", README))
    assert named <= known | {"--home", "--debug"}


def test_every_setting_is_in_the_readme() -> None:
    """Each variable that is read stands in the table of settings and in .env.example, and back."""
    source = Path(settings.__file__).read_text(encoding="utf-8")
    read = set(re.findall(r"NIGHTBOOK_[A-Z_]*[A-Z]", source))
    told = set(re.findall(r"^\| `(NIGHTBOOK_[A-Z_]+)`", README, re.MULTILINE))
    assert read == told
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"NIGHTBOOK_[A-Z_]+", example)) <= read


def test_every_default_is_in_the_readme() -> None:
    """The defaults in the table of settings are those that are used."""
    for name, value in settings.DEFAULTS.items():
        assert re.search(rf"^\| `{name}` \|.*\| `{re.escape(value)}` \|$", README, re.MULTILINE)


def test_every_door_is_in_the_readme() -> None:
    """Each door of the Makefile that the README names is there, and the other way round."""
    doors = set(re.findall(r"^([a-z]+):.*?## ", MAKEFILE, re.MULTILINE)) - {"help", "lock", "clean"}
    assert doors == set(re.findall(r"^\| `make ([a-z]+)`", README, re.MULTILINE))
