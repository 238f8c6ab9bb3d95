"""A person's own checks: the SQL files in `checks/` of the home, whose rows are findings.

A file begins with comment lines. `-- severity: high` and `-- alert: yes` are settings, and the
first other line is the meaning of the check. Each check runs in a child process with limits.
"""

import importlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from warehouse.contract.model import count_of
from warehouse.query.child import LIMITS, attempt, raise_error, run_query
from warehouse.query.errors import QueryFailed
from warehouse.query.formats import text
from warehouse.reference.child import UnusedLine
from warehouse.reference.dropped_file import display_name, read_file_bytes

CHECK_SECONDS, TOTAL_SECONDS = 10.0, 30.0
MAX_BYTES = 256 * 1024
MAX_CHECKS, MAX_ROWS, MAX_COUNTED = 100, 100, 100_000
MAX_CHARACTERS = 400
_SETTING = re.compile(r"(\w+)\s*:(?!//)\s*(.*)")
_ALLOWED = {"severity": ("high", "medium", "low"), "alert": ("no", "yes")}


class OwnFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A row of `ops.own_findings`, without its date and number."""

    kind: str
    name: str
    severity: str
    portfolio_id: str | None = None
    venue_id: str | None = None
    words: str
    is_alert: bool = False


class OwnCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check file: its query, the settings in its header, and the problems of the header."""

    name: str
    sql: str
    meaning: str
    severity: str
    is_alert: bool
    problems: Sequence[str]

    def failure(self, reason: str) -> OwnFinding:
        """Return the finding for a check that did not give an answer."""
        return _failure(self.name, reason, is_alert=self.is_alert)


def run_own_checks(folder: Path, database: Path) -> Iterator[OwnFinding]:
    """Run each check in a folder on a published file, and yield its findings."""
    deadline = time.monotonic() + TOTAL_SECONDS
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".sql")
    except OSError as error:
        yield _failure(folder.name, f"the folder cannot be read: {error.strerror}")
        return
    if len(paths) > MAX_CHECKS:
        yield _failure(folder.name, f"it has {len(paths):,} checks. The first {MAX_CHECKS} are run")
    for path in paths[:MAX_CHECKS]:
        check = _read(path)
        if isinstance(check, OwnFinding):
            yield check
            continue
        yield from (check.failure(problem) for problem in check.problems)
        if (seconds := min(CHECK_SECONDS, deadline - time.monotonic())) <= 0:
            yield check.failure(f"the other checks already took {TOTAL_SECONDS:g} seconds")
        else:
            yield from _run(check, database, seconds)


def answer(request: bytes) -> bytes:
    """Run a check in the child process. Return its first rows as words, and their number."""
    return json.dumps(attempt(_answer, json.loads(request))).encode()


def _answer(database: str, sql: str, limit: int) -> dict[str, Any]:
    read = importlib.import_module("warehouse.query.read")
    with read.asking(Path(database), sql, is_typed=True) as connection:
        names = [str(column[0]) for column in connection.description or ()]
        rows = [_cells(names, row) for row in connection.fetchmany(limit)]
        count = len(rows)
        while count < MAX_COUNTED and (more := connection.fetchmany(1000)):
            count += len(more)
    return {"rows": rows, "count": count}


def _cells(names: Sequence[str], row: Sequence[object]) -> dict[str, str | None]:
    """Return the texts of a row: two keys, and all other columns as words."""
    cells = {name: None if cell is None else text(cell) for name, cell in zip(names, row)}  # noqa: B905 - two columns may have the same name
    keys = {name: cells.pop(name, None) for name in ("portfolio_id", "venue_id")}
    words = cells.pop("words", None) or ""
    others = (f"{name}={'NULL' if cell is None else cell}" for name, cell in cells.items())
    cut = {name: cell and cell[:MAX_CHARACTERS] for name, cell in keys.items()}
    return cut | {"words": _one_line(f"{words} {', '.join(others)}")}


def _run(check: OwnCheck, database: Path, seconds: float) -> Iterator[OwnFinding]:
    limits = replace(LIMITS, seconds=seconds)
    try:
        result = json.loads(run_query(f"{__name__}:answer", database, check.sql, MAX_ROWS, limits))
        raise_error(result)
    except (QueryFailed, OSError) as error:
        yield check.failure(str(error))
        return
    count, about = result["count"], f"{check.name}: {check.meaning}".strip()
    found = [{**row, "words": f"{about} {row['words']}".strip()} for row in result["rows"]]
    if count > len(found):
        number = "at least " * (count >= MAX_COUNTED) + count_of(count, "row")
        found.append({"words": f"{about} It found {number}. The first {MAX_ROWS} are findings."})
    for row in found:
        yield OwnFinding(
            kind="own_check",
            name=check.name,
            severity=check.severity,
            is_alert=check.is_alert,
            **row,
        )


def _failure(name: str, reason: str, *, is_alert: bool = False) -> OwnFinding:
    words = _one_line(f"{name} could not be used: {reason}")
    return OwnFinding(
        kind="own_check_failed", name=name, severity="high", words=words, is_alert=is_alert
    )


def _read(path: Path) -> OwnCheck | OwnFinding:
    """Read a check file, or return the finding that says why it cannot be read."""
    name, content = _one_line(display_name(path)), read_file_bytes(path, (".sql",), MAX_BYTES)
    if isinstance(content, UnusedLine):
        return _failure(name, content.reason)
    try:
        return _parse(name, content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return _failure(name, "the file is not UTF-8 text")


def _parse(name: str, sql: str) -> OwnCheck:
    meaning, settings, problems = "", dict[str, str](), list[str]()
    for line in takewhile(lambda line: line.startswith("--"), sql.strip().splitlines()):
        words = line.lstrip("-").strip()
        match = _SETTING.fullmatch(words)
        key, value = (match[1].lower(), match[2].lower()) if match else ("", "")
        if not match:
            meaning = meaning or words
        elif value in _ALLOWED.get(key, ()) and key not in settings:
            settings[key] = value
        else:
            expected = "; ".join(f"{key}: {' or '.join(_ALLOWED[key])}" for key in _ALLOWED)
            problems.append(f"its header has the line {words!r}. Expected at most once: {expected}")
    return OwnCheck(
        name=name,
        sql=sql,
        meaning=_one_line(meaning),
        severity=settings.get("severity", "medium"),
        is_alert=settings.get("alert") == "yes",
        problems=problems,
    )


def _one_line(words: str) -> str:
    """Return words on one line, at most as long as a finding may be."""
    return " ".join(words.split())[:MAX_CHARACTERS]
