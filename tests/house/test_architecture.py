"""Tests of imports between rooms, of the home of each framework, and of function sizes."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.syntax import parsed

ROOT = Path(__file__).parents[2]
ROOMS = ("assets", "pipelines", "warehouse")
# The modules of ours that each room may import. The longest matching name applies.
ARROWS = {
    "warehouse": ("warehouse",),
    "pipelines": (
        "pipelines",
        "warehouse.contract",
        "warehouse.exact",
        "warehouse.storage",
        "warehouse.progress",
        "warehouse.sql.catalog",
        "warehouse.sql.files",
    ),
    "pipelines.edge": ("pipelines.edge",),
    "pipelines.sandbox": ("pipelines.sandbox",),
    "assets": ("assets", "pipelines", "warehouse"),
}
# Each framework has one home, so that replacing it changes one room.
HOMES = {
    "dagster": ("assets",),
    "httpx": ("pipelines.edge",),
    "starlette": (
        "pipelines.sandbox",
        "assets.console.guard",
        "assets.runs.web",
        "assets.commands.serve",
    ),
    "uvicorn": ("pipelines.sandbox", "assets.runs.web", "assets.commands.serve"),
    "duckdb": ("warehouse",),
    "pandas": ("warehouse",),
    "xlsxwriter": ("warehouse",),
    "openpyxl": ("warehouse",),
    "dotenv": ("warehouse.storage.home",),
    "obstore": ("pipelines.lakehouse",),
    "pyiceberg": ("pipelines.lakehouse",),
    "sqlalchemy": ("pipelines.lakehouse",),
    "pyspark": ("pipelines.lakehouse.spark",),
}
# Few homes need this room, so a reader of the core never opens it. The other rooms import only its
# entrance, and among the pipelines, only the settings do.
LAKEHOUSE, ENTRANCE = "pipelines.lakehouse", "pipelines.lakehouse.entrance"
VISITORS = ("assets", "pipelines.settings")
# The only module that may use Dagster's private modules. It builds the web process by hand.
PRIVATE_DAGSTER = ("assets.runs.web",)
# The only command that may import Dagster, which takes longer than most commands.
USES_DAGSTER = "assets.commands.dev"
# Modules with vague names collect code that belongs elsewhere.
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base", "core"}
LONGEST_FUNCTION = 45


class Import(NamedTuple):
    """An import: its module and line, the imported name, and if it is inside a function."""

    module: str
    line: int
    name: str
    is_inside: bool


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the dotted name and the path of every module of the three rooms."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), path


def imports(root: Path) -> Iterator[Import]:
    """Yield every import of the three rooms."""
    for module, path in modules(root):
        tree = parsed(path.read_text(encoding="utf-8"))
        inside = {
            id(node)
            for function in ast.walk(tree)
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
            for node in ast.walk(function)
        }
        for node in ast.walk(tree):
            for name in _names(node):
                yield Import(module, getattr(node, "lineno", 0), name, id(node) in inside)


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        is_whole = node.module in (*ROOMS, LAKEHOUSE)
        return [f"{base}.{alias.name}" if is_whole else base for alias in node.names]
    return []


def loaded(root: Path, start: str) -> set[str]:
    """Return the names of all modules, ours and others, that importing a module loads."""
    known = dict(modules(root))
    found, waiting = set[str](), [start]
    while waiting:
        parts = waiting.pop().split(".")
        for count in range(1, len(parts) + 1):  # importing a module loads its packages too
            name = ".".join(parts[:count])
            if name not in found:
                found.add(name)
                waiting += _imports_at_start(known[name]) if name in known else []
    return found


def _imports_at_start(path: Path) -> list[str]:
    """Return the names that a module imports when it is loaded, not those for type checkers."""
    body = parsed(path.read_text(encoding="utf-8")).body
    nodes = [node for node in body if "TYPE_CHECKING" not in ast.unparse(node).partition("\n")[0]]
    return [name for node in nodes for inner in ast.walk(node) for name in _names(inner)]


def within(name: str, places: tuple[str, ...]) -> bool:
    """Return True if a dotted name is one of some places or inside one of them."""
    return any(name == place or name.startswith(f"{place}.") for place in places)


def complaints(root: Path) -> list[str]:
    """Return a message for each violation of the architecture."""
    found = []
    for one in imports(root):
        where = f"{one.module}:{one.line} imports {one.name}"
        top = one.name.partition(".")[0]
        if one.name.startswith("."):
            found.append(f"{where}: write the whole name")
        if one.is_inside:
            found.append(f"{where} inside a function: then the room is wrong")
        if top in ROOMS and not within(one.name, _allowed(one.module)):
            found.append(f"{where}; it may import only {', '.join(_allowed(one.module))}")
        if top in HOMES and not within(one.module, HOMES[top]):
            found.append(f"{where}, at home in {', '.join(HOMES[top])}")
        if within(one.name, (LAKEHOUSE,)) and not within(one.module, (LAKEHOUSE,)):
            found += [f"{where}, but {trespass}" for trespass in _trespasses(one)]
        if one.name.startswith("dagster._") and one.module not in PRIVATE_DAGSTER:
            found.append(f"{where}, which is Dagster's own: {' or '.join(PRIVATE_DAGSTER)} may")
    return found + _sizes(root)


def _trespasses(one: Import) -> Iterator[str]:
    """Yield a message if a module of a different room may not import this from the lakehouse."""
    if one.name != ENTRANCE:
        yield f"only {ENTRANCE} is for other rooms"
    elif not within(one.module, VISITORS):
        yield f"only {', '.join(VISITORS)} may"


def _allowed(module: str) -> tuple[str, ...]:
    rooms = [room for room in ARROWS if within(module, (room,))]
    return ARROWS[max(rooms, key=len)]


def _sizes(root: Path) -> list[str]:
    found = []
    for module, path in modules(root):
        text = path.read_text(encoding="utf-8")
        if module.rpartition(".")[2] in VAGUE:
            found.append(f"{module}: name it for what is in it")
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.FunctionDef):
                length = _lines(node) - sum(map(_lines, _inner(node)))
                if length > LONGEST_FUNCTION:
                    found.append(f"{module}.{node.name} has {length} lines")
    return found


def _lines(node: ast.FunctionDef) -> int:
    """Return the number of lines of a function without its docstring."""
    words = (ast.get_docstring(node, clean=False) or "").splitlines()
    return (node.end_lineno or 0) - node.lineno - len(words)


def _inner(node: ast.FunctionDef) -> list[ast.FunctionDef]:
    return [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.FunctionDef)]


def test_the_architecture_rules_hold() -> None:
    """Imports follow the arrows, frameworks stay at home, names are exact and functions short."""
    assert complaints(ROOT) == []


@pytest.mark.parametrize(
    ("room", "line", "words"),
    [
        ("warehouse", "from pipelines import landing", "may import only warehouse"),
        ("pipelines", "import duckdb", "at home in warehouse"),
        (
            "pipelines",
            "from warehouse.database.publication import publish_version",
            "may import only pipelines",
        ),
        ("pipelines/edge", "from pipelines import settings", "may import only pipelines.edge"),
        ("pipelines/sandbox", "from pipelines.edge import requests", "may import only"),
        ("warehouse", "import dagster", "at home in assets"),
        ("assets", "from dagster._core.errors import X", "Dagster's own: assets.runs.web"),
        ("assets", "def f():\n    import json", "inside a function"),
        ("assets", "from . import cli", "write the whole name"),
        ("assets", "from pipelines.lakehouse.proof import prove", "is for other rooms"),
        ("assets", "from pipelines.lakehouse import proof", "is for other rooms"),
        ("pipelines", "from pipelines.lakehouse import entrance", "pipelines.settings"),
    ],
)
def test_each_violation_of_the_architecture_is_reported(
    tmp_path: Path, room: str, line: str, words: str
) -> None:
    """Each rule fails on a deliberate violation, and its message names the module and the rule."""
    folder = tmp_path / room
    folder.mkdir(parents=True)
    (folder / "breach.py").write_text(f"{line}\n", encoding="utf-8")
    found = complaints(tmp_path)
    assert len(found) == 1
    assert words in found[0]
    assert "breach" in found[0]


def test_commands_load_no_lakehouse_if_no_object_store_is_set(tmp_path: Path) -> None:
    """Without NIGHTBOOK_LAKE, commands load only the entrance of the lakehouse."""
    code = """
