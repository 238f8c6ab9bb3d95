"""A stranger finds the way: small folders, one-way siblings, names that say what they are.

Each rule has its exceptions beside it, with the reason; an exception that is not needed any more is
a breach too.
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
MOST_ENTRIES = 12
# Folders that hold more, each with the reason.
FULL = {"assets/commands": "one module for each command, named as it is typed"}
# Endings of words that are a past participle, or are used like one.
PARTICIPLE = re.compile(
    r"(?:^|_)(?:\w+ed|begun|bought|bound|brought|built|chosen|done|drawn|driven|fallen|felt|found"
    r"|given|gone|got|heard|held|kept|known|laid|led|left|lost|made|meant|paid|put|read_back|risen"
    r"|said|seen|sent|shown|sold|sought|spent|stood|struck|sunk|swept|taken|taught|thrown|told|torn"
    r"|understood|won|worn|written)$"
)
# Words that end so and are nouns or verbs, and names that belong to somebody else.
NO_PARTICIPLE = {
    "embed": "a verb",
    "exceed": "a verb",
    "feed": "a noun",
    "need": "a verb",
    "seed": "a noun",
    "speed": "a noun",
}
# A class name that several modules have, each with the reason.
TWICE: Mapping[str, str] = {}


def _modules(root: Path, room: str) -> Iterator[tuple[Path, ast.Module]]:
    """Return each module of a room with its syntax tree."""
    for path in sorted((root / room).rglob("*.py")):
        yield path.relative_to(root), parsed(path.read_text(encoding="utf-8"))


def crowds(root: Path) -> Iterator[str]:
    """Name each folder with more entries than a reader takes in at a glance, and stale excuses."""
    counts = {}
    for room in ROOMS:
        for folder in (root / room, *(path for path in (root / room).rglob("*") if path.is_dir())):
            entries = {
                path.name
                for path in folder.glob("*")
                # Notebooks are pages to read, and no code that others import.
                if path.name not in {"__pycache__", "__init__.py", "notebooks"}
                and (
                    path.suffix in {".py", ".sql"}
                    or (
                        path.is_dir()
                        and any(child.name != "__pycache__" for child in path.iterdir())
                    )
                )
            }
            is_sql = any(name.endswith(".sql") for name in entries)
            # A folder of SQL is a list by design: one file for each view, macro or check.
            counts[folder.relative_to(root).as_posix()] = 0 if is_sql else len(entries)
    for name, count in sorted(counts.items()):
        if count > MOST_ENTRIES and name not in FULL:
            yield f"{name} has {count} entries: find the capability that makes a folder of its own"
    for name in FULL:
        if name in counts and counts[name] <= MOST_ENTRIES:
            yield f"{name} needs no exception any more"


def _imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _siblings(root: Path) -> dict[str, set[str]]:
    """Return, for each module or folder, which of those beside it it imports."""
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
    """Name each set of siblings that import one another, directly or on a way round.

    Siblings are untied one after the other: who imports nothing that is left goes first. What
    cannot go is in a cycle, or leans on one.
    """
    arrows = _siblings(root)
    left = set(arrows) | {name for names in arrows.values() for name in names}
    while free := {name for name in left if not arrows[name] & left}:
        left -= free
    # What nobody who is left imports only leans on a cycle.
    while leaning := {name for name in left if not any(name in arrows[other] for other in left)}:
        left -= leaning
    for folder in sorted({name.rpartition("/")[0] for name in left}):
        tied = sorted(name for name in left if name.rpartition("/")[0] == folder)
        yield f"{', '.join(tied)} import one another: give the shared piece a lower home"


def misnomers(root: Path) -> Iterator[str]:
    """Name each module and function that is a bare participle, and each variable `one`."""
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
    """Name each class name that stands in two modules, and stale excuses."""
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


RULES = (crowds, knots, misnomers, namesakes)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_layout_holds(rule: type) -> None:
    """Folders are small, siblings import one way, names are plain and mean one thing."""
    assert list(rule(ROOT)) == []


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({f"assets/runs/m{n}.py": "" for n in range(13)}, "assets/runs has 13 entries"),
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
        (
            {"assets/commands/run.py": ""},
            "assets/commands needs no exception any more",
        ),
    ],
)
def test_a_breach_of_the_layout_is_named(
    tmp_path: Path, files: Mapping[str, str], words: str
) -> None:
    """Each rule fails on a deliberate breach, and says what to do."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
    found = [breach for rule in RULES for breach in rule(tmp_path)]
    assert len(found) == 1
    assert words in found[0]
