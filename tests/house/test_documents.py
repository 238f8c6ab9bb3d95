"""Tests of the pages: commands run, settings and Makefile targets exist, and nothing is missing."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from assets.commands.command_line import command_line
from assets.console.command_names import COMMANDS
from pipelines import lakehouse, settings
from pipelines.edge import access
from tests.house.pages import EVERY_TEXT, ROOT, WRITTEN, blocks, queries
from tests.support.commands import EVERY_COMMAND
from warehouse.contract import states
from warehouse.reconcile.settings.layout import LAYOUT

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
LONGEST_README = 180


def typed() -> list[str]:
    """Return the commands of console blocks, which work in a folder in which the demo was run."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def shown() -> Iterator[str]:
    """Yield each nightbook command of a shell block, in any page."""
    for block in blocks("sh"):
        for line in block.splitlines():
            if line.startswith("nightbook "):
                yield line


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run `nightbook demo` in a folder as the README says, and return the folder."""
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


def test_readme_is_short() -> None:
    """The README fits in a few screens. Longer texts have their own pages."""
    assert README.count("\n") <= LONGEST_README


def test_every_page_can_be_reached_from_the_readme() -> None:
    """Each page that people wrote can be reached by links from the README."""
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        links = re.findall(r"\]\(([^)#\s]+\.md)", page.read_text(encoding="utf-8"))
        found = {(page.parent / link).resolve() for link in links if "://" not in link}
        waiting += sorted(found - reached)
    forms = {page for page in WRITTEN if "TEMPLATE" in str(page)}  # GitHub shows these itself
    assert set(WRITTEN) - forms <= reached


def test_every_table_in_a_page_begins_with_its_titles() -> None:
    """A table begins with its titles and a rule. Rows below an empty line would be mere text."""
    for page in WRITTEN:
        lines = ["", *page.read_text(encoding="utf-8").splitlines(), ""]
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
            if line.startswith("|") and not before.startswith("|"):
                assert re.fullmatch(r"\|[-| :]+\|", after), f"{page.relative_to(ROOT)}: {line}"


def test_the_diagram_of_a_night_has_every_state() -> None:
    """The handbook's diagram has each state of a snapshot, and a transition to it."""
    [drawn] = [text for text in blocks("mermaid") if text.startswith("stateDiagram")]
    reached = set(re.findall(r"--> (\w+)", drawn))
    known = {states.COMPLETE, states.ACCEPTED, states.HELD, states.REJECTED, states.PRUNED}
    assert known <= reached


def is_kept(path: Path) -> bool:
    """Return True if a path is a file of the tree, and not a cache of a file that moved."""
    return path.is_file() and "__pycache__" not in path.parts


def test_the_readme_tree_names_every_folder() -> None:
    """The README's tree of the rooms has exactly the folders of each room."""
    for room in ("warehouse", "pipelines", "assets"):
        [line] = re.findall(rf"^{room}/ .*\n +(.*)$", README, re.MULTILINE)
        folders = {
            path.name
            for path in (ROOT / room).iterdir()
            if path.is_dir() and any(map(is_kept, path.rglob("*")))
        }
        assert {name.rstrip("/") for name in line.split()} == folders, room


def test_console_commands_work_after_the_demo(folder: Path) -> None:
    """Every command of a console block succeeds in a folder in which the demo was run."""
    assert len(typed()) >= 5
    for line in typed():
        ran = _run(shlex.split(line), folder)
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        assert ran.stdout.strip(), line


@pytest.mark.parametrize("line", dict.fromkeys(shown()))
def test_the_command_line_accepts_every_command_of_a_page(line: str) -> None:
    """The command line accepts each command of a shell block, with its options."""
    invocation = command_line.main(shlex.split(line, comments=True)[1:], standalone_mode=False)
    assert invocation.words[0] in COMMANDS


def test_every_make_target_and_module_of_a_page_exists() -> None:
    """Each `make` or `python -m` of a page names a target, a module and options that exist."""
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    lines += re.findall(r"`((?:make|python -m) [^`]+)`", EVERY_TEXT)
    for line in lines:
        match shlex.split(line, comments=True):
            case ["make", door]:
                assert re.search(rf"^{door}:", MAKEFILE, re.MULTILINE), line
            case ["python", "-m", "pytest", path, "--golden-update"]:
                assert (ROOT / path).exists(), line
            case ["python", "-m", module, *options]:
                place = ROOT.joinpath(*module.split("."))
                source = place / "__main__.py" if place.is_dir() else place.with_suffix(".py")
                text = source.read_text(encoding="utf-8")
                named = [word for word in options if word.startswith("--") and word != "--help"]
                assert all(f'"{word}"' in text for word in named), line
            case [] | ["nightbook" | "cp", *_]:
                pass  # an empty line, a command that is tested above, or a copy
            case words:
                raise AssertionError(f"nothing holds that this works: {words}")


