"""Checks of a home right after an interruption and after the next run, once for each disk."""

import hashlib
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.crash import model
from tests.crash.children import armed, forked
from tests.crash.scenarios import SCENARIOS, Scenario, books, damage, decided, lake, left_over, view
from warehouse.storage.layout import Layout, digest_of


def judged(scenario: Scenario, home: Path, expected: Any, *, mode: str, quick: bool) -> Any:
    """Return the problems of a home before and after the next run. Check each disk only once."""
    is_unmade = scenario.is_unmade(mode)
    disk = (scenario.name, digest(home), is_unmade, quick)
    is_new = disk not in _JUDGED
    if is_new:
        status, told = forked(
            lambda: wrong(scenario, home, expected, is_unmade=is_unmade, quick=quick)
        )
        died = f"the reader or the next run died with {status}: {told.get('error')}"
        _JUDGED[disk], known = told.get("value", [[died], {}])
        _KNOWN.update(known)
    return {"problems": _JUDGED[disk], "new": is_new}


_JUDGED: dict[tuple[str, str, bool, bool], list[str]] = {}
_KNOWN: dict[str, Any] = {}


def digest(home: Path) -> str:
    """Return a digest of all names, modes, links and bytes, except the bytes of half-made files."""
    told = hashlib.sha256()
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        if name.startswith((".work", ".lock")):
            continue
        if path.is_symlink():
            what = str(path.readlink())
        elif path.is_file() and model.HALF_MADE.search(name):
            what = "half-made"
        else:
            what = f"{path.stat().st_mode:o} {digest_of(path) if path.is_file() else ''}"
        told.update(f"{name}\0{what}\0".encode())
    return told.hexdigest()


def wrong(scenario: Scenario, home: Path, expected: Any, *, is_unmade: bool, quick: bool) -> Any:
    """Return the problems before the next run, or else those after it, and all known results.

    The shim watches all of it: equal disks may differ in half-made files, so no step may read them.
    """
    log, left = home.with_name("watched.log"), model.half_made(home)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with armed(home, "watched", 0, descriptor):
        problems = seen(home, expected, is_unmade=is_unmade)
        if not problems and not quick:
            problems = recovered(scenario, home, expected)
    os.close(descriptor)
    problems += [f"half-made and yet read: {one}" for one in model.peeks(log, left)]
    return problems, _KNOWN


def known(question: Callable[[Path], Any], home: Path) -> Any:
    """Return the result of a question about the published file. Ask only once for equal bytes."""
    file = Layout(home).database
    if not file.exists():
        return question(home)
    about = f"{question.__name__} {digest_of(file)}"
    if about not in _KNOWN:
        _KNOWN[about] = question(home)
    return _KNOWN[about]


def seen(home: Path, expected: Any, *, is_unmade: bool) -> list[str]:
    """Return the problems before the next run. Readers must see a whole old or a whole new book."""
    try:
        shown = known(view, home)
    except Exception as error:  # noqa: BLE001 - a reader may meet any error
        return [f"readers are refused: {type(error).__name__}: {error}"]
    problems = [] if shown in expected["views"] else ["readers see neither the old nor the new"]
    found = damage(home, is_unmade=is_unmade)
    return problems + [f"right after: {one}" for one in found]


def recovered(scenario: Scenario, home: Path, expected: Any) -> list[str]:
    """Start the next run without help, and return the problems after it."""
    try:
        scenario.again(home, scenario.moment + timedelta(hours=1))
    except Exception:  # noqa: BLE001 - the run may meet any error
        return [f"the next run failed: {traceback.format_exc()[-1500:]}"]
    problems = [f"after the next run: {one}" for one in damage(home)]
    found = known(books, home) | lake(home)
    if found != expected["outcome"]:
        odd = sorted(name for name, _ in found.items() ^ expected["outcome"].items())
        problems.append(f"after the next run not as an undisturbed run leaves it: {odd}")
    now = decided(home)
    odd = sorted(one for one, told in expected["decided"].items() if now.get(one) != told)
    problems += [f"after the next run other decisions of {one}: {now.get(one)}" for one in odd]
    if scenario.act is not SCENARIOS["prune"].act:
        problems += [f"left over: {one}" for one in left_over(home)]
    return problems