import pkgutil, sys
from assets import commands
from assets.cli import main
for module in pkgutil.iter_modules(commands.__path__):
    __import__(f"assets.commands.{module.name}") if module.name != "dev" else None
for line in ("status", "doctor", "snapshots", "verify", "rebuild", "prune --keep 9"):
    main(line.split())
print("loaded:", *sorted(name for name in sys.modules if name.startswith("pipelines.lakehouse")))
"""
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "NIGHTBOOK_HOME": str(tmp_path / "home"), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"loaded: {LAKEHOUSE} {ENTRANCE}\n" in ran.stdout, ran.stdout + ran.stderr


def test_no_command_but_dev_imports_dagster(tmp_path: Path) -> None:
    """Neither the program nor a command, except `dev`, imports Dagster, not even indirectly."""
    commands = [name for name, _ in modules(ROOT) if name.startswith("assets.commands.")]
    for name in ("assets.cli", *commands):
        assert ("dagster" in loaded(ROOT, name)) == (name == USES_DAGSTER), name
    (tmp_path / "assets").mkdir()
    for name, text in (("a", "from assets import b"), ("b", "import dagster._core as core")):
        (tmp_path / "assets" / f"{name}.py").write_text(f"{text}\n", encoding="utf-8")
    assert {"assets.b", "dagster", "dagster._core"} <= loaded(tmp_path, "assets.a")


def test_a_vague_module_name_is_reported(tmp_path: Path) -> None:
    """A module with a vague name is reported."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "utils.py").write_text("", encoding="utf-8")
    assert complaints(tmp_path) == ["assets.utils: name it for what is in it"]


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (["ruff", "check", "--quiet"], "import os\n"),
        (["ruff", "format", "--check", "--quiet"], "x = {'a':1}\n"),
        (["mypy"], '"""M."""\n\n\ndef f(x):  # untyped\n    return x\n'),
    ],
)
def test_lint_rejects_bad_imports_format_and_types(
    tmp_path: Path, tool: list[str], text: str
) -> None:
    """`make lint` rejects an unused import, a misformatted line and an untyped function."""
    path = tmp_path / "breach.py"
    path.write_text(text, encoding="utf-8")
    command = [str(Path(sys.executable).parent / tool[0]), *tool[1:]]
    command += ["--config-file" if tool[0] == "mypy" else "--config", str(ROOT / "pyproject.toml")]
    ran = subprocess.run(
        [*command, str(path)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "breach.py" in ran.stdout + ran.stderr or tool[1:2] == ["format"]


def test_every_test_docstring_begins_with_a_sentence() -> None:
    """Each test has a docstring that begins with a sentence."""
    silent = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first = (ast.get_docstring(node) or "").split("\n\n")[0]
                if not first.endswith((".", "?", "!", ":")):
                    silent.append(f"{path.name}::{node.name}")
    assert silent == []


def test_no_file_names_a_registry_or_the_development_machine() -> None:
    """No tracked file names a package registry's host or a folder of the development machine."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    hosts = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "/wo" + "rk/ma" + "in"]
    named = [
        (path, host)
        for path in filter(None, listed.stdout.split("\0"))
        if (ROOT / path).is_file()
        for host in hosts
        if host in (ROOT / path).read_text(encoding="utf-8", errors="replace")
    ]
    assert named == []