@pytest.mark.torture
def test_commands_that_the_demo_prints_can_be_pasted(folder: Path) -> None:
    """The queries and commands that the demo prints work, and the files that it names exist."""
    printed = (folder / "demo.txt").read_text(encoding="utf-8")
    commands = re.findall(r"^  \S*nightbook (.+?)(?: {2,}.*)?$", printed, re.MULTILINE)
    assert len(commands) >= 6
    for line in commands:
        words = shlex.split(line)
        if words[-1] in ("dev", "sandbox"):
            continue  # they run until Ctrl-C, and tests/assets starts them
        ran = _run(["nightbook", *words], folder)
        wanted = 3 if words[-2:] == ["reconcile", "run"] else 0  # the demo has breaks
        assert ran.returncode == wanted, f"{line}\n{ran.stdout}{ran.stderr}"
    files = re.findall(r"^  (/\S+\.(?:duckdb|xlsx|html))", printed, re.MULTILINE)
    assert len(files) >= 3
    assert all(Path(file).is_file() for file in files)


def test_every_query_of_a_page_works_on_the_demo(folder: Path) -> None:
    """Every statement of an SQL block, and every typed query, works on the demo's warehouse."""
    database = folder / "data" / "warehouse" / "current" / "nightbook.duckdb"
    assert len(queries()) >= 10
    with duckdb.connect(str(database), read_only=True) as connection:
        for statement in queries():
            connection.execute(statement).fetchall()


def test_the_own_check_of_the_demo_runs(folder: Path) -> None:
    """The demo's own check runs and finds something, as the pages show."""
    database = folder / "data" / "warehouse" / "current" / "nightbook.duckdb"
    with duckdb.connect(str(database), read_only=True) as connection:
        found = dict(connection.execute("select kind, words from ops.own_findings").fetchall())
    assert "own_check_failed" not in found
    assert "own_check" in found


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_in_the_table_of_commands(command: str) -> None:
    """Every command is in the table of commands, so that people can find it."""
    is_there = re.search(rf"^\| .*`nightbook {command}\b", EVERY_TEXT, re.MULTILINE)
    assert is_there, f"add {command} to the table of commands in assets/OPERATING.md"


def test_every_option_of_a_page_exists() -> None:
    """No page names an option that the command line does not have."""
    options = [option for command in EVERY_COMMAND.values() for option in command.params]
    known = {name for option in options for name in option.opts}
    named = set(re.findall(r"nightbook[^`\n]*?(--[a-z-]+)", EVERY_TEXT))
    assert named <= known | {"--home", "--debug"}


def test_every_setting_is_in_the_table_of_settings() -> None:
    """The table of settings has exactly the variables that are read, and .env.example no others."""
    readers = [Path(str(module.__file__)) for module in (settings, access, lakehouse)]
    source = "".join(path.read_text(encoding="utf-8") for path in readers)
    read = set(re.findall(r"NIGHTBOOK_[A-Z_]*[A-Z]", source))
    told = set(re.findall(r"^\| `(NIGHTBOOK_[A-Z_]+)`", EVERY_TEXT, re.MULTILINE))
    assert read == told
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert set(re.findall(r"NIGHTBOOK_[A-Z_]+", example)) <= read


def test_every_layout_setting_is_in_the_page_for_finance() -> None:
    """FINANCE.md shows each setting for the layout of a ledger."""
    page = (ROOT / "warehouse" / "reconcile" / "FINANCE.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"`([a-z_]+)(?: = [^`]+)?`", page))
    assert set(LAYOUT.split()) <= shown


def test_every_default_is_in_the_table_of_settings() -> None:
    """The defaults in the table of settings are the defaults of the code."""
    for name, value in settings.DEFAULTS.items():
        assert re.search(rf"^\| `{name}` \|.*\| `{re.escape(value)}` \|$", EVERY_TEXT, re.MULTILINE)


def test_every_make_target_is_in_a_page() -> None:
    """The pages list each target of the Makefile, and no other."""
    doors = set(re.findall(r"^([a-z]+):.*?## ", MAKEFILE, re.MULTILINE)) - {"help", "lock", "clean"}
    assert doors == set(re.findall(r"^\| `make ([a-z]+)`", EVERY_TEXT, re.MULTILINE))
