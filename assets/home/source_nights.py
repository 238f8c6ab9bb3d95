"""The nights of a firm's organisations: each is taken by a process of its own, with its own key.

Nothing of one organisation's settings is known to the process of another, nor to the firm's.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

from assets.console.declaration import A_PERSON_MUST_DECIDE, DONE
from assets.nightbook import ERROR, INFO, WARNING, Tell
from warehouse.query.printable import printable
from warehouse.storage.firm import Firm, Source

LONGEST_REASON = 500
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


def take_nights(
    sources: Iterable[Source],
    at_once: int,
    *,
    day: date | None,
    unless_taken: bool,
    tell: Tell,
    command: Sequence[str] = (sys.executable, "-m", "assets.cli", "run"),
) -> list[SourceRun]:
    """Take the night of each, so many side by side; one that fails costs no other its night."""
    options = [*(("--date", day.isoformat()) if day else ()), *(["--unless-taken"] * unless_taken)]

    def take(source: Source) -> SourceRun:
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
