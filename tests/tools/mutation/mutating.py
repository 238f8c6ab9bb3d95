"""mutmut, without changes to texts for people. It runs inside the copy that is mutated.

    python mutating.py PACKAGES SHARE SEED RESULT [NAMES]

`PACKAGES` is the folder in which mutmut is installed. Python searches it last, so that the tests
use nightbook's own versions. The script tries a seeded share of the mutants. `RESULT` becomes a
JSON object: the number of mutants and, by the name of each mutant that was tried, its outcome, and
its difference if it survived. `NAMES` is a file of names: if it is given, the script tries exactly
these mutants, as far as they exist.
"""

import json
import random
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.append(sys.argv[1])

import libcst as cst  # type: ignore[import-not-found]  # only in the side environment
from mutmut import __main__ as mutmut  # type: ignore[import-not-found]  # the same
from mutmut.mutation import file_mutation, mutators  # type: ignore[import-not-found]  # the same


def is_text(node: cst.CSTNode) -> bool:
    """Return True if a node is prose: a string with a space, a choice of such, or `__str__`."""
    if isinstance(node, cst.FunctionDef):
        return bool(node.name.value == "__str__")
    if isinstance(node, cst.IfExp):
        return is_text(node.body) or is_text(node.orelse)
    if isinstance(node, cst.ConcatenatedString):
        return is_text(node.left) or is_text(node.right)
    if isinstance(node, cst.FormattedString):
        return any(isinstance(p, cst.FormattedStringText) and " " in p.value for p in node.parts)
    return isinstance(node, cst.SimpleString) and " " in node.value


def arguments(node: cst.Call) -> Iterable[cst.Call]:
    """Yield calls with an argument changed or removed, but never a text."""
    texts = [one for one in node.args if is_text(one.value)]
    for mutated in mutators.operator_arg_removal(node):
        if all(any(text is one for one in mutated.args) for text in texts):
            yield mutated


def assignments(node: Any) -> Iterable[cst.CSTNode]:
    """Yield mutated assignments, but never in place of a text."""
    if node.value is not None and not is_text(node.value):
        yield from mutators.operator_assignment(node)


NAMES = 5  # the index of the file of names among the arguments
NO_TESTS_RAN = (
    255  # the exit code if not even the import succeeded, although mutmut calls it a timeout
)
OURS: dict[Callable[..., Any], Callable[..., Any]] = {
    mutators.operator_arg_removal: arguments,
    mutators.operator_assignment: assignments,
}


def leave_texts_alone() -> None:
    """Change mutmut so that no mutant differs from the original only in a text."""
    operators = [(kind, OURS.get(one, one)) for kind, one in mutators.mutation_operators]
    file_mutation.mutation_operators = operators
    visitor = file_mutation.MutationVisitor
    skips = visitor._skip_node_and_children

    def skipped(self: Any, node: cst.CSTNode) -> bool:
        return is_text(node) or skips(self, node)

    visitor._skip_node_and_children = skipped


def hold_imports_against_all() -> None:
    """Change mutmut so that it tries functions that run during imports with every test.

    mutmut assigns these functions to the first test, and would try them only with that test. The
    quickest tests run first.
    """
    collect = mutmut.collect_or_load_stats

    def collected(*given: Any, **named: Any) -> None:
        collect(*given, **named)
        durations = mutmut.state().duration_by_test
        everything = sorted(durations, key=durations.__getitem__)
        first = next(iter(durations))
        held = mutmut.state().tests_by_mangled_function_name
        for name, tests in held.items():
            all_of_them = first in tests
            held[name] = {one: None for one in everything if all_of_them or one in tests}

    mutmut.collect_or_load_stats = collected


def all_mutants() -> list[str]:
    """Write the mutants, and return the names of all."""
    Path("mutants").mkdir(exist_ok=True)
    mutmut.copy_src_dir()
    mutmut.copy_also_copy_files()
    mutmut.setup_source_paths()
    mutmut.create_mutants(1)
    found, _ = mutmut.collect_source_file_mutation_data(mutant_names=())
    return sorted(name for _, name, _ in found)


def outcomes(names: list[str]) -> dict[str, dict[str, str]]:
    """Return the outcomes of these mutants, and the differences of the survivors."""
    found, _ = mutmut.collect_source_file_mutation_data(mutant_names=names)
    told = {}
    for data, name, code in found:
        outcome = "killed" if code == NO_TESTS_RAN else mutmut.status_by_exit_code[code]
        lives = outcome not in {"killed", "timeout", "segfault"}
        diff = mutmut.get_diff_for_mutant(name, path=data.path) if lives else ""
        told[name] = {"outcome": outcome, "difference": diff}
    return told


def main() -> None:
    """Try a share of the mutants of the copy in the current directory."""
    share, seed, result = float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    leave_texts_alone()
    everything = all_mutants()
    size = max(1, round(len(everything) * share))
    names = sorted(random.Random(seed).sample(everything, size))
    if len(sys.argv) > NAMES:
        hold_imports_against_all()
        names = sorted(set(everything) & set(Path(sys.argv[NAMES]).read_text("utf-8").split()))
    print(f"{len(everything)} mutants, {len(names)} tried", flush=True)
    if names and share:
        mutmut._run(names, 1)
    tried = outcomes(names) if names and share else {}
    told = {"mutants": len(everything), "tried": tried}
    result.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    main()
