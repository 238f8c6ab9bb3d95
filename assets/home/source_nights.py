"""The nights of a firm's organisations, each pulled in a separate process with its own key.

No process has access to the settings of another organisation or of the firm.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

from assets.console.exit_codes import A_PERSON_MUST_DECIDE, DONE, FAILED
from assets.console.invocation import full_command
from assets.nightbook import ERROR, INFO, WARNING, EventCallback
from warehouse.contract.model import and_more
from warehouse.database.firm.load import lost_nights
from warehouse.query.connect import QueryFailed
from warehouse.query.firm_state import KnownSources, read_known_sources
from warehouse.query.formats import printable
from warehouse.storage.firm import FIRM, Firm, Source
from warehouse.storage.layout import Layout

MAX_MESSAGE = 500
MAX_NAMED = 3
# Prefixes of settings that an organisation does not inherit from the firm, because each
# organisation has its own `.env`.
_NOT_INHERITED = ("NIGHTBOOK_", "DAGSTER_")
LEVELS = {DONE: INFO, A_PERSON_MUST_DECIDE: WARNING}


@dataclass(frozen=True, slots=True)
class SourceRun:
    """The result of one organisation's night: its exit code and last message."""

    source: str
    code: int
    words: str


def shard_of(source: Source, shards: int) -> int:
    """Return the number of the shard (a group of organisations) to which an organisation belongs.

    The number starts at 1. It depends only on the organisation's name and the number of shards.
    """
    return int.from_bytes(hashlib.sha256(source.name.encode()).digest()[:8]) % shards + 1


def sources_of(firm: Firm, shard: int) -> tuple[Source, ...]:
    """Return the organisations in one shard of a firm."""
    return tuple(source for source in firm.sources if shard_of(source, firm.shards) == shard)


def find_problems(layout: Layout, firm: Firm) -> dict[str, str]:
    """Return a message for each organisation whose home is unusable or has lost nights."""
    known: KnownSources | None = KnownSources({}, {})
    if layout.database.exists():
        try:
            known = read_known_sources(layout.database)
        except QueryFailed:
            known = None
    names = {source.name for source in firm.sources}
    problems = {source.name: _problem(source, known, names) for source in firm.sources}
    return {name: problem for name, problem in problems.items() if problem}


def _problem(source: Source, known: KnownSources | None, names: Collection[str]) -> str:
    if source.problem:
        return source.problem
    if not source.folder.is_dir():
        return f"its folder {source.folder} does not exist"
    try:
        if known and (nights := known.nights.get(source.name)):
            return lost_nights(source.layout, nights)
        has_nights = any(source.layout.landing.glob("*/*"))
    except OSError as error:
        return f"{source.layout.home} cannot be read: {error.strerror}"
    if has_nights or not (doubt := _doubt(source, known, names)):
        return ""
    return (
        f"{source.layout.home} has no nights, and {doubt}. Is its disk mounted? Its run was not "
        "started. If this organisation is new, pull its first night: "
        f"{full_command(source.layout, 'run', folder=source.folder)}"
    )


def _doubt(source: Source, known: KnownSources | None, names: Collection[str]) -> str:
    """Return a reason to suspect that an empty home has lost its nights, or an empty string."""
    if known is None:
        return "the firm's book, which would show its earlier nights, cannot be read"
    if left := known.left_since(source.name, names):
        return f"{FIRM} no longer lists {and_more(left, MAX_NAMED)}, possibly an earlier name of it"
    return ""


def take_nights(
    sources: Iterable[Source],
    at_once: int,
    *,
    day: date | None,
    unless_taken: bool,
    tell: EventCallback,
    problems: Mapping[str, str] | None = None,
    command: Sequence[str] = (sys.executable, "-m", "assets.cli", "run"),
) -> list[SourceRun]:
    """Pull the night of each organisation, at most `at_once` at a time.

    If a night fails, the other nights are still pulled. An organisation with a problem is
    skipped, because its run would create a new home.
    """
    options = [*(("--date", day.isoformat()) if day else ()), *(["--unless-taken"] * unless_taken)]

    def take(source: Source) -> SourceRun:
        if problem := (problems or {}).get(source.name):
            run = SourceRun(source.name, FAILED, problem)
        else:
            run = _take([*command, *options], source)
        tell(
            printable(f"{source.name}: {run.words}"),
            event="source",
            level=LEVELS.get(run.code, ERROR),
        )
        return run

    with ThreadPoolExecutor(at_once, "source") as pool:
        return list(pool.map(take, sources))


def _take(command: Sequence[str], source: Source) -> SourceRun:
    """Run the nightly job in an organisation's folder. Return its last log line or its error."""
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)
    }
    # Keep Python from importing modules from the organisation's folder, which may contain a folder
    # named `warehouse`.
    variables["PYTHONSAFEPATH"] = "1"
    try:
        process = subprocess.run(
            command,
            cwd=source.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        return SourceRun(source.name, 1, f"its run could not be started: {error}")
    errors = process.stderr.decode(errors="replace").strip()
    lines = process.stdout.decode(errors="replace").strip().splitlines()
    message = errors if process.returncode and errors else _message(lines[-1] if lines else "")
    if process.returncode not in (DONE, A_PERSON_MUST_DECIDE):
        message = f"its run ended with exit code {process.returncode}: {message or 'no message'}"
    return SourceRun(source.name, process.returncode, message[:MAX_MESSAGE])


def _message(line: str) -> str:
    """Return the message from a log line, or the line itself if it is not JSON."""
    try:
        content = json.loads(line)
    except ValueError:
        return line
    return str(content.get("words", line)) if isinstance(content, dict) else line
