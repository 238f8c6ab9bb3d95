"""Commands in the messages of the product, collected from the source code."""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOMS = ("assets", "pipelines", "warehouse")
PROGRAMS = ("command_for", "full_command", "program", "me", "start", "command")
# The end of a command without code marks in a sentence. It does not apply inside quotes.
_END = r"[;:,?)\n\"]|\.(?:\s|$)|\s\(|\s{3}|</code>|\*\*|\|"
_UNENCLOSED = re.compile(rf"(?:'[^']*'|\"[^\"{{}}]*\"|(?!{_END}).)*", re.DOTALL)
_NAMED = re.compile(
    r"(?P<before>`|<code>|)\bnightbook (?P<rest>(?:--[a-z]+ )?[a-z]+\b.*)", re.DOTALL
)
_VALUE = "\x00"


class PrintedCommand(NamedTuple):
    """A command from a message, without the program. If `is_enclosed`, it had code marks."""

    origin: str
    text: str
    is_enclosed: bool

    @property
    def words(self) -> list[str]:
        """Return the command as a shell splits it.

        An option that a message adds at run time has no space before it, and is left out.
        """
        text = re.sub(rf"(?<=[a-z]){_VALUE}(?=\s|$)", "", self.text)
        return shlex.split(text.replace(_VALUE, "VALUE"))


def in_messages(root: Path, names: set[str]) -> Iterator[PrintedCommand]:
    """Yield every command in the strings of the product. Docstrings are not messages."""
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for line, text in _strings(tree):
                yield from in_text(f"{path.relative_to(root)}:{line}", text, names)
            for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
                words = _arguments(call)
                if words:
                    yield PrintedCommand(
                        f"{path.relative_to(root)}:{call.lineno}", shlex.join(words), True
                    )


def _strings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each string except docstrings, with one character for each inserted value."""
    nodes = list(ast.walk(tree))
    parts = {
        child
        for node in nodes
        if isinstance(node, ast.Expr | ast.JoinedStr | ast.FormattedValue)
        for child in ast.iter_child_nodes(node)
    }
    for node in nodes:
        if node in parts:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(map(_part, node.values))


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.FormattedValue)
    name = ast.unparse(node.value).partition("(")[0]
    return "nightbook" if name in PROGRAMS else _VALUE


def _arguments(call: ast.Call) -> list[str]:
    """Return the arguments of a call of `full_command` after the home."""
    if not isinstance(call.func, ast.Name) or call.func.id != "full_command":
        return []
    rest = [arg.value if isinstance(arg, ast.Starred) else arg for arg in call.args[1:]]
    if not all(isinstance(arg, ast.Constant | ast.JoinedStr | ast.Attribute) for arg in rest):
        return []
    return [str(arg.value) if isinstance(arg, ast.Constant) else _VALUE for arg in rest]


def in_text(origin: str, text: str, names: set[str]) -> Iterator[PrintedCommand]:
    """Yield every command in a text."""
    position = 0
    while found := _NAMED.search(text, position):
        position = found.start("rest")
        rest, before = found["rest"], found["before"]
        first = next((word for word in rest.split() if not word.startswith("-")), "")
        if first.rstrip(".,;:)`") not in names:
            continue
        if before:
            end = rest.find("`" if before == "`" else "</code>")
            yield PrintedCommand(origin, rest[: end if end >= 0 else None].split("#")[0], True)
        else:
            found_end = _UNENCLOSED.match(rest)
            yield PrintedCommand(origin, found_end[0] if found_end else "", False)
