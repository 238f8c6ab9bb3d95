"""Tests of the layout: siblings import in one direction, and names are clear.

The exceptions of each rule are next to it, with their reasons. An exception that is not needed any
more is also a violation.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.house.syntax import parsed

ROOT = Path(__file__).parents[2]
ROOMS = ("assets", "pipelines", "warehouse")
# Endings of words that are past participles or are used like one.
PARTICIPLE = re.compile(
    r"(?:^|_)(?:\w+ed|begun|bought|bound|brought|built|chosen|done|drawn|driven|fallen|felt|found"
    r"|given|gone|got|heard|held|kept|known|laid|led|left|lost|made|meant|paid|put|read_back|risen"
    r"|said|seen|sent|shown|sold|sought|spent|stood|struck|sunk|swept|taken|taught|thrown|told|torn"
    r"|understood|won|worn|written)$"
)
# Nouns and verbs with such an ending, and names that other projects define.
NO_PARTICIPLE = {
    "embed": "a verb",
    "exceed": "a verb",
    "feed": "a noun",
    "need": "a verb",
    "seed": "a noun",
    "sliced": "of a hook of pandas, _constructor_sliced",
    "speed": "a noun",
}
# Class names that several modules have, each with the reason.
TWICE: Mapping[str, str] = {}


def _modules(root: Path, room: str) -> Iterator[tuple[Path, ast.Module]]:
    """Yield each module of a room with its syntax tree."""
    for path in sorted((root / room).rglob("*.py")):
        yield path.relative_to(root), parsed(path.read_text(encoding="utf-8"))


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _siblings(root: Path) -> dict[str, set[str]]:
    """Return, for each module or folder, the siblings that it imports."""
    arrows: dict[str, set[str]] = defaultdict(set)
    for room in ROOMS:
        for path, tree in _modules(root, room):
            own = path.with_suffix("").parts
            for name in _imports(tree):
                other = tuple(name.split("."))
                shared = 0
                while shared < min(len(own), len(other)) and own[shared] == other[shared]:
                    shared += 1
                if 0 < shared < min(len(own), len(other)):
                    target = "/".join(other[: shared + 1])
                    if (root / target).is_dir() or (root / target).with_suffix(".py").is_file():
                        arrows["/".join(own[: shared + 1])].add(target)
    return arrows


def knots(root: Path) -> Iterator[str]:
    """Yield a message for each set of siblings that import one another, even indirectly.

    The loop removes siblings that import none of the remaining siblings. All siblings that remain
    are in a cycle, or import one.
    """
    arrows = _siblings(root)
    left = set(arrows) | {name for names in arrows.values() for name in names}
    while free := {name for name in left if not arrows[name] & left}:
        left -= free
    # A sibling that no remaining sibling imports is not in a cycle, but imports one.
    while leaning := {name for name in left if not any(name in arrows[other] for other in left)}:
        left -= leaning
    for folder in sorted({name.rpartition("/")[0] for name in left}):
        tied = sorted(name for name in left if name.rpartition("/")[0] == folder)
        yield f"{', '.join(tied)} import one another: give the shared piece a lower home"


def misnomers(root: Path) -> Iterator[str]:
    """Yield a message for each module or function named by a participle, or variable `one`."""
    for room in ROOMS:
        for path, tree in _modules(root, room):
            if _is_participle(path.stem):
                yield f"{path}: a module is a noun"
            for node in ast.walk(tree):
                where = f"{path}:{getattr(node, 'lineno', 0)}"
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    if _is_participle(node.name):
                        yield f"{where} {node.name}: a function is a verb, or the noun of a value"
                elif _bound_name(node) == "one":
                    yield f"{where} one: a variable is the singular of its list"


def _is_participle(name: str) -> bool:
    bare = name.strip("_")
    return (
        bool(PARTICIPLE.search(bare))
        and not bare.startswith(("is_", "has_"))
        and bare.rpartition("_")[2] not in NO_PARTICIPLE
    )


def _bound_name(node: ast.AST) -> str | None:
    """Return the name that a node binds as a variable or a parameter."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else None


def namesakes(root: Path) -> Iterator[str]:
    """Yield a message for each class name in several modules, and each unneeded exception."""
    homes: dict[str, list[Path]] = defaultdict(list)
    for path, tree in (module for room in ROOMS for module in _modules(root, room)):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name.strip("_")].append(path)
    for name, paths in sorted(homes.items()):
        if len(paths) > 1 and name not in TWICE:
            yield f"{name} is a class of {', '.join(map(str, paths))}: one name, one thing"
    for name in TWICE:
        if len(homes.get(name, ())) == 1:
            yield f"{name} needs no exception any more"


RULES = (knots, misnomers, namesakes)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_layout_rules_hold(rule: type) -> None:
    """Siblings import in one direction, and names are plain and mean one thing."""
    assert list(rule(ROOT)) == []


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {
                "pipelines/pull/a.py": "from pipelines.landing import b",
                "pipelines/landing/b.py": "from pipelines.pull import a",
            },
            "pipelines/landing, pipelines/pull import one another",
        ),
        (
            {
                "warehouse/x/a.py": "from warehouse.y import b",
                "warehouse/y/b.py": "import warehouse.z.c",
                "warehouse/z/c.py": "from warehouse.x.a import d",
                "warehouse/top.py": "from warehouse.x import a",
            },
            "warehouse/x, warehouse/y, warehouse/z import one another",
        ),
        ({"warehouse/kept.py": ""}, "warehouse/kept.py: a module is a noun"),
        ({"warehouse/a.py": "def _row_told(): ..."}, "_row_told: a function is a verb"),
        ({"assets/a.py": "class A:\n    async def closed(self): ..."}, "closed: a function"),
        ({"assets/a.py": "x = [one for one in ()]"}, "one: a variable is"),
        ({"assets/a.py": "def f(one): ..."}, "one: a variable is"),
        (
            {"assets/a/b.py": "class Night: ...", "warehouse/c.py": "class _Night: ..."},
            "Night is a class of assets/a/b.py, warehouse/c.py",
        ),
    ],
)
def test_each_violation_of_the_layout_is_reported(
    tmp_path: Path, files: Mapping[str, str], words: str
) -> None:
    """Each rule fails on a deliberate violation, and its message says what to do."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
    found = [breach for rule in RULES for breach in rule(tmp_path)]
    assert len(found) == 1
    assert words in found[0]
