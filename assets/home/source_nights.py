"""The nights of a firm's organisations: each is taken by a process of its own, with its own key.

Nothing of one organisation's settings is known to the process of another, nor to the firm's.
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

from assets.console.declaration import A_PERSON_MUST_DECIDE, DONE, FAILED
from assets.console.invocation import full_command
from assets.nightbook import ERROR, INFO, WARNING, Tell
from warehouse.contract.model import and_more
from warehouse.database.firm.load import lost_nights
from warehouse.query.connect import QueryFailed
from warehouse.query.firm_state import KnownSources, read_known_sources
from warehouse.query.printable import printable
from warehouse.storage.firm import FIRM, Firm, Source
from warehouse.storage.layout import Layout

LONGEST_REASON = 500
SHOWN = 3
# Of the firm's own process: what an organisation is to go by stands in its own `.env`.
_NOT_INHERITED = ("NIGHTBOOK_", "DAGSTER_")
LEVELS = {DONE: INFO, A_PERSON_MUST_DECIDE: WARNING}


@dataclass(frozen=True, slots=True)
class SourceRun:
    """How the night of one organisation ended: its exit code, and its last words."""

    source: str
    code: int
    words: str


def shard_of(source: Source, shards: int) -> int:
    """Return the part of a firm, from 1, that an organisation is in whatever others there are."""
    return int.from_bytes(hashlib.sha256(source.name.encode()).digest()[:8]) % shards + 1


def sources_of(firm: Firm, shard: int | None) -> tuple[Source, ...]:
    """Return the organisations of a part of a firm, or all of them."""
    if shard is None:
        return firm.sources
    return tuple(source for source in firm.sources if shard_of(source, firm.shards) == shard)


def find_problems(layout: Layout, firm: Firm) -> dict[str, str]:
    """Find each organisation whose home is not the one that the firm's book knows, and why."""
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
        return f"its folder {source.folder} is not there"
    try:
        if known and (nights := known.nights.get(source.name)):
            return lost_nights(source.layout, nights)
        has_nights = any(source.layout.landing.glob("*/*"))
    except OSError as error:
        return f"{source.layout.home} cannot be read: {error.strerror}"
    if has_nights or not (doubt := _doubt(source, known, names)):
        return ""
    return (
        f"{source.layout.home} has no nights, and {doubt}. Is its disk mounted? Nothing was "
        "started there. If this organisation is new, take its first night: "
        f"{full_command(source.layout, 'run', folder=source.folder)}"
    )


def _doubt(source: Source, known: KnownSources | None, names: Collection[str]) -> str:
    """Say why a home without nights may be one that had some; empty if there is no reason."""
    if known is None:
        return "the firm's book, which knows whether it had some, cannot be read"
    if left := known.left_since(source.name, names):
        return f"{FIRM} no longer names {and_more(left, SHOWN)}, which may be its older name"
    return ""


def take_nights(
    sources: Iterable[Source],
    at_once: int,
    *,
    day: date | None,
    unless_taken: bool,
    tell: Tell,
    problems: Mapping[str, str] | None = None,
    command: Sequence[str] = (sys.executable, "-m", "assets.cli", "run"),
) -> list[SourceRun]:
    """Take the night of each, so many side by side; one that fails costs no other its night.

    An organisation of which `problems` tell is not started: its home would begin anew.
    """
    options = [*(("--date", day.isoformat()) if day else ()), *(["--unless-taken"] * unless_taken)]

    def take(source: Source) -> SourceRun:
        if problem := (problems or {}).get(source.name):
            ended = SourceRun(source.name, FAILED, problem)
        else:
            ended = _take([*command, *options], source)
        tell(
            printable(f"{source.name}: {ended.words}"),
            event="source",
            level=LEVELS.get(ended.code, ERROR),
        )
        return ended

    with ThreadPoolExecutor(at_once, "source") as pool:
        return list(pool.map(take, sources))


def _take(command: Sequence[str], source: Source) -> SourceRun:
    """Run one night where its `.env` lies; its last line of the log says how it ended."""
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith(_NOT_INHERITED)
    }
    # Nothing in that folder, such as the `warehouse` of its home, is taken for a module.
    variables["PYTHONSAFEPATH"] = "1"
    try:
        done = subprocess.run(
            command,
            cwd=source.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
    except OSError as error:
        return SourceRun(source.name, 1, f"its run could not be started: {error}")
    complaint = done.stderr.decode(errors="replace").strip()
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    words = complaint if done.returncode and complaint else _words(lines[-1] if lines else "")
    if done.returncode not in (DONE, A_PERSON_MUST_DECIDE):
        words = f"its run ended with exit code {done.returncode}: {words or 'it said nothing'}"
    return SourceRun(source.name, done.returncode, words[:LONGEST_REASON])


def _words(line: str) -> str:
    """Return what a line of the log says, or the line itself."""
    try:
        content = json.loads(line)
    except ValueError:
        return line
    return str(content.get("words", line)) if isinstance(content, dict) else line
