"""A program whose messages are all reworded, and the nights that it runs.

    python -m tests.support.reworded plain|reworded HOME

`reworded` loads our packages with other words in every message, then runs the last two nights of a
home and prints the decisions that followed from them as JSON. `plain` does the same unchanged.
"""

import ast
import importlib.abc
import importlib.machinery
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

ROOMS = ("assets", "pipelines", "warehouse")
# Other words for words that occur in most messages, but not in SQL or in code.
WORDS: Mapping[str, str] = {
    "the": "this one",
    "The": "This one",
    "was": "had been",
    "were": "had been",
    "has": "owns",
    "have": "own",
    "are": "seem",
    "cannot": "will never",
    "it": "that thing",
    "this": "that",
    "expected": "hoped for",
    "indicates": "hints at",
    "shows": "displays",
    "contains": "includes",
    "differ": "disagree",
    "missing": "absent",
    "empty": "void",
}
_WORD = re.compile(rf"(?<![\w./`'-])(?:{'|'.join(WORDS)})(?![\w./`'=-])")
# Calls whose first argument is a stored code that looks like a sentence, and classes of codes.
CODES_FIRST = {"Defect", "Hint", "DateDoubt"}
CODE_CLASSES = {"Enum", "StrEnum"}
# Not messages: patterns, markup and lists of words.
_OTHER = re.compile(r"[\\|<>^$]|\(\?")


class _Rewording(ast.NodeTransformer):
    """A transformer that rewords every message, but not docstrings and codes."""

    def __init__(self) -> None:
        self.count = 0

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        bases = {
            base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")
            for base in node.bases
        }
        return node if bases & CODE_CLASSES else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id in CODES_FIRST:
            code, *others = node.args
            node.args = [code, *(self.visit(other) for other in others)]
            return node
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        text = node.value
        if not isinstance(text, str) or text.count(" ") < 2 or _OTHER.search(text):
            return node
        changed = _WORD.sub(lambda word: WORDS[word[0]], text)
        self.count += changed != text
        return ast.copy_location(ast.Constant(changed), node)


class _Loader(importlib.machinery.SourceFileLoader):
    """A loader that rewords the messages of a module before it compiles the module."""

    def get_code(self, fullname: str) -> CodeType:
        """Return the code, never from the bytecode cache."""
        path = self.get_filename(fullname)
        rewording = _Rewording()
        tree = rewording.visit(ast.parse(self.get_data(path)))
        reworded_counts[fullname] = rewording.count
        return compile(ast.fix_missing_locations(tree), path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    """A finder that selects the loader above for the modules of our packages."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the usual specification with our loader."""
        del target
        if fullname.partition(".")[0] not in ROOMS:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


reworded_counts: dict[str, int] = {}
FAULTS = ("meta-cursor", "account-repeated", "field-missing-everywhere", "amount-number")


def begin(home: Path) -> None:
    """Run a good night and a night that a person accepts, then reconcile, edit and sign."""
    # Imported here, because `main` must first install the finder that rewords messages.
    from tests.support.operator_home import FIRST, SECOND, Keeper, sandbox  # noqa: PLC0415
    from warehouse.reconcile import service  # noqa: PLC0415

    with sandbox() as shown:
        keeper = Keeper(home, shown)
        keeper.run(FIRST)
        shown.show(*FAULTS)
        assert keeper.run(SECOND).code == 3
        [(held,)] = keeper.ask("select snapshot_id from ops.snapshots where state = 'held'")
        assert keeper("accept", held, "--why", "we know these").code == 0
        service.rehearse(keeper.layout.database, home / "reconcile")
        assert keeper("reconcile", "run").code == 3
        assert keeper("reconcile", "sign", "--role", "preparer", "--who", "Ada").code == 0


def go_on(home: Path) -> dict[str, Any]:
    """Run a night with the same faults and a night with other faults. Return the decisions."""
    # Imported here, because `main` must first install the finder that rewords messages.
    from assets.monitoring.conditions import find_alerts  # noqa: PLC0415
    from tests.support.operator_home import FIRST, FOURTH, THIRD, Keeper, sandbox  # noqa: PLC0415
    from warehouse.reconcile import service  # noqa: PLC0415

    with sandbox() as shown:
        keeper = Keeper(home, shown)
        shown.show(*FAULTS)
        keeper.run(THIRD)
        service.rehearse(keeper.layout.database, home / "reconcile", first=FIRST)
        keeper("reconcile", "run")
        shown.show("portfolio-vanished", "amount-nan", "unknown-bucket-odd")
        keeper.run(FOURTH)
        rows = {name: keeper.ask(query) for name, query in QUERIES.items()}
        causes = sorted(alert.cause for alert in find_alerts(keeper.nightbook))
    return {
        **{name: [[str(cell) for cell in row] for row in found] for name, found in rows.items()},
        "alerts": causes,
    }


QUERIES = {
    "decisions": (
        "select snapshot_id, decision_no, state, decided_by from ops.decisions order by all"
    ),
    "reasons": "select * exclude (words) from ops.reasons order by all",
    "lessons": "select * exclude (words) from ops.lessons order by all",
    "rejects": (
        "select snapshot_id, regexp_replace(path, '[0-9]+', '', 'g'), carries_money, count(*) "
        "from ops.rejects group by all order by all"
    ),
    "drift": "from ops.drift_by_night order by all",
    "findings": (
        "select snapshot_date, severity, kind, portfolio_id, venue_id from history.findings "
        "order by all"
    ),
    "reconciliations": "select * exclude (run_at) from ops.reconciliations order by all",
    "breaks": "select * exclude (cause, note) from ops.breaks order by all",
    "annotations": "select * exclude (said_at, value) from ops.annotations order by all",
    "messages": "select words from ops.reasons order by all",
    "signatures": "select * exclude (signed_at) from ops.signoffs order by all",
    "totals": "from history.holdings_by_asset order by all",
}


def main(mode: str, home: str) -> None:
    """Print the decisions of the last nights, and the number of reworded messages."""
    if mode == "reworded":
        sys.meta_path.insert(0, _Finder())
    decided = go_on(Path(home))
    print(json.dumps({"decided": decided, "reworded": sum(reworded_counts.values())}))


if __name__ == "__main__":
    main(*sys.argv[1:])
