"""`make mutants`: small changes to the code, one at a time, to find tests that are missing.

    python -m tests.tools.mutation [ROOM ...] [--share 0.2] [--seed 1] [--only FILE] [--to FILE]

A room is one of `tests/tools/mutation/rooms.py`. Without a room, all of them are mutated, in a copy
of the checkout. Texts for people are not mutated, and neither are functions with a decorator
(mutmut leaves them out). The exit code is 1 if the tests of a room notice fewer than nine of ten
mutants.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.tools.mutation.rooms import ROOMS, Room

ROOT = Path(__file__).parents[3]
SIDE = ROOT / ".side" / "mutants"
MUTATING = Path(__file__).parent / "mutating.py"
COPIED = ("assets", "pipelines", "warehouse", "tests")
WANTED = 0.9
# Outcomes in which the tests notice a mutant. Any other outcome is a survivor.
NOTICED = ("killed", "timeout", "segfault")
SPINNER = tuple("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")


def main() -> int:
    """Mutate the rooms, and print each room's score and survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutation")
    parser.add_argument("rooms", nargs="*", choices=[*ROOMS, []], metavar="ROOM")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=Path, help="try the mutants named in this file")
    parser.add_argument("--to", type=Path, help="keep the survivors' differences in this file")
    arguments = parser.parse_args()
    if not (SIDE / "ready").is_file():
        print("The side environment mutants is not there: make .side/mutants/ready")
        return 2
    scores = []
    if arguments.to:
        arguments.to.unlink(missing_ok=True)
    for name in arguments.rooms or ROOMS:
        found = _mutated(ROOMS[name], arguments.share, arguments.seed, arguments.only)
        tried, first = len(found["tried"]), _alive(found)
        slow = sum(what["outcome"] == "timeout" for what in found["tried"].values())
        print(f"{name}: {tried} tried; {len(first)} live and are met by all tests", flush=True)
        lives = _afresh(ROOMS[name], first)
        scores.append((tried - len(lives)) / max(1, tried))
        print(
            f"{name}: {found['mutants']} mutants, {tried} tried (seed {arguments.seed}), "
            f"{tried - len(lives)} noticed ({slow} as they never ended), {scores[-1]:.1%}",
            flush=True,
        )
        for one, what in lives.items():
            print(f"  {what['outcome']}: {one}", flush=True)
        if arguments.to:
            with arguments.to.open("a", encoding="utf-8") as kept:
                kept.writelines(f"# {one}\n{what['difference']}\n" for one, what in lives.items())
    return int(min(scores) < WANTED)


def _alive(found: dict[str, Any]) -> dict[str, Any]:
    return {one: what for one, what in found["tried"].items() if what["outcome"] not in NOTICED}


def _afresh(room: Room, lives: dict[str, Any]) -> dict[str, Any]:
    """Return the survivors that also survive fresh imports and slow tests.

    The first round shares one import, including all values that the functions computed at import.
    """
    if not lives:
        return lives
    with tempfile.NamedTemporaryFile("w", prefix="nightbook-survivors-") as names:
        names.write("\n".join(lives))
        names.flush()
        return _alive(_mutated(room, 1.0, 1, Path(names.name), is_afresh=True))


def _mutated(
    room: Room, share: float, seed: int, only: Path | None, *, is_afresh: bool = False
) -> dict[str, Any]:
    """Return the outcomes of a room's mutants, which are tried in a copy of the checkout."""
    with tempfile.TemporaryDirectory(prefix="nightbook-mutants-") as folder:
        copy = Path(folder)
        for name in COPIED:
            leave = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, copy / name, ignore=leave)
        shutil.copy(ROOT / "pyproject.toml", copy)
        (copy / "setup.cfg").write_text(_settings(room, is_afresh=is_afresh), encoding="utf-8")
        packages = next((SIDE / "lib").glob("python3*/site-packages"))
        result = copy / "result.json"
        command = [sys.executable, str(MUTATING), str(packages), str(share), str(seed), str(result)]
        command += [str(only.absolute())] if only else []
        log = copy / "mutmut.log"
        with log.open("w", encoding="utf-8") as out:
            ran = subprocess.run(
                command, cwd=copy, env=_environment(), stdout=out, stderr=out, check=False
            )
        if ran.returncode or not result.is_file():
            sys.exit(f"mutmut ended with {ran.returncode}:\n{_said(log)}")
        told: dict[str, Any] = json.loads(result.read_text("utf-8"))
        return told


def _said(log: Path) -> str:
    """Return the end of mutmut's output, without its spinner."""
    lines = log.read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if line[:1] not in SPINNER)[-3000:]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _without(room: Room, *, is_afresh: bool) -> tuple[str, ...]:
    left_out = room.without + (() if is_afresh else room.slow)
    return ("-k", "not " + " and not ".join(left_out)) if left_out else ()


def _settings(room: Room, *, is_afresh: bool = False) -> str:
    """Return the settings of mutmut. It reads setup.cfg if pyproject.toml has none for it."""
    lists = {
        "source_paths": COPIED[:-1],
        "only_mutate": room.modules,
        "pytest_add_cli_args_test_selection": room.tests,
        # mutmut stops an endless loop after (duration of its tests + constant) * multiplier. The
        # constant is long enough to import everything on a busy machine.
        "timeout_multiplier": ("3",),
        "timeout_constant": ("30" if is_afresh else "5",),
        "process_isolation": ("forkserver" if is_afresh else "fork",),
        "forkserver_warmup": ("none",),
        "pytest_add_cli_args": ("-p", "no:cacheprovider", *_without(room, is_afresh=is_afresh)),
    }
    lines = ["[mutmut]"]
    for name, values in lists.items():
        lines += [f"{name} ="] if len(values) > 1 else [f"{name} = {values[0]}"]
        lines += [f"    {value}" for value in values] if len(values) > 1 else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
